"""Test landmarks and answers that a user places, drags, renames, deletes, corrects and restores."""

import numpy as np
import vtk
from landmark_bench import NAMES, add_upper_half, tell
from scans import add_patient, add_points, patient

from AnatomicalEmbedding.matching.status import MATCHED
from AnatomicalEmbeddingLib.landmarks.AnswerList import MOVED


def click_in_target(bench, target, name: str) -> np.ndarray:
    """Click at a named point of patient 1 in a target's view, with an empty list; return the point, (3,) world mm."""
    bench.logic.setPoints(add_points(bench.scene, {}))
    points, place = bench.logic.points, patient(1).points_ras[name]
    with (
        bench.logic._writing
    ):  # the mouse sets the position and the view's volume before the point is defined
        index = points.AddControlPointWorld(vtk.vtkVector3d(*place), name)
        points.SetNthControlPointAssociatedNodeID(index, target.GetID())
    tell(points, "PointPositionDefinedEvent", index)
    return place


def test_a_click_in_a_targets_view_finds_the_place_in_the_template(bench, pair):
    place, points = click_in_target(bench, pair[1], "liver_dome"), bench.logic.points
    point_id = points.GetNthControlPointID(0)
    found = np.array(points.GetNthControlPointPositionWorld(0))
    assert np.linalg.norm(found - patient(0).points_ras["liver_dome"]) < 8.0
    assert np.allclose(bench.found(point_id, pair[1]), place)
    assert bench.answer(point_id, pair[1]).status == MOVED
    assert "placed in Current" in bench.reported[-1]


def test_a_click_at_a_place_that_the_template_does_not_show_places_nothing(bench, scene):
    target = add_patient(1, "Current")
    bench.ready(add_upper_half(0), target)
    click_in_target(bench, target, "kidney_left_lower_pole")
    points = bench.logic.points
    assert not points.GetNthControlPointVisibility(0)
    bench.logic.poll()
    assert points.GetNumberOfControlPoints() == 0
    assert bench.logic.rows() == []
    assert "not placed, because Upper half does not seem to show this place" in bench.reported[-1]


def test_answers_follow_a_drag_when_the_point_is_released(bench, pair):
    point_id = bench.place("liver_dome")
    before, points = bench.found(point_id, pair[1]), bench.logic.points
    tell(points, "PointStartInteractionEvent", 0)
    points.SetNthControlPointPositionWorld(0, *patient(0).points_ras["kidney_left_lower_pole"])
    assert np.allclose(bench.found(point_id, pair[1]), before)
    tell(points, "PointEndInteractionEvent", 0)
    assert np.linalg.norm(bench.found(point_id, pair[1]) - before) > 20


def test_undo_and_redo_restore_points_answers_and_ids(bench, pair):
    first, second = bench.place("liver_dome"), bench.place("diaphragm_dome_right")
    places = [bench.found(point_id, pair[1]) for point_id in (first, second)]
    bench.logic.points.RemoveNthControlPoint(0)
    bench.logic.undo()
    assert [row.pointId for row in bench.logic.rows()] == [first, second]
    assert np.allclose([bench.found(point_id, pair[1]) for point_id in (first, second)], places)
    bench.logic.redo()
    assert [row.pointId for row in bench.logic.rows()] == [second]
    bench.logic.undo()
    bench.logic.undo()
    assert [row.pointId for row in bench.logic.rows()] == [first]
    bench.logic.undo()
    assert bench.logic.rows() == []
    assert not bench.logic.history.canUndo


def test_a_point_that_follows_the_mouse_is_no_step_to_undo(bench, pair):
    bench.ready(*pair)
    bench.place(NAMES[0])
    points = bench.logic.points
    said: list[str] = []
    bench.logic.changed.connect(lambda: said.append("changed"))
    with bench.logic._writing:  # the mouse adds it as what it is, which Python cannot
        preview = points.AddControlPoint(vtk.vtkVector3d(0, 0, 0))
        points.SetNthControlPointPosition(preview, 0, 0, 0, points.PositionPreview)
    bench.logic.poll()
    said.clear()
    for move in range(3):
        points.SetNthControlPointPositionWorld(preview, move, 0, 0, points.PositionPreview)
        bench.logic.poll()
    assert said == []
    points.RemoveNthControlPoint(preview)  # the mouse leaves the view
    bench.logic.undo()
    assert bench.logic.rows() == []
    bench.logic.redo()
    assert [row.label for row in bench.logic.rows()] == [NAMES[0]]


def test_a_moved_answer_is_a_correction_that_stays(bench, pair):
    point_id = bench.place("liver_dome")
    node = bench.logic.answersIn(pair[1]).node
    corrected = bench.found(point_id, pair[1]) + [5.0, 0, 0]
    bench.drag(node, bench.answer(point_id, pair[1]).pointId, corrected)
    assert bench.answer(point_id, pair[1]).status == MOVED
    assert "by hand" in node.GetNthControlPointDescription(0)
    bench.logic.matchAgain()
    bench.place("diaphragm_dome_right")
    assert np.allclose(bench.found(point_id, pair[1]), corrected)

    bench.drag(bench.logic.points, point_id, patient(0).points_ras["liver_dome"] + 2.0)
    answer = bench.answer(point_id, pair[1])
    assert np.allclose(bench.found(point_id, pair[1]), corrected)
    assert answer.outdated
    assert not node.GetNthControlPointSelected(0)

    bench.logic.matchAgain([point_id], pair[1], corrections=True)
    assert bench.answer(point_id, pair[1]).status == MATCHED
    assert np.linalg.norm(bench.found(point_id, pair[1]) - corrected) > 1.0
