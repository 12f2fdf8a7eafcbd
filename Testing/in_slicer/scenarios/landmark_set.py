"""Five DICOM scans: twelve points, two lines and an angle, corrections in three scans, undo of everything, the table
and DICOM reports; a set made of them is placed in the fifth scan, and the scene is saved and loaded."""

import json
from pathlib import Path

import numpy as np
import slicer
from driver.landmarks import answer, distance, new_list, world
from driver.scans import patient, write_patients

from AnatomicalEmbedding.dicom.sr import read_any_points

NAMES = (
    "carina",
    "heart_apex",
    "liver_dome",
    "kidney_left_lower_pole",
    "diaphragm_dome_right",
    "aortic_bifurcation",
    "liver_tip",
    "spleen_centre",
    "pancreas_head",
    "xiphoid",
    "kidney_left_upper_pole",
    "kidney_right_lower_pole",
)
MARKUPS = {"Line": (0, 1), "Height": (0, 3), "Angle": (0, 2, 3)}
COUNT = 5


def run(user):
    user.import_dicom(write_patients(user.folder / "series", COUNT))
    nodes = slicer.util.getNodesByClass("vtkMRMLScalarVolumeNode")
    scans = sorted(nodes, key=lambda node: node.GetName())
    truth = [patient(number).points_ras for number in range(COUNT)]
    panel = user.open("AnatomicalLandmarks")
    panel.ui.templateSelector.setCurrentNode(scans[0])  # DICOM series are loaded in any order
    user.prepare(panel)
    user.click(panel.ui.axialButton)
    points = new_list(panel)
    for name in NAMES:
        points.AddControlPointWorld(*truth[0][name])
        points.SetNthControlPointLabel(points.GetNumberOfControlPoints() - 1, name)
    user.wait(lambda: answer(panel, scans[4], len(NAMES) - 1) is not None, 20, "all are found")
    ids = {name: points.GetNthControlPointID(n) for n, name in enumerate(NAMES)}

    # three corrections; synthetic patients leave little to gain, real ones are in RESULTS
    before = [_error(panel, scans[4], ids[name], truth[4][name]) for name in NAMES]
    for number in (1, 2, 3):
        for name in NAMES:
            panel.logic.setByHand(ids[name], scans[number], truth[number][name])
    after = [_error(panel, scans[4], ids[name], truth[4][name]) for name in NAMES]
    user.figures["error before and after three corrections, mm"] = (
        f"{np.mean(before):.1f}, {np.mean(after):.1f}"
    )
    assert before != after, "the corrections are examples for the scan not yet seen"
    assert np.mean(after) < 4, user.figures
    user.picture("corrected")

    while panel.ui.undoButton.enabled:
        user.click(panel.ui.undoButton)
    assert points.GetNumberOfControlPoints() == 0, "everything is undone"
    while panel.ui.redoButton.enabled:
        user.click(panel.ui.redoButton)
    again = [_error(panel, scans[4], ids[name], truth[4][name]) for name in NAMES]
    np.testing.assert_allclose(again, after, atol=0.01)
    user.click(panel.ui.exportButton)
    (table,) = slicer.util.getNodesByClass("vtkMRMLTableNode")
    assert table.GetNumberOfRows() == len(NAMES) * (COUNT - 1)
    _save_reports(user, panel, points)

    for name, corners in MARKUPS.items():
        kind = "Angle" if len(corners) == 3 else "Line"
        node = panel.ui.pointsSelector.addNode(f"vtkMRMLMarkups{kind}Node")
        node.SetName(name)
        for corner in corners:
            node.AddControlPointWorld(*truth[0][NAMES[corner]])
        user.wait(lambda: panel.logic.measurementIn(scans[4]) is not None, 20, f"{name} is found")
        _save_reports(user, panel, node)

    path = Path(user.folder) / "study.landmarks.json"
    panel.ui.setFileEdit.currentPath = str(path)
    user.click(panel.ui.saveSetButton)
    assert "of 4 scans" in panel.ui.statusLabel.text, panel.ui.statusLabel.text
    examples = {
        entry["name"]: len(entry["examples"]) for entry in json.loads(path.read_text())["landmarks"]
    }
    assert examples["carina"] == 4, examples
    assert examples["Line: 1"] == 1, examples

    # with the fifth scan as the template, the set places its points there
    for node in slicer.util.getNodesByClass("vtkMRMLMarkupsNode"):
        slicer.mrmlScene.RemoveNode(node)
    panel.ui.templateSelector.setCurrentNode(scans[4])
    user.click(panel.ui.openSetButton)
    assert "points are placed" in panel.ui.statusLabel.text, panel.ui.statusLabel.text
    placed = panel.ui.pointsSelector.currentNode()
    errors = [distance(world(placed, n), truth[4][name]) for n, name in enumerate(NAMES)]
    user.figures["error of the set in the fifth scan, mm"] = f"{np.mean(errors):.1f}"
    assert np.mean(errors) < 10, errors
    user.wait(lambda: answer(panel, scans[0], 0) is not None, 20, "the set is found in all scans")
    panel.ui.scansSection.collapsed = True
    user.picture("placed")

    user.save_scene("set.mrb")
    user.close_scene()
    user.load_scene("set.mrb")
    user.wait(lambda: len(panel.logic.rows()) == len(NAMES), 30, "the scene has the points again")
    user.wait(lambda: answer(panel, panel.logic.targets[0], 0) is not None, 60, "and the answers")


def _save_reports(user, panel, points) -> None:
    """Save the DICOM reports of the chosen points, one for each scan."""
    folder = user.folder / "reports"
    folder.mkdir(exist_ok=True)
    with user.answering(folder):
        user.click(panel.ui.reportsButton)
    reports = list(folder.glob(f"*_{points.GetName()}.sr.dcm"))
    assert len(reports) == COUNT, panel.ui.statusLabel.text
    for report in reports:
        assert len(read_any_points(report)) == points.GetNumberOfControlPoints()


def _error(panel, volume, point_id: str, place) -> float:
    answers = panel.logic.answersIn(volume)
    return distance(answers.worldOf(answers.answers[point_id]), place)
