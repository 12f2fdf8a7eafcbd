"""What can come in an odd order: undo and deleted studies, two panels, Slicer's own tools, drags and new places."""

import json

import pytest
from follow_up_bench import LISTS, LONG, SHORT, FollowUpBench

from AnatomicalEmbedding.followup.lesions import MARKED

TEXTS = "vtkMRMLTextNode"


# -- studies that go


def test_a_proposal_in_a_study_that_is_gone_is_nothing_to_look_at(bench, pair):
    from AnatomicalEmbeddingLib.followup.LesionActions import NEXT, LesionActions, nextStep

    prior, current = pair
    for place in ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)):
        bench.logic.mark(prior, place)
    bench.logic.notVisible("L1", current)
    bench.propose(current, prior, "L2")
    assert bench.logic.openPlaces() == [("L2", current)]
    bench.delete(bench.logic.volumes[current])
    bench.open()
    assert [lesion.id for lesion, _study in bench.logic.record.unreviewed()] == ["L2"]
    assert bench.logic.openPlaces() == []
    actions = LesionActions(bench.logic)
    actions.choose("L2", current)
    assert actions.whyNot(NEXT) == "There is no proposal left to review."
    assert "Still to review" not in nextStep(bench.logic)


# -- two panels, and scripts


@pytest.fixture
def other(bench, pair):
    """A second panel at the same patient, over the same maps."""
    made = FollowUpBench(bench.scene, bench.store)
    made.open()
    yield made
    made.logic.close()


def test_two_panels_work_on_one_follow_up(bench, other, pair):
    bench.logic.mark(pair[0], (1.0, 1.0, 1.0))
    other.logic.mark(pair[0], (2.0, 2.0, 2.0))
    bench.logic.describe("L1", name="apex")
    for each in (bench, other):
        each.logic.poll()
        assert [lesion.label for lesion in each.logic.record.lesions] == ["L1 apex", "L2"]
    assert len(bench.nodes(TEXTS)) == 1
    assert len(bench.nodes(LISTS)) == 1
    assert bench.labels(pair[0]) == ["L1 apex", "L2"]
    other.logic.undo()
    bench.logic.poll()
    assert bench.logic.record.lesion("L1").name == ""
    assert bench.reported == other.reported == []


def test_a_follow_up_that_a_script_spoils_is_put_back(bench, pair):
    bench.logic.mark(pair[0], (1.0, 1.0, 1.0))
    (node,) = bench.nodes(TEXTS)
    node.SetText("{}")
    bench.logic.poll()
    assert bench.reported[-1].endswith("The record before it was put back.")
    assert json.loads(node.GetText())["lesions"][0]["id"] == "L1"
    assert bench.finding(pair[0]).state == MARKED


# -- Slicer's own tools


@pytest.mark.parametrize(
    ("label", "name"),
    [("apex", "apex"), ("L1 apex", "apex"), ("L1", ""), ("", ""), ("L12", "L12"), ("left lung", "left lung")],
)
def test_a_label_that_is_edited_renames_the_lesion(bench, pair, label, name):
    bench.logic.mark(pair[0], (1.0, 1.0, 1.0))
    bench.logic.describe("L1", name="old")
    bench.list_in(pair[0]).SetNthControlPointLabel(0, label)
    bench.logic.poll()
    assert bench.logic.record.lesion("L1").name == name
    assert bench.labels(pair[0]) == [f"L1 {name}".strip()]
    bench.logic.undo()
    assert bench.labels(pair[0]) == ["L1 old"]


def test_an_axis_that_is_deleted_is_put_back_with_a_sentence(bench, pair):
    bench.logic.mark(pair[0], (0.0, 0.0, 0.0))
    bench.logic.measure("L1", pair[0], LONG, SHORT)
    bench.delete(bench.line("L1 long"))
    bench.logic.poll()
    assert bench.line("L1 long").GetNumberOfControlPoints() == 2
    assert bench.reported[-1].startswith("L1: its long axis was put back.")
    bench.line("L1 short").RemoveNthControlPoint(0)
    bench.logic.poll()
    assert bench.line("L1 short").GetNumberOfControlPoints() == 2
    assert bench.reported[-1].startswith("L1: its short axis was put back.")
    assert bench.finding(pair[0]).size.long_axis == LONG


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
