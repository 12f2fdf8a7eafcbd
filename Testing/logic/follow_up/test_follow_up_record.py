"""Test the record of a patient's lesions in the scene: saving, loading, undo and redo."""

from follow_up_bench import LINES, LISTS, LONG, SHORT, FollowUpBench

from AnatomicalEmbedding.followup.lesions import CONFIRMED, NOT_VISIBLE
from AnatomicalEmbedding.followup.record import FollowUp
from slicer_kit.scene import read_mrb, write_mrb

TEXTS = "vtkMRMLTextNode"


def reopened(scene, path):
    """The scene in a new session, as read from a file."""
    scene.Clear(0)
    read_mrb(scene, path)
    return FollowUpBench(scene)


def test_everything_is_there_again_after_saving(bench, pair, tmp_path):
    prior, current = pair
    bench.logic.mark(prior, (1.0, 2.0, 3.0))
    bench.logic.apply(FollowUp.describe, "L1", name="apex", site="lung", nodal=True)
    bench.logic.measure("L1", prior, LONG, SHORT)
    bench.propose(current, prior)
    before = bench.logic.record
    path = write_mrb(bench.scene, tmp_path / "follow-up.mrb")
    other = reopened(bench.scene, path)
    try:
        assert other.open() == pair
        assert other.logic.record == before
        assert other.labels(prior) == ["L1 apex 20.0 \u00d7 12.0 mm"]
        assert other.labels(current) == ["L1 apex proposed"]
        assert len(other.nodes(LISTS)) == 2, "the lists of the file are used"
        assert sorted(node.GetName() for node in other.nodes(LINES)) == ["L1 long", "L1 short"]
        assert len(other.nodes(TEXTS)) == 1
        other.logic.apply(FollowUp.confirm, "L1", current)
        assert other.finding(current).state == CONFIRMED
    finally:
        other.close()


def test_patients_are_kept_apart_and_found_again(bench, tmp_path):
    for person in ("Miller", "Smith"):
        bench.study("20230101", person)
        bench.study("20240101", person)
    miller = bench.open(0)
    bench.logic.mark(miller[0], (1.0, 1.0, 1.0))
    smith = bench.open(1)
    assert bench.logic.record.lesions == ()
    bench.logic.mark(smith[0], (2.0, 2.0, 2.0))
    bench.logic.mark(smith[1], (3.0, 3.0, 3.0))
    other = reopened(bench.scene, write_mrb(bench.scene, tmp_path / "two.mrb"))
    try:
        other.open(0)
        assert [lesion.id for lesion in other.logic.record.lesions] == ["L1"]
        other.open(1)
        assert [lesion.id for lesion in other.logic.record.lesions] == ["L1", "L2"]
        assert [node.GetName() for node in other.nodes(TEXTS)] == [
            "Follow-up of Miller",
            "Follow-up of Smith",
        ]
    finally:
        other.close()


def test_a_study_whose_volume_goes_keeps_what_was_entered(bench, pair, tmp_path):
    prior, current = pair
    bench.logic.mark(current, (1.0, 2.0, 3.0))
    bench.logic.apply(FollowUp.not_visible, "L1", prior)
    bench.delete(bench.logic.volumes[prior])
    assert list(bench.logic.volumes) == [current]
    assert bench.open() == [current]
    assert [study.key for study in bench.logic.record.studies] == pair, "in its place in time"
    assert bench.finding(prior).state == NOT_VISIBLE
    other = reopened(bench.scene, write_mrb(bench.scene, tmp_path / "one.mrb"))
    try:
        other.open()
        assert [study.label for study in other.logic.record.studies] == ["2023-01-01", "2024-01-01"]
        assert other.finding(prior).state == NOT_VISIBLE
    finally:
        other.close()


def test_a_follow_up_that_cannot_be_read_is_reported_and_left_alone(bench, pair):
    broken = bench.scene.AddNewNodeByClass(TEXTS, "Broken")
    broken.SetAttribute("AnatomicalEmbedding.FollowUp", "Miller")
    broken.SetText('{"format": "something else"}')
    bench.logic.setPatient(None)
    bench.open()
    assert bench.reported
    assert bench.reported[-1].startswith("Broken: this is not a follow-up record")
    bench.logic.mark(pair[0], (1.0, 2.0, 3.0))
    assert broken.GetText() == '{"format": "something else"}'
    assert len(bench.nodes(TEXTS)) == 2


def test_undo_and_redo_of_each_thing_the_user_says(bench, pair):
    prior, current = pair
    logic = bench.logic
    steps = [
        lambda: logic.mark(prior, (0.0, 0.0, 0.0)),
        lambda: logic.measure("L1", prior, LONG, None),
        lambda: logic.mark(current, (0.0, 0.0, 1.0), "L1"),
        lambda: logic.mark(current, (0.0, 0.0, 2.0)),
        lambda: logic.apply(FollowUp.merge, "L2", current, "L1"),
        lambda: logic.apply(FollowUp.outside, "L1", current),
        lambda: logic.apply(FollowUp.not_visible, "L1", current),
        lambda: logic.apply(FollowUp.describe, "L1", name="apex"),
        lambda: logic.apply(FollowUp.remove, "L1"),
    ]
    states = [logic.record]
    for step in steps:
        step()
        assert logic.record != states[-1]
        states.append(logic.record)
    for expected in reversed(states[:-1]):
        logic.undo()
        assert logic.record == expected
    assert not logic.history.canUndo
    for expected in states[1:]:
        logic.redo()
        assert logic.record == expected
    assert not logic.history.canRedo
    logic.undo()
    logic.apply(FollowUp.describe, "L1", site="lung")
    assert not logic.history.canRedo, "what was undone is not mixed with what came after"


def test_closing_the_scene_empties_the_logic(bench, pair):
    bench.logic.mark(pair[0], (1.0, 2.0, 3.0))
    bench.logic.placeLesion()
    bench.scene.Clear(0)
    assert bench.logic.patient is None
    assert bench.logic.volumes == {}
    assert bench.logic.record.lesions == ()
    bench.logic.poll()
