"""The panel of Anatomical ROI: scans, crops, coverage and scenes, on the real scene, logic and engine."""

import pytest
import slicer
import slicer.util
from box_bench import add_roi, truth
from roi_actions import boxes, cells, find, node, tick
from scans import add_patient
from view_nodes import add_view

from AnatomicalEmbeddingLib.shared.SideBySide import AXIAL
from AnatomicalEmbeddingLib.shared.Views import volumeIn

# -- scans


def test_all_cts_are_looked_in_but_crops(kit, panel):
    assert panel.ui.allTargetsCheckBox.checked
    assert not panel.ui.targetSelector.enabled
    assert [volume.GetName() for volume in panel.ui.targetSelector.checkedNodes()] == ["Prior", "Current"]
    add_patient(2, "Later")
    assert [volume.GetName() for volume in panel.ui.targetSelector.checkedNodes()] == ["Prior", "Current", "Later"]
    find(kit, panel, "Liver")
    kit.click(panel.ui.cropButton)
    kit.spin(lambda: not panel.crops.busy)
    assert node("Later crop") is not None
    assert panel.ui.cropButton.text == "Crop 3 scans"
    assert [volume.GetName() for volume in panel.ui.targetSelector.checkedNodes()] == ["Prior", "Current", "Later"]


def test_scans_are_chosen_one_by_one(kit, panel):
    panel.ui.allTargetsCheckBox.checked = False
    panel.ui.targetSelector.setCheckState(node("Prior"), 0)
    find(kit, panel, "Liver")
    assert boxes(kit) == ["liver in Current"]
    table = panel.ui.boxTable
    assert [table.horizontalHeaderItem(n).text() for n in range(table.columnCount)] == ["Structure", "Current"]


def test_what_is_missing_is_reported_by_the_buttons(kit, panel):
    assert not panel.ui.findButton.enabled
    assert "Tick at least one structure" in panel.ui.findButton.toolTip
    tick(panel, "Liver")
    assert panel.ui.findButton.enabled
    panel.ui.allTargetsCheckBox.checked = False
    for volume in panel.ui.targetSelector.checkedNodes():
        panel.ui.targetSelector.setCheckState(volume, 0)
    assert not panel.ui.findButton.enabled
    assert not panel.ui.cropButton.enabled
    assert "tick the scans" in panel.ui.cropButton.toolTip


def test_choices_that_come_with_a_batch_are_taken_up_at_its_end(kit, panel):
    """As while a scene is loaded, when volumes may not be there yet."""
    kit.scene.StartState(kit.scene.BatchProcessState)
    panel._parameterNode.allTargets = False
    panel._parameterNode.targets = [node("Current")]
    assert not panel.ui.targetSelector.enabled
    kit.scene.EndState(kit.scene.BatchProcessState)
    kit.spin(lambda: panel.ui.targetSelector.enabled)
    assert panel.ui.targetSelector.checkedNodes() == [node("Current")]


def test_entering_looks_at_the_set_up_again(panel, monkeypatch):
    assert panel.setupPanel.widget.collapsed
    monkeypatch.setattr(type(panel.session.store.engine), "missingPackages", staticmethod(lambda: ["torch"]))
    panel.enter()
    assert not panel.setupPanel.widget.collapsed
    assert "Not installed" in panel.setupPanel.ui.torchStatus.text


# -- crops


def test_crops_are_made_and_what_fails_is_named(kit, panel):
    find(kit, panel, "Liver", "Spleen")
    add_patient(2, "Not looked at")
    panel.ui.marginSpinBox.value = 12.0
    panel.ui.separatelyCheckBox.checked = True
    kit.click(panel.ui.cropButton)
    kit.spin(lambda: not panel.crops.busy)
    made = list(slicer.util.getNodesByClass("vtkMRMLScalarVolumeNode", kit.scene))[3:]
    assert sorted(crop.GetName() for crop in made) == [
        "Current liver", "Current spleen", "Prior liver", "Prior spleen",
    ]  # fmt: skip
    assert {crop.GetAttribute("AnatomicalEmbedding.CropMarginMm") for crop in made} == {"12"}
    lines = panel.ui.statusLabel.text.split("\n")
    assert lines[0].startswith("Not looked at: has no box of liver, spleen")
    assert lines[-1] == "4 crops made; 1 of 3 scans could not be cropped."
    assert not kit.dialogs


def test_what_was_cropped_is_shown_where_its_scan_was(kit, panel):
    find(kit, panel, "Liver", "Spleen")
    views = add_view(kit.scene, "Red", node("Prior")), add_view(kit.scene, "Green", node("Current"), "Coronal")
    kit.click(panel.ui.cropButton)
    kit.spin(lambda: not panel.crops.busy)
    for view, name in zip(views, ("Prior crop", "Current crop"), strict=True):
        assert volumeIn(kit.scene, view) is node(name)
        bounds = [0.0] * 6
        node(name).GetRASBounds(bounds)
        middle = [sum(bounds[n : n + 2]) / 2 for n in (0, 2, 4)]
        assert slicer.util.arrayFromVTKMatrix(view.GetSliceToRAS())[:3, 3] == pytest.approx(middle)


def test_scans_are_shown_side_by_side_from_here_too(kit, panel):
    window = kit.open_window()
    kit.click(panel.ui.gridButton)
    assert len(window.sliceViewNames()) == 6
    kit.click(panel.ui.axialButton)
    assert window.node.GetViewArrangement() == AXIAL


def test_what_is_pressed_and_read_next_lies_above_the_fold(kit, panel):
    """Of 800 pixels Slicer's own bars and the data probe leave about 530."""
    panel.parent.resize(420, 530)
    panel.parent.show()
    find(kit, panel, "Liver", "Spleen")
    kit.process_events()
    for widget in (panel.ui.findButton, panel.ui.cropButton, panel.ui.statusLabel):
        assert widget.mapTo(panel.parent, widget.rect.bottomLeft()).y() < 530, widget.name


# -- coverage


def test_coverage_is_reported_while_its_section_is_open(kit, panel):
    find(kit, panel, "Liver")
    table = panel.ui.coverageTable
    assert panel.ui.coverageSection.collapsed
    assert table.rowCount == 0
    panel.ui.coverageSection.collapsed = False
    assert [row[0] for row in cells(table)] == ["Prior", "Current"]
    assert all(row[1].startswith("from ") for row in cells(table))
    assert {row[2] for row in cells(table)} == {"no fault found"}


def test_a_scan_stored_upside_down_is_pointed_out(kit, panel):
    volume = node("Prior")
    slicer.util.updateVolumeFromArray(volume, slicer.util.arrayFromVolume(volume)[::-1].copy())
    find(kit, panel, "Liver")
    panel.ui.coverageSection.collapsed = False
    assert [row[2] for row in cells(panel.ui.coverageTable)] == ["head and feet are swapped", "no fault found"]
    assert "Prior: head and feet are swapped" in panel.preparation.label.text


# -- scenes


def test_a_saved_scene_keeps_choices_examples_and_boxes(kit, panel, tmp_path):
    find(kit, panel, "Liver", "Spleen")
    panel.boxes.examples.add("stomach", add_roi(kit.scene, truth(0)["stomach"].box_ras, "mine"), node("Prior"))
    panel.ui.allTargetsCheckBox.checked = False
    panel.ui.targetSelector.setCheckState(node("Prior"), 0)
    panel.ui.recallSpinBox.value = 0.9
    panel.ui.marginSpinBox.value = 7.5
    panel.ui.separatelyCheckBox.checked = panel.ui.replaceEditedCheckBox.checked = True
    panel.ui.exampleVolumeSelector.setCurrentNode(node("Prior"))
    path = kit.save_scene(tmp_path / "scene.mrb")
    kit.close_scene()
    assert panel.ui.boxTable.rowCount == 0
    kit.load_scene(path)
    panel.enter()
    assert panel.structureList.chosen == ["liver", "spleen"]
    assert [volume.GetName() for volume in panel.ui.targetSelector.checkedNodes()] == ["Current"]
    assert (panel.ui.recallSpinBox.value, panel.ui.marginSpinBox.value) == (0.9, 7.5)
    assert panel.ui.separatelyCheckBox.checked
    assert panel.ui.replaceEditedCheckBox.checked
    assert panel.ui.exampleVolumeSelector.currentNode() is node("Prior")
    assert [row[0] for row in cells(panel.ui.exampleTable)] == ["Stomach"]
    assert cells(panel.ui.boxTable) == [["Liver", "\u2713 whole"], ["Spleen", "\u2713 whole"]]


def test_closing_the_scene_or_the_module_in_mid_search_ends_it(kit, panel):
    tick(panel, "Liver")
    kit.click(panel.ui.findButton)
    kit.spin(lambda: panel.session.store.busy)
    kit.close_scene()
    assert not panel.boxes.busy
    assert not panel.ui.findButton.enabled
    kit.process_events()
    add_patient(0, "New")
    tick(panel, "Liver")
    kit.click(panel.ui.findButton)
    kit.spin(lambda: panel.session.store.busy)
    kit.close(panel)
    assert boxes(kit) == []


def test_a_scan_deleted_in_mid_search_is_left_out(kit, panel):
    tick(panel, "Liver")
    kit.click(panel.ui.findButton)
    kit.spin(lambda: panel.session.store.busy)
    kit.scene.RemoveNode(node("Prior"))
    kit.spin(lambda: not panel.boxes.busy, 60)
    assert cells(panel.ui.boxTable) == [["Liver", "\u2713 whole"]]
    assert boxes(kit) == ["liver in Current"]


def test_leaving_the_module_ends_placing(kit, panel):
    panel.ui.structureTabs.currentIndex = 1
    kit.click(panel.ui.newBoxButton)
    panel.exit()
    assert not panel.ui.placeWidget.placeModeEnabled


def test_many_sentences_are_cut_to_the_last_ones(kit, panel):
    for number in range(12):
        panel.status.say(f"Sentence {number}.")
        panel.status.say(f"Sentence {number}.")
    lines = panel.ui.statusLabel.text.split("\n")
    assert lines[0] == "4 more before these."
    assert lines[1:] == [f"Sentence {number}." for number in range(4, 12)]
