"""Test the panel of Anatomical Landmarks, as a user sees it, with the real scene, logic and engine."""

from dataclasses import replace

import numpy as np
import pytest
import slicer
import vtk
from film_nodes import add_picture
from scans import add_patient, patient

from AnatomicalEmbedding.landmarks.landmark_set import read_landmark_set


@pytest.fixture
def panel(open_module):
    """The module on three scans."""
    return open_module("AnatomicalLandmarks", "Prior", "Current", "Other")


def node(name):
    return slicer.util.getNode(name)


def prepare(kit, panel):
    kit.click(panel.preparation.button)
    kit.spin(lambda: not panel.session.store.busy, 60)


def new_list(panel):
    return panel.ui.pointsSelector.addNode()


def place(points, name, number=0):
    points.AddControlPointWorld(vtk.vtkVector3d(*patient(number).points_ras[name]), name)


def cell(panel, row, column):
    return panel.matchTable.widget.item(row, column).text()


def test_scans_that_are_loaded_once_the_module_is_open_are_template_and_targets(kit):
    panel = kit.open(kit.load_module("AnatomicalLandmarks"))
    first, second = add_patient(0, "First"), add_patient(1, "Second")
    kit.spin(lambda: panel.logic.template is first and panel.logic.targets == [second])
    assert panel.ui.templateSelector.currentNode() is first
    assert panel.ui.gridButton.enabled


@pytest.mark.parametrize(
    ("missing", "reported"),
    [
        (["torch"], "torch is not installed"),
        (["torch", "safetensors"], "torch and safetensors are"),
    ],
)
def test_missing_packages_are_a_sentence_in_the_panel(kit, panel, monkeypatch, missing, reported):
    monkeypatch.setattr(
        type(panel.session.store.engine), "missingPackages", staticmethod(lambda: missing)
    )
    kit.click(panel.preparation.button)
    assert reported in panel.preparation.label.text
    place(new_list(panel), "carina")
    assert cell(panel, 0, 1) == "failed"
    assert reported in panel.matchTable.widget.item(0, 1).toolTip()
    assert not kit.dialogs


def test_a_volume_that_is_no_ct_is_named_and_the_others_go_on(kit, panel):
    echo = slicer.util.addVolumeFromArray(
        np.full((40, 40, 40), 90, np.int16), np.diag([3.0, 3.0, 3.0, 1.0]), "Echo"
    )
    kit.spin(lambda: echo in panel.logic.targets)
    prepare(kit, panel)
    assert "Echo:" in panel.preparation.label.text
    place(new_list(panel), "carina")
    assert cell(panel, 0, 3) == "failed"
    (row,) = panel.logic.rows()
    assert set(row.answers) == {node(name).GetID() for name in ("Current", "Other")}


def test_a_cell_says_in_a_few_words_why_an_answer_is_uncertain(kit, panel):
    prepare(kit, panel)
    place(new_list(panel), "liver_dome")
    answers = panel.logic.answersIn(node("Current"))
    doubt = "T12 or L1: the level of the spine is not certain"
    answers.keep({key: replace(answer, doubt=doubt) for key, answer in answers.answers.items()})
    panel.matchTable.update()
    assert cell(panel, 0, 1).endswith(" mm, T12 or L1")
    assert "the level of the spine is not certain" in panel.matchTable.widget.item(0, 1).toolTip()
    assert "T12" not in cell(panel, 0, 2)


def test_crops_are_no_targets_unless_they_are_chosen(kit, panel):
    from AnatomicalEmbeddingLib.shared.VolumeNodes import SOURCE_ROLE

    crop = add_patient(1, "Crop")
    crop.SetNodeReferenceID(SOURCE_ROLE, node("Current").GetID())
    add_patient(2, "Last")
    kit.spin(lambda: "Last" in [target.GetName() for target in panel.logic.targets])
    panel.enter()
    assert crop not in panel.logic.targets
    panel.ui.allTargetsCheckBox.checked = False
    panel.ui.targetSelector.setCheckState(crop, 2)
    assert crop in panel.logic.targets


def test_films_can_be_chosen_and_all_scans_are_of_the_kind_of_the_template(kit, panel):
    grey, coloured = (
        add_picture(np.zeros((80, 90), np.uint8), name, colours=n)
        for name, n in (("G", 1), ("C", 3))
    )
    label = slicer.mrmlScene.AddNewNodeByClass("vtkMRMLLabelMapVolumeNode", "Label")
    panel.enter()
    assert panel.logic.targets == [node("Current"), node("Other")]
    panel.ui.templateSelector.setCurrentNode(label)
    assert panel.logic.template is not label
    panel.ui.templateSelector.setCurrentNode(coloured)
    assert panel.logic.template is coloured
    assert panel.logic.targets == [grey]
    panel.ui.allTargetsCheckBox.checked = False
    panel.ui.targetSelector.setCheckState(node("Prior"), 2)
    assert set(panel.logic.targets) == {grey, node("Prior")}


def test_the_user_says_whether_scans_show_one_patient(kit, panel):
    import qt

    from AnatomicalEmbeddingLib.shared.SceneNodes import haveOnePatient

    box, scene = panel.ui.patientCheckBox, slicer.mrmlScene
    scans = [panel.logic.template, *panel.logic.targets]
    assert box.checkState() == qt.Qt.PartiallyChecked
    kit.click(box)
    assert haveOnePatient(scene, *scans) is True
    assert box.checkState() == qt.Qt.Checked
    kit.click(box)
    assert haveOnePatient(scene, *scans[:2]) is False
    assert box.checkState() == qt.Qt.Unchecked
    kit.click(box)
    assert haveOnePatient(scene, *scans) is True
    added = add_patient(1, "Added")
    kit.spin(lambda: added in panel.logic.targets)
    kit.spin(lambda: box.checkState() == qt.Qt.PartiallyChecked)


def centres(kit, name: str) -> list:
    from AnatomicalEmbeddingLib.shared import Views

    return [
        slicer.util.arrayFromVTKMatrix(v.GetSliceToRAS())[:3, 3]
        for v in Views.viewsOf(kit.scene, node(name))
    ]


def test_keys_show_the_next_and_the_previous_landmark_and_undo_and_redo(kit, panel):
    from view_nodes import add_view

    add_view(kit.scene, "Of the template", node("Prior"))
    points = new_list(panel)
    names = ("carina", "liver_dome", "heart_apex")
    for name in names:
        place(points, name)
    for key, name in (
        ("N", "carina"),
        ("N", "liver_dome"),
        ("P", "carina"),
        ("P", "heart_apex"),
        ("N", "carina"),
    ):
        kit.press(panel, key)
        assert np.allclose(centres(kit, "Prior"), patient(0).points_ras[name]), (key, name)
    kit.press(panel, "Ctrl+Z")
    assert points.GetNumberOfControlPoints() == 2
    kit.press(panel, "Ctrl+Y")
    assert points.GetNumberOfControlPoints() == 3


def test_each_click_places_a_point_until_placing_is_ended(kit, panel):
    new_list(panel)
    panel.ui.placeWidget.setPlaceModeEnabled(True)
    assert panel.ui.placeWidget.placeModePersistency
    panel.ui.pointsSelector.addNode("vtkMRMLMarkupsLineNode")  # complete with its second click
    panel.ui.placeWidget.setPlaceModeEnabled(True)
    assert not panel.ui.placeWidget.placeModePersistency


def test_a_line_has_a_row_with_its_length_in_all_scans(kit, panel):
    prepare(kit, panel)
    line = slicer.mrmlScene.AddNewNodeByClass("vtkMRMLMarkupsLineNode", "Width")
    panel.ui.pointsSelector.setCurrentNode(line)
    for name in ("liver_dome", "carina"):
        place(line, name)
    kit.spin(lambda: panel.matchTable.widget.rowCount == 3)
    length_mm = np.linalg.norm(
        patient(0).points_ras["liver_dome"] - patient(0).points_ras["carina"]
    )
    assert cell(panel, 2, 0) == f"length {length_mm:.1f} mm"
    assert cell(panel, 2, 1).endswith("mm")
    assert "\u00b1" in cell(panel, 2, 1)
    panel.matchTable.widget.cellDoubleClicked.emit(2, 1)  # a row without a point: nothing happens
    assert panel.logic.points is line


def test_a_landmark_set_is_made_of_confirmed_points_and_placed_again(kit, panel, tmp_path):
    prepare(kit, panel)
    points = new_list(panel)
    for name in ("liver_dome", "carina"):
        place(points, name)
    kit.spin(lambda: cell(panel, 1, 2) != "\u2026")
    path = tmp_path / "two.landmarks.json"
    panel.ui.setFileEdit.currentPath = str(path)
    panel.matchTable.widget.setCurrentCell(0, 1)
    kit.press(panel, "Y")
    panel.matchTable.widget.setCurrentCell(1, 1)
    kit.press(panel, "X")
    assert [cell(panel, row, 1)[0] for row in range(2)] == ["\u270e", "\u270e"]
    kit.click(panel.ui.saveSetButton)
    assert "3 points of 2 scans" in panel.ui.statusLabel.text
    counts = {item.name: len(item.examples) for item in read_landmark_set(path).landmarks}
    assert counts == {"liver_dome": 2, "carina": 1}
    slicer.mrmlScene.RemoveNode(points)
    panel.ui.templateSelector.setCurrentNode(node("Other"))
    kit.click(panel.ui.openSetButton)
    assert "2 of 2 points are placed" in panel.ui.statusLabel.text
    placed = panel.ui.pointsSelector.currentNode()
    assert [placed.GetNthControlPointLabel(n) for n in range(2)] == ["liver_dome", "carina"]
    kit.spin(lambda: panel.matchTable.widget.rowCount == 2)
    panel.ui.setFileEdit.currentPath = str(tmp_path / "two.json")
    kit.click(panel.ui.openSetButton)
    assert "NAME.landmarks.json" in panel.ui.statusLabel.text
