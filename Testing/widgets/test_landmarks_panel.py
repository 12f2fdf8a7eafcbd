"""Test the panel of Anatomical Landmarks, as a user sees it, with the real scene, logic and engine."""

import numpy as np
import pytest
import slicer
import vtk
from film_nodes import add_picture
from scans import add_patient, patient


@pytest.fixture
def panel(open_module):
    """The module on three scans."""
    return open_module("AnatomicalLandmarks", "Prior", "Current", "Other")


def node(name):
    return slicer.util.getNode(name)


def new_list(panel):
    return panel.ui.pointsSelector.addNode()


def place(points, name, number=0):
    points.AddControlPointWorld(vtk.vtkVector3d(*patient(number).points_ras[name]), name)


def cell(panel, row, column):
    return panel.matchTable.widget.item(row, column).text()


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
