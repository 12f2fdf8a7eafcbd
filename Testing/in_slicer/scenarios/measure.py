"""A line, an angle and a box, drawn with clicks in one scan, appear in the other scans with what they measure."""

import numpy as np
from driver.landmarks import answer, cell, distance, world
from driver.scans import add_patient, patient

NAMES = ("carina", "heart_apex", "liver_dome")


def run(user):
    prior = add_patient(0, "Prior")
    current = add_patient(1, "Current")
    panel = user.open("AnatomicalLandmarks")
    user.prepare(panel)
    user.click(panel.ui.gridButton)
    truth = np.array([patient(1).points_ras[name] for name in NAMES])

    line = _draw(user, panel, prior, "Line", _places(2))
    assert line.GetNumberOfControlPoints() == 2
    user.wait(lambda: answer(panel, current, 1) is not None)
    answers = panel.logic.answersIn(current).node
    assert answers.GetClassName() == "vtkMRMLMarkupsLineNode"
    measurement = panel.logic.measurementIn(current)
    length_mm = np.linalg.norm(truth[0] - truth[1])
    assert abs(answers.GetMeasurement("length").GetValue() - measurement.value) < 0.1
    assert abs(measurement.value - length_mm) < 1.5 * measurement.margin
    assert cell(panel, 2, 0).startswith("length"), cell(panel, 2, 0)
    assert "\u00b1" in cell(panel, 2, 1), cell(panel, 2, 1)
    user.picture("line")

    # a corrected end changes the length at once, and undo brings the answer back
    before = measurement.value
    panel.logic.setByHand(line.GetNthControlPointID(0), current, truth[0])
    assert panel.logic.measurementIn(current).margin < measurement.margin
    user.press("Ctrl+Z")
    user.wait(
        lambda: abs(panel.logic.measurementIn(current).value - before) < 0.01, 5, "undo works"
    )

    angle = _draw(user, panel, prior, "Angle", _places(3))
    user.wait(lambda: answer(panel, current, 2) is not None)
    measurement = panel.logic.measurementIn(current)
    arms = truth[[0, 2]] - truth[1]
    cosine = arms[0] @ arms[1] / np.prod(np.linalg.norm(arms, axis=1))
    assert abs(measurement.value - np.degrees(np.arccos(cosine))) < 1.5 * measurement.margin
    shown = panel.logic.answersIn(current).node.GetMeasurement("angle").GetValue()
    assert abs(shown - measurement.value) < 0.1
    user.picture("angle")

    panel.ui.pointsSelector.setCurrentNode(line)  # the answers to the line are still there
    assert panel.logic.measurementIn(current).quantity == "length"
    assert world(angle, 0) is not None

    corners = _places(1)[0] + np.array([[-20.0, -15.0, -25.0], [20.0, 15.0, 25.0]])
    box = _draw(user, panel, prior, "ROI", corners)
    user.wait(lambda: answer(panel, current) and any(panel.logic.answersIn(current).node.GetSize()))
    np.testing.assert_allclose(box.GetCenter(), _places(1)[0], atol=2.0)
    box_there = panel.logic.answersIn(current).node
    np.testing.assert_allclose(box_there.GetSize(), box.GetSize(), rtol=0.5)
    assert distance(box_there.GetCenter(), truth[0]) < 15.0
    user.picture("box")


def _places(count: int) -> list[np.ndarray]:
    return [patient(0).points_ras[name] for name in NAMES[:count]]


def _draw(user, panel, volume, kind: str, places):
    """Choose "Create new" of a kind, press the place button, and click at places of a scan."""
    node = panel.ui.pointsSelector.addNode(f"vtkMRMLMarkups{kind}Node")
    assert panel.ui.pointsSelector.currentNode() is node
    user.start_placing(panel.ui.placeWidget)
    for number, place in enumerate(places, start=1):
        user.views.click(volume, place)
        # two corners of a box become its centre
        user.wait(
            lambda number=number: node.GetNumberOfDefinedControlPoints() >= number or kind == "ROI",
            10,
            f"the click places point {number}",
        )
    user.wait(lambda: not panel.ui.placeWidget.placeModeEnabled)
    return node
