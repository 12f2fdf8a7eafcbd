"""Test that a line, an angle and a curve of the template appear in the targets, with their measurements."""

import numpy as np
import pytest
import vtk
from landmark_bench import NAMES
from scans import patient

PLACES = [patient(0).points_ras[name] for name in NAMES]


def draw(bench, kind: str, places=PLACES):
    """Draw a markup in the template, as a user does: one control point after the other."""
    node = bench.scene.AddNewNodeByClass(f"vtkMRMLMarkups{kind}Node", kind)
    node.CreateDefaultDisplayNodes()
    if kind == "Curve":
        node.GetMeasurement("length").SetEnabled(True)
    bench.logic.setPoints(node)
    for place in places:
        node.AddControlPointWorld(vtk.vtkVector3d(*place))
    bench.logic.poll()
    return node


@pytest.mark.parametrize(
    ("kind", "count", "quantity"),
    [
        ("Line", 2, "length"),
        ("Angle", 3, "angle"),
        ("Curve", 3, "length"),
        ("ClosedCurve", 3, "area"),
    ],
)
def test_a_markup_appears_as_the_same_kind_of_node_with_its_measurement(
    bench, pair, kind, count, quantity
):
    template, target = pair
    drawn = draw(bench, kind, PLACES[:count])
    answers = bench.logic.answersIn(target).node
    assert answers.GetClassName() == drawn.GetClassName()
    assert answers.GetNumberOfControlPoints() == count
    measurement = bench.logic.measurementIn(target)
    assert measurement.quantity == quantity
    slicers = answers.GetMeasurement(quantity)
    if (
        slicers is not None and slicers.GetEnabled()
    ):  # Slicer measures an area if the user asks for it
        assert slicers.GetValue() == pytest.approx(measurement.value, rel=1e-3)
    true = [patient(1).points_ras[name] for name in NAMES[:count]]
    reference = draw(bench, kind, true)
    assert reference is not drawn
    true_value = bench.logic.measurementIn(template).value
    assert abs(measurement.value - true_value) < 1.5 * measurement.margin


def test_a_point_placed_by_hand_has_no_error_and_a_point_not_visible_leaves_no_value(bench, pair):
    _, target = pair
    drawn = draw(bench, "Line", PLACES[:2])
    ids = [drawn.GetNthControlPointID(n) for n in range(2)]
    before = bench.logic.measurementIn(target)
    bench.logic.setByHand(ids[0], target, patient(1).points_ras[NAMES[0]])
    assert 0 < bench.logic.measurementIn(target).margin < before.margin
    bench.logic.setByHand(ids[1], target, patient(1).points_ras[NAMES[1]])
    exact = np.linalg.norm(np.subtract(*(patient(1).points_ras[name] for name in NAMES[:2])))
    measurement = bench.logic.measurementIn(target)
    assert measurement.value == pytest.approx(exact, abs=0.01)
    assert measurement.margin == 0
    bench.logic.setNotVisible(ids[0], target)
    assert bench.logic.measurementIn(target).value is None
    bench.logic.undo()
    assert bench.logic.measurementIn(target).value == pytest.approx(exact, abs=0.01)


def test_a_plane_turns_with_the_body_until_the_user_turns_it(bench, pair):
    drawn = draw(bench, "Plane", PLACES[:1])
    plane = bench.logic.answersIn(pair[1]).node
    normals = []
    for axes in (np.eye(3), np.eye(3)[[2, 0, 1]]):
        drawn.SetAxes(*axes)
        settle(bench)
        true = np.cross(*(axes @ change_of_shape())[:2])
        normals.append(plane.GetNormal())
        assert normals[-1] @ true / np.linalg.norm(true) > np.cos(np.radians(12.0))
    bench.logic.undo()
    np.testing.assert_allclose(plane.GetNormal(), normals[0], atol=1e-3)
    plane.SetNormal(0.6, 0.0, 0.8)
    settle(bench)
    bench.logic.matchAgain()
    np.testing.assert_allclose(plane.GetNormal(), (0.6, 0.0, 0.8), atol=1e-9)
    while bench.logic.history.canUndo:
        bench.logic.undo()
    assert drawn.GetNumberOfControlPoints() == plane.GetNumberOfControlPoints() == 0


def test_a_box_appears_at_the_same_place_with_the_size_that_it_has_there(bench, pair):
    half = np.array([20.0, 15.0, 30.0])
    drawn = draw(bench, "ROI", [PLACES[0] - half, PLACES[0] + half])
    box = bench.logic.answersIn(pair[1]).node
    centre = patient(1).points_ras[NAMES[0]]
    for size in (2 * half, 3 * half):
        drawn.SetSize(size)
        settle(bench)
        true = np.linalg.norm(size[:, None] * change_of_shape(), axis=1)
        np.testing.assert_allclose(box.GetSize(), true, rtol=0.15)
        assert np.linalg.norm(box.GetCenter() - centre) < 10.0
    bench.logic.undo()
    np.testing.assert_allclose(drawn.GetSize(), 2 * half)
    box.SetSize(5.0, 5.0, 5.0)
    settle(bench)
    bench.logic.matchAgain()
    assert box.GetSize() == (5.0, 5.0, 5.0)
    while bench.logic.history.canUndo:
        bench.logic.undo()
    assert drawn.GetNumberOfControlPoints() == box.GetNumberOfControlPoints() == 0


def change_of_shape() -> np.ndarray:
    """Return what three steps of 1 mm at a place of the template, the rows, are in the target."""
    ways = np.vstack([5 * np.eye(3), -5 * np.eye(3)])
    bodies = [patient(n).to_body(patient(n).points_ras[NAMES[0]] + ways) for n in range(2)]
    slopes = [body[:3] - body[3:] for body in bodies]
    return slopes[0] @ np.linalg.inv(slopes[1])


def settle(bench) -> None:
    for _ in range(2):  # the user has stopped turning the plane
        bench.logic.poll()
