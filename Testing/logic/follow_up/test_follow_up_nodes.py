"""Points and lines of the scene: they show the record, and the user's hand on them changes it."""

import numpy as np
import slicer
import vtk
from follow_up_bench import LINES, LONG, SHORT, drag
from scans import add_transform, turned

from AnatomicalEmbedding.followup.lesions import MARKED, MOVED, Measurement
from AnatomicalEmbeddingLib.shared.SceneNodes import parentName


def hierarchy_path(scene, node):
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    item, names = hierarchy.GetItemByDataNode(node), []
    while (item := hierarchy.GetItemParent(item)) != hierarchy.GetSceneItemID():
        names.append(hierarchy.GetItemName(item))
    return names


def test_states_are_reported_by_label_colour_and_description(bench, pair):
    prior, current = pair
    bench.logic.mark(prior, (1.0, 2.0, 3.0))
    bench.propose(current, prior)
    marked, proposed = bench.list_in(prior), bench.list_in(current)
    assert bench.labels(prior) == ["L1"]
    assert marked.GetNthControlPointSelected(0)
    assert bench.labels(current) == ["L1 proposed"]
    assert not proposed.GetNthControlPointSelected(0)
    assert proposed.GetDisplayNode().GetColor() != proposed.GetDisplayNode().GetSelectedColor()
    assert proposed.GetNthControlPointDescription(0) == "proposed: expected error 3.2 mm"
    bench.logic.confirm("L1", current)
    assert bench.labels(current) == ["L1"]
    assert proposed.GetNthControlPointSelected(0)
    assert proposed.GetNthControlPointDescription(0) == "confirmed"


def test_points_lie_where_the_volume_was_moved_to(bench):
    volume = bench.study("20230101")
    matrix = turned(30, (10, -20, 40))
    volume.SetAndObserveTransformNodeID(add_transform(bench.scene, matrix).GetID())
    (study,) = bench.open()
    bench.logic.mark(study, (1.0, 2.0, 3.0))
    expected = (matrix @ [1.0, 2.0, 3.0, 1.0])[:3]
    assert np.allclose(bench.list_in(study).GetNthControlPointPositionWorld(0), expected)
    assert np.allclose(bench.logic.placeOf("L1", study), expected)
    bench.logic.placeLesion()
    bench.click(volume, expected)
    assert np.allclose(bench.finding(study, "L2").point_ras, (1.0, 2.0, 3.0))


def test_nodes_lie_in_a_folder_under_their_study(bench, pair):
    bench.logic.mark(pair[0], (1.0, 2.0, 3.0))
    bench.logic.measure("L1", pair[0], LONG, SHORT)
    for node in (bench.list_in(pair[0]), bench.line("L1 long"), bench.line("L1 short")):
        assert hierarchy_path(bench.scene, node) == ["Lesions", "study 20230101", "Miller"]
    assert parentName(bench.scene, bench.nodes("vtkMRMLTextNode")[0]) == "Miller"


def test_a_point_that_is_dragged_is_moved_and_can_be_undone(bench, pair):
    prior, current = pair
    touched = []
    bench.logic.touched.connect(lambda *where: touched.append(where))
    bench.logic.mark(prior, (1.0, 2.0, 3.0))
    bench.propose(current, prior)
    drag(bench.list_in(current), 0, (20.0, 20.0, 20.0))
    assert bench.finding(current).state == MOVED
    assert bench.finding(current).point_ras == (20.0, 20.0, 20.0)
    assert bench.finding(prior).point_ras == (1.0, 2.0, 3.0)
    assert touched == [("L1", current)]
    bench.logic.undo()
    assert not bench.finding(current).reviewed
    assert tuple(bench.list_in(current).GetNthControlPointPosition(0)) == (1.0, 2.0, 3.0)
    bench.logic.redo()
    assert tuple(bench.list_in(current).GetNthControlPointPosition(0)) == (20.0, 20.0, 20.0)


def test_carried_axes_go_with_a_point_that_is_dragged_and_accepted_ones_stay(bench, pair):
    prior, current = pair
    bench.logic.mark(prior, (0.0, 0.0, 0.0))
    bench.logic.measure("L1", prior, LONG, SHORT)
    bench.propose(current, prior, place=(0.0, 0.0, 0.0), size=Measurement(LONG, SHORT))
    for study in pair:
        drag(bench.list_in(study), 0, (0.0, 0.0, 5.0))
    assert bench.finding(prior).size.long_axis == LONG
    assert bench.finding(current).size.long_axis == ((-10.0, 0.0, 5.0), (10.0, 0.0, 5.0))


def test_an_end_that_is_dragged_measures(bench, pair):
    prior, _current = pair
    bench.logic.mark(prior, (0.0, 0.0, 0.0))
    bench.logic.measure("L1", prior, LONG, SHORT)
    drag(bench.line("L1 long"), 1, (20.0, 0.0, 0.0))
    size = bench.finding(prior).size
    assert size.long_mm == 30.0
    assert size.short_axis == SHORT
    bench.logic.undo()
    assert bench.finding(prior).size.long_mm == 20.0
    assert abs(bench.line("L1 long").GetMeasurement("length").GetValue() - 20.0) < 1e-6


def test_lines_are_there_for_the_studies_that_are_shown(bench, pair):
    for study in pair:
        bench.logic.mark(study, (0.0, 0.0, 0.0), "L1" if study != pair[0] else None)
        bench.logic.measure("L1", study, LONG, SHORT)
    assert len(bench.nodes(LINES)) == 4
    bench.logic.setShown([bench.logic.volumes[pair[1]]])
    shown = {node.GetNodeReference("AnatomicalEmbedding.Volume") for node in bench.nodes(LINES)}
    assert shown == {bench.logic.volumes[pair[1]]}
    bench.logic.remove("L1")
    assert not bench.nodes(LINES)


def test_what_is_deleted_in_the_scene_is_put_back_with_a_sentence(bench, pair):
    prior, _current = pair
    bench.logic.mark(prior, (0.0, 0.0, 0.0))
    bench.logic.mark(prior, (5.0, 0.0, 0.0))
    bench.logic.measure("L1", prior, LONG, None)
    bench.list_in(prior).RemoveNthControlPoint(0)
    bench.logic.poll()
    assert bench.labels(prior) == ["L1 20.0 mm", "L2"]
    assert bench.reported[-1].startswith("L1: its point was put back")
    bench.delete(bench.list_in(prior))
    bench.delete(bench.line("L1 long"))
    bench.logic.poll()
    assert bench.labels(prior) == ["L1 20.0 mm", "L2"]
    assert bench.finding(prior).size.long_axis == LONG
    assert bench.line("L1 long").GetNumberOfControlPoints() == 2
    assert all(bench.finding(prior, lesion).state == MARKED for lesion in ("L1", "L2"))


def test_points_keep_their_lesions_when_one_is_removed(bench, pair):
    prior, _current = pair
    for x in (0.0, 5.0, 10.0):
        bench.logic.mark(prior, (x, 0.0, 0.0))
    bench.logic.remove("L2")
    drag(bench.list_in(prior), 1, (11.0, 0.0, 0.0))
    assert bench.finding(prior, "L3").point_ras == (11.0, 0.0, 0.0)
    assert bench.finding(prior, "L1").point_ras == (0.0, 0.0, 0.0)


def test_a_point_put_into_the_list_with_slicers_own_tools_is_a_new_lesion(bench, pair):
    bench.logic.mark(pair[0], (0.0, 0.0, 0.0))
    bench.list_in(pair[0]).AddControlPoint(vtk.vtkVector3d(7.0, 8.0, 9.0), "mine")
    bench.logic.poll()
    assert bench.labels(pair[0]) == ["L1", "L2"]
    assert bench.finding(pair[0], "L2").point_ras == (7.0, 8.0, 9.0)
