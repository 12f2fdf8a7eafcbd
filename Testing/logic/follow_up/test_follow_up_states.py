"""What can come in an odd order: undo and deleted studies, two panels, Slicer's own tools, drags and new places."""

import json

import numpy as np
import pytest
import vtk
from follow_up_bench import LISTS, LONG, SHORT, FollowUpBench, drag

from AnatomicalEmbedding.followup.lesions import MARKED, MOVED, NOT_VISIBLE, PROPOSED

TEXTS = "vtkMRMLTextNode"


# -- studies that go


def test_redo_brings_a_study_back_whose_volume_is_gone(bench, pair):
    prior, current = pair
    bench.logic.mark(prior, (1.0, 2.0, 3.0))
    bench.logic.notVisible("L1", current)
    bench.logic.undo()
    bench.delete(bench.logic.volumes[current])
    bench.open()
    assert [study.key for study in bench.logic.record.studies] == [prior]
    bench.logic.redo()
    assert [study.key for study in bench.logic.record.studies] == pair, "in its place in time"
    assert bench.finding(current).state == NOT_VISIBLE
    bench.logic.undo()
    assert [study.key for study in bench.logic.record.studies] == [prior]


def test_a_proposal_in_a_study_that_is_gone_is_nothing_to_look_at(bench, pair):
    from AnatomicalEmbeddingLib.followup.ActionRules import NEXT, whyNot
    from AnatomicalEmbeddingLib.followup.LesionChoice import nextStep

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
    assert whyNot(bench.logic, NEXT, "L2", current) == "There is no proposal left to review."
    assert "Still to review" not in nextStep(bench.logic)


def test_a_follow_up_comes_back_by_undo_where_its_first_study_is_gone(bench, pair):
    prior, current = pair
    bench.logic.mark(current, (1.0, 2.0, 3.0))
    bench.delete(bench.nodes(TEXTS)[0])
    bench.delete(bench.logic.volumes[prior])
    bench.logic.undo()
    assert bench.finding(current).state == MARKED
    assert len(bench.nodes(TEXTS)) == 1


def test_a_study_dated_anew_moves_and_keeps_its_undo(bench, pair):
    prior, _current = pair
    bench.logic.mark(prior, (1.0, 2.0, 3.0))
    bench.logic.volumes[prior].SetAttribute("AnatomicalEmbedding.StudyDate", "2025-05-05")
    bench.open()
    bench.logic.undo()
    assert [study.label for study in bench.logic.record.studies] == ["2024-01-01", "2025-05-05"]
    bench.logic.redo()
    assert bench.finding(prior).state == MARKED


def test_a_study_that_moves_to_another_patient_does_not_take_the_lesions_of_others_along(bench):
    own = [bench.study(day, "Miller") for day in ("20230101", "20240101")]
    strange = [bench.study(day, "Smith") for day in ("20230501", "20240501")]
    miller = bench.open(0)
    bench.logic.mark(miller[0], (1.0, 1.0, 1.0))
    smith = bench.open(1)
    bench.logic.mark(smith[0], (2.0, 2.0, 2.0))
    hierarchy = bench.scene.GetFirstNodeByClass("vtkMRMLSubjectHierarchyNode")
    person = hierarchy.GetItemByUID("DICOM", "Miller")
    hierarchy.SetItemParent(hierarchy.GetItemByDataNode(strange[1]), person)
    bench.open(0)
    assert bench.logic.volumes[smith[1]] is strange[1]
    assert [tuple(each.findings) for each in bench.logic.record.lesions] == [(miller[0],)]
    assert bench.finding(miller[0]).point_ras == (1.0, 1.0, 1.0)
    assert next(iter(bench.logic.volumes.values())) is own[0]


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


def test_a_panel_that_only_looks_on_shows_the_others_lesions_and_undoes_nothing(bench, other, pair):
    bench.logic.mark(pair[0], (1.0, 1.0, 1.0))
    bench.logic.mark(pair[0], (2.0, 2.0, 2.0))
    other.logic.poll()
    assert [lesion.id for lesion in other.logic.record.lesions] == ["L1", "L2"]
    assert not other.logic.canUndo


def test_a_scene_that_is_half_loaded_is_not_read(bench, pair):
    bench.logic.mark(pair[0], (1.0, 1.0, 1.0))
    (node,) = bench.nodes(TEXTS)
    bench.scene.StartState(bench.scene.BatchProcessState)
    node.SetText("")
    bench.logic.poll()
    assert node.GetText() == ""
    bench.scene.EndState(bench.scene.BatchProcessState)
    bench.logic.poll()
    assert bench.finding(pair[0]).state == MARKED


def test_a_follow_up_that_a_script_spoils_is_put_back(bench, pair):
    bench.logic.mark(pair[0], (1.0, 1.0, 1.0))
    (node,) = bench.nodes(TEXTS)
    node.SetText("{}")
    bench.logic.poll()
    assert bench.reported[-1].endswith("What it held before was put back.")
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


def test_the_label_of_a_proposal_keeps_its_state_and_stays_a_proposal(bench, pair):
    prior, current = pair
    bench.logic.mark(prior, (1.0, 1.0, 1.0))
    bench.propose(current, prior)
    bench.list_in(current).SetNthControlPointLabel(0, "L1 apex proposed")
    bench.logic.poll()
    assert bench.labels(current) == ["L1 apex proposed"]
    assert bench.labels(prior) == ["L1 apex"]
    bench.list_in(current).SetNthControlPointLabel(0, "L1 apex")
    bench.logic.poll()
    assert bench.labels(current) == ["L1 apex proposed"], "a label confirms nothing"
    assert bench.finding(current).state == PROPOSED


def test_coordinates_that_are_typed_move_the_lesion(bench, pair):
    prior, current = pair
    bench.logic.mark(prior, (1.0, 1.0, 1.0))
    bench.propose(current, prior)
    bench.list_in(current).SetNthControlPointPosition(0, 9.0, 8.0, 7.0)
    bench.logic.poll()
    assert bench.finding(current).state == MOVED
    assert bench.finding(current).point_ras == (9.0, 8.0, 7.0)
    bench.logic.undo()
    assert tuple(bench.list_in(current).GetNthControlPointPosition(0)) == (1.0, 2.0, 3.0)


def test_a_list_that_is_renamed_is_still_the_studys(bench, pair):
    bench.logic.mark(pair[0], (1.0, 1.0, 1.0))
    bench.list_in(pair[0]).SetName("my points")
    bench.logic.mark(pair[0], (2.0, 2.0, 2.0))
    bench.logic.poll()
    assert bench.list_in(pair[0]).GetName() == "my points"
    assert bench.labels(pair[0]) == ["L1", "L2"]


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


def test_a_list_that_is_deleted_during_a_drag_comes_back(bench, pair):
    bench.logic.mark(pair[0], (1.0, 1.0, 1.0))
    node = bench.list_in(pair[0])
    node.InvokeEvent(node.PointStartInteractionEvent)
    bench.delete(node)
    bench.logic.poll()
    assert bench.labels(pair[0]) == ["L1"]
    drag(bench.list_in(pair[0]), 0, (2.0, 2.0, 2.0))
    assert bench.finding(pair[0]).point_ras == (2.0, 2.0, 2.0)


def test_what_was_placed_elsewhere_is_no_lesion(bench, pair):
    own = bench.scene.AddNewNodeByClass(LISTS, "the user's")
    bench.logic.mark(pair[0], (1.0, 1.0, 1.0))
    own.AddControlPoint(vtk.vtkVector3d(*np.ones(3)))
    bench.logic.poll()
    assert len(bench.logic.record.lesions) == 1
