"""Test events in an unusual order: deleted studies, places that arrive during a drag."""

from AnatomicalEmbedding.followup.record import FollowUp

# -- studies that go


def test_a_proposal_in_a_study_that_is_gone_is_nothing_to_look_at(bench, pair):
    from AnatomicalEmbeddingLib.followup.LesionActions import NEXT, LesionActions, nextStep

    prior, current = pair
    for place in ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)):
        bench.logic.mark(prior, place)
    bench.logic.apply(FollowUp.not_visible, "L1", current)
    bench.propose(current, prior, "L2")
    assert bench.logic.openPlaces() == [("L2", current)]
    bench.delete(bench.logic.volumes[current])
    bench.open()
    assert [lesion.id for lesion, _study in bench.logic.record.unreviewed()] == ["L2"]
    assert bench.logic.openPlaces() == []
    actions = LesionActions(bench.logic)
    actions.choose("L2", current)
    assert actions.whyNot(NEXT) == "There is no proposal left to review."
    assert "still to review" not in nextStep(bench.logic)


# -- while the mouse has a point


def test_places_that_come_in_during_a_drag_wait_until_it_ends(bench, pair):
    prior, current = pair
    for place in ((1.0, 1.0, 1.0), (5.0, 5.0, 5.0)):
        bench.logic.mark(prior, place)
    bench.logic.mark(current, (1.0, 1.0, 1.0), "L1")
    node = bench.list_in(current)
    node.InvokeEvent(node.PointStartInteractionEvent)
    node.SetNthControlPointPosition(0, 3.0, 3.0, 3.0)
    bench.propose(current, prior, "L2")
    bench.logic.poll()
    assert bench.labels(current) == ["L1"]
    assert tuple(node.GetNthControlPointPosition(0)) == (3.0, 3.0, 3.0)
    node.InvokeEvent(node.PointEndInteractionEvent)
    bench.logic.poll()
    assert bench.labels(current) == ["L1", "L2 proposed"]
    assert bench.finding(current).point_ras == (3.0, 3.0, 3.0)
