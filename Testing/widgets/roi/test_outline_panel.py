"""The section "Segment the rest like these", as a user sees and works it; in place of the engine a made-up command."""

import csv
import sys

import numpy as np
import pytest
import slicer
from box_bench import add_segmentation
from roi_actions import cells, node
from scans import add_patient, patient
from training_runs import fake_engine
from view_nodes import add_view

from AnatomicalEmbedding.segmentation.files import write_segments
from AnatomicalEmbeddingLib.shared.Views import volumeIn

COLUMNS = ("scan", "structure", "status", "volume_ml", "look", "doubt", "remark")
COPIES = """
say("anatemb: 50 % training: step 300, loss 0.5, 1 min to go")
if sys.argv[2] == "train":
    folder.mkdir(exist_ok=True)
    (folder / "segmenter.safetensors").write_text("")
else:
    import shutil
    shutil.copytree(TEMPLATE, folder, dirs_exist_ok=True, copy_function=shutil.copyfile)
"""
WAITS = """
obey_signals()
say("anatemb: 50 % training: step 300, loss 0.5, 1 min to go")
while not asked:
    time.sleep(0.05)
sys.exit(2)
"""


@pytest.fixture
def ready(kit, panel, tmp_path):
    """The section, open, with a segmentation of the first of three scans ticked."""
    add_patient(2, "Later")
    segmentation = add_segmentation(kit.scene, 0, node("Prior"), {"liver": "My liver"})
    segmentation.SetReferenceImageGeometryParameterFromVolumeNode(node("Prior"))
    panel.outlines.process.pythonCommand = [sys.executable]
    panel.ui.outlinesSection.collapsed = False
    panel.ui.outlineFolderEdit.currentPath = str(tmp_path / "out")
    panel.ui.outlineExamplesSelector.setCheckState(segmentation, 2)
    return panel


def results(folder):
    """What the engine would write: the liver of one patient, and none of the other."""
    folder.mkdir()
    rows = [
        ("out/scans/Current.nii.gz", "My liver", "whole", 1500.0, 1, -14.2, ""),
        ("out/scans/Later.nii.gz", "My liver", "absent", 0.0, "", "", "the scan does not show its place"),
    ]
    with (folder / "volumes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    label = next(label for label, name in patient(1).label_names.items() if name == "liver")
    volume = patient(1).volume
    write_segments(folder / "Current.seg.nrrd", patient(1).labels == label, volume.ijk_to_ras, ["My liver"])
    write_segments(folder / "Later.seg.nrrd", np.zeros(patient(2).volume.shape), volume.ijk_to_ras, ["My liver"])
    return folder


def test_the_section_is_folded_away_and_says_what_is_missing(kit, panel):
    assert panel.ui.outlinesSection.collapsed
    assert not panel.ui.outlineButton.enabled
    assert "Tick the segmentations" in panel.ui.outlineButton.toolTip
    lost = kit.scene.AddNewNodeByClass("vtkMRMLSegmentationNode", "Lost")
    panel.ui.outlineExamplesSelector.setCheckState(lost, 2)
    assert not panel.ui.outlineButton.enabled
    assert "Lost: the scan that it was drawn on is not known" in panel.ui.outlineButton.toolTip


def test_the_time_is_stated_before_it_starts(kit, ready):
    assert ready.ui.outlineButton.enabled
    assert ready.ui.outlineButton.text == "Segment 2 scans, about 2 min"
    ready.ui.allTargetsCheckBox.checked = False
    for each in ready.ui.targetSelector.checkedNodes():
        ready.ui.targetSelector.setCheckState(each, 0 if each is not node("Prior") else 2)
    assert not ready.ui.outlineButton.enabled
    assert "are all examples" in ready.ui.outlineButton.toolTip


def test_outlines_come_into_the_scene_and_the_table(kit, ready, tmp_path):
    template = results(tmp_path / "template")
    body = f"TEMPLATE = {str(template)!r}\n" + COPIES
    ready.outlines.process.engineParent = fake_engine(tmp_path / "engine", body)
    kit.click(ready.ui.outlineButton)
    assert ready.ui.outlineButton.text == "Cancel"
    kit.spin(lambda: not ready.outlines.busy, 60)
    assert cells(ready.ui.outlineTable) == [
        ["Current", "My liver", "1500.0", ""],
        ["Later", "My liver", "", "not there: the scan does not show its place"],
    ]
    found = node("Current outlined")
    assert found.GetSegmentation().GetNthSegment(0).GetName() == "My liver"
    view = add_view(kit.scene, "Red", node("Prior"))
    ready.ui.outlineTable.cellDoubleClicked.emit(0, 0)
    assert volumeIn(kit.scene, view) is node("Current")
    assert "2 of 2 scans outlined" in ready.ui.outlineStatusLabel.text
    kit.scene.RemoveNode(found)
    kit.spin(lambda: ready.ui.outlineTable.rowCount == 1)


def test_cancel_stops_the_process(kit, ready, tmp_path):
    ready.outlines.process.engineParent = fake_engine(tmp_path / "engine", WAITS)
    kit.click(ready.ui.outlineButton)
    kit.spin(lambda: "1 min to go" in ready.ui.outlineProgressBar.format, 60)
    kit.click(ready.ui.outlineButton)
    kit.spin(lambda: not ready.outlines.busy, 60)
    assert "goes on where it stopped" in ready.ui.outlineStatusLabel.text
    assert ready.ui.outlineButton.text == "Segment 2 scans, about 2 min"


def test_folder_and_examples_are_remembered(kit, ready, tmp_path):
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    assert ModuleSettings.value("outlineFolder", "") == str(tmp_path / "out")
    assert list(ready._parameterNode.outlineExamples) == [node("Segmentation")]
    kit.save_scene(tmp_path / "scene.mrb")
    kit.close_scene()
    assert ready.ui.outlineExamplesSelector.checkedNodes() == []
    kit.load_scene(tmp_path / "scene.mrb")
    kit.spin(lambda: [each.GetName() for each in ready.outlinePanel.examples] == ["Segmentation"], 20)
    assert slicer.util.getNode("Segmentation") in ready.outlinePanel.examples
