"""The panel of Anatomical ROI: what a user sees and presses, on the real scene, logic and engine."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import slicer
import slicer.util
from box_bench import add_roi, add_segmentation, truth
from PySide6.QtCore import Qt
from scans import add_patient

CHOSEN = ["liver", "spleen"]


@pytest.fixture
def panel(kit, map_folder):
    """The module on two scans, its maps kept from test to test."""
    from AnatomicalEmbeddingLib.Panels import ModuleSettings

    ModuleSettings.setCacheFolder(str(map_folder))
    ModuleSettings.setDevice("cpu")
    for number, name in enumerate(("Prior", "Current")):
        add_patient(number, name)
    return kit.open(kit.load_module("AnatomicalROI"))


def node(name):
    return slicer.util.getNode(name)


def item_of(panel, title):
    """The entry of the library's list with this text."""
    items = [panel.ui.structureList.item(n) for n in range(panel.ui.structureList.count)]
    return next(item for item in items if item.text() == title)


def tick(panel, *titles):
    for title in titles:
        item_of(panel, title).setCheckState(Qt.CheckState.Checked)


def find(kit, panel, *titles):
    """Tick structures and press Find boxes."""
    tick(panel, *titles)
    kit.click(panel.ui.findButton)
    kit.spin(lambda: not panel.boxes.busy, 60)


def cells(table):
    """Texts of a table, row by row."""
    rows, columns = range(table.rowCount), range(table.columnCount)
    return [[table.item(row, column).text() if table.item(row, column) else "" for column in columns] for row in rows]


def boxes(kit):
    return [each.GetName() for each in slicer.util.getNodesByClass("vtkMRMLMarkupsROINode", kit.scene)]


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


def test_what_is_missing_is_told_by_the_buttons(kit, panel):
    assert not panel.ui.findButton.enabled
    assert "Tick at least one structure" in panel.ui.findButton.toolTip
    tick(panel, "Liver")
    assert panel.ui.findButton.enabled
    panel.ui.allTargetsCheckBox.checked = False
    for volume in panel.ui.targetSelector.checkedNodes():
        panel.ui.targetSelector.setCheckState(volume, 0)
    assert not panel.ui.findButton.enabled
    assert not panel.ui.cropButton.enabled
    assert not panel.ui.orientationButton.enabled
    assert "tick the scans" in panel.ui.cropButton.toolTip


# -- library


def test_the_library_is_listed_searched_and_ticked(panel):
    listed = panel.ui.structureList
    assert listed.count == 94
    panel.ui.searchEdit.text = "left KID"
    shown = [listed.item(n).text() for n in range(listed.count) if not listed.item(n).isHidden()]
    assert shown == ["Kidney left"]
    tick(panel, "Kidney left", "Liver")
    assert list(panel._parameterNode.structures) == ["kidney_left", "liver"]
    assert panel.ui.countLabel.text == "2 of 94 structures ticked"
    panel.ui.searchEdit.text = ""
    assert not any(listed.item(n).isHidden() for n in range(listed.count))
    panel.ui.clearStructuresButton.click()
    assert list(panel._parameterNode.structures) == []
    assert not panel.ui.clearStructuresButton.enabled


def test_weights_without_a_library_are_told_and_those_with_one_bring_it_back(panel):
    from AnatomicalEmbeddingLib.Panels import ModuleSettings

    tick(panel, "Liver")
    ModuleSettings.setWeights("ape-ct-v3")
    assert panel.ui.structureList.count == 0
    assert panel.ui.countLabel.text == "There is no library for these weights."
    ModuleSettings.setWeights("auto")
    assert panel.ui.structureList.count == 94
    assert panel.structureList.chosen == ["liver"]


def test_a_library_file_that_is_none_is_told_in_a_sentence(kit, panel, tmp_path):
    tick(panel, "Liver")
    panel.ui.libraryFileEdit.currentPath = str(tmp_path / "gone.structures.safetensors")
    assert panel.ui.structureList.count == 0
    assert not panel.ui.findButton.enabled
    panel.ui.libraryFileEdit.currentPath = ""
    assert panel.structureList.chosen == ["liver"]


def test_opening_the_panel_loads_no_torch(tmp_path):
    code = (
        "import sys; sys.path[:0] = sys.argv[1:3]; from slicer_kit import install; kit = install();"
        "kit.reset(sys.argv[3]); panel = kit.open(kit.load_module('AnatomicalROI'));"
        "print(panel.ui.structureList.count, 'torch' in sys.modules); kit.close_all()"
    )
    testing = Path(__file__).parents[1]
    words = [sys.executable, "-c", code, testing, testing.parent / "SlicerModules", tmp_path / "Slicer.ini"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == ["94", "False"]


# -- boxes


def test_find_boxes_prepares_the_scans_and_finishes_by_itself(kit, panel):
    tick(panel, "Liver", "Brain", "Aorta")
    kit.click(panel.ui.findButton)
    assert panel.ui.findButton.text == "Cancel"
    assert not panel.ui.findProgressBar.isHidden()
    kit.spin(lambda: not panel.boxes.busy, 60)
    assert panel.ui.findButton.text == "Find boxes"
    assert panel.ui.findProgressBar.isHidden()
    assert cells(panel.ui.boxTable) == [
        ["Aorta", "\u25e7 cut", "\u25e7 cut"],
        ["Brain", "\u2013 not in scan", "\u2013 not in scan"],
        ["Liver", "\u2713 whole", "\u2713 whole"],
    ]
    assert "recall of 0.99" in panel.ui.boxTable.item(2, 1).toolTip()
    assert sorted(boxes(kit)) == ["aorta in Current", "aorta in Prior", "liver in Current", "liver in Prior"]
    assert not kit.dialogs
    assert panel.ui.statusLabel.text == ""


def test_find_boxes_can_be_cancelled(kit, panel):
    tick(panel, "Liver")
    kit.click(panel.ui.findButton)
    kit.click(panel.ui.findButton)
    assert not panel.boxes.busy
    assert panel.ui.findButton.text == "Find boxes"
    kit.spin(lambda: not panel.session.store.busy, 60)
    assert boxes(kit) == []


def test_the_recall_of_the_slider_is_asked_for(kit, panel):
    slider = panel.ui.recallSlider
    assert (slider.minimum, slider.maximum, slider.value) == (0.5, 0.995, 0.99)
    slider.value = 0.8
    find(kit, panel, "Liver")
    assert "recall of 0.8" in panel.ui.boxTable.item(0, 1).toolTip()


def test_a_double_click_jumps_to_the_box(kit, panel):
    find(kit, panel, "Liver", "Brain")
    view = kit.scene.AddNewNodeByClass("vtkMRMLSliceNode")
    composite = kit.scene.AddNewNodeByClass("vtkMRMLSliceCompositeNode")
    for each in (view, composite):
        each.SetLayoutName("Test")
    composite.SetBackgroundVolumeID(node("Current").GetID())
    try:
        panel.ui.boxTable.cellDoubleClicked.emit(1, 2)
        centre = node("liver in Current").GetCenter()
        np.testing.assert_allclose(slicer.util.arrayFromVTKMatrix(view.GetSliceToRAS())[:3, 3], centre, atol=1e-3)
        assert node("liver in Current").GetDisplayNode().GetHandlesInteractive()
        panel.ui.boxTable.cellDoubleClicked.emit(0, 2)
        assert panel.ui.statusLabel.text == "Current has no box of Brain."
        kit.spin(lambda: list(node("liver in Current").GetDisplayNode().GetViewNodeIDs()) == [view.GetID()])
    finally:
        for each in (view, composite):
            kit.scene.RemoveNode(each)


def test_a_box_changed_with_the_mouse_is_shown_so_and_kept_unless_asked_otherwise(kit, panel):
    find(kit, panel, "Liver")
    roi = node("liver in Prior")
    size = np.array(roi.GetSize())
    roi.SetSize(*(size + 10.0))
    kit.spin(lambda: panel.ui.boxTable.item(0, 1).text() == "\u270e edited")
    find(kit, panel)
    assert "Prior: a box that you changed by hand stayed (liver)" in panel.ui.statusLabel.text
    np.testing.assert_allclose(roi.GetSize(), size + 10.0)
    panel.ui.replaceEditedCheckBox.checked = True
    find(kit, panel)
    np.testing.assert_allclose(roi.GetSize(), size, atol=1e-6)
    assert panel.ui.boxTable.item(0, 1).text() == "\u2713 whole"
    assert panel.ui.statusLabel.text == ""


def test_boxes_are_removed_at_a_press(kit, panel):
    assert not panel.ui.removeBoxesButton.enabled
    find(kit, panel, "Liver", "Brain")
    kit.click(panel.ui.removeBoxesButton)
    assert boxes(kit) == []
    assert panel.ui.boxTable.rowCount == 0
    assert not panel.ui.removeBoxesButton.enabled


def test_scans_that_cannot_be_used_are_named_below(kit, panel):
    for name in ("Empty one", "Empty two"):
        slicer.util.addVolumeFromArray(np.zeros((30, 30, 30), np.int16), np.diag([5.0, 5.0, 5.0, 1.0]), name=name)
    find(kit, panel, "Liver")
    lines = panel.ui.statusLabel.text.split("\n")
    assert [line.split(":")[0] for line in lines] == ["Empty one", "Empty two"]
    assert sorted(boxes(kit)) == ["liver in Current", "liver in Prior"]
    assert not kit.dialogs


def test_missing_packages_are_told_in_a_sentence(kit, panel, monkeypatch):
    from AnatomicalEmbeddingLib.Maps.Engine import Engine

    monkeypatch.setattr(Engine, "missingPackages", staticmethod(lambda: ["torch"]))
    tick(panel, "Liver")
    kit.click(panel.ui.findButton)
    assert "torch is not installed" in panel.ui.statusLabel.text
    assert not panel.boxes.busy
    assert not kit.dialogs


# -- examples


def test_a_box_is_drawn_and_added(kit, panel):
    ui = panel.ui
    ui.structureTabs.currentIndex = 1
    kit.click(ui.newBoxButton)
    roi = ui.markingSelector.currentNode()
    assert roi.GetClassName() == "vtkMRMLMarkupsROINode"
    assert ui.placeWidget.placeModeEnabled
    assert "Choose the scan" in ui.addExampleButton.toolTip
    ui.exampleVolumeSelector.setCurrentNode(node("Prior"))
    assert "Give the structure a name" in ui.addExampleButton.toolTip
    ui.structureEdit.text = "Left kidney"
    kit.click(ui.addExampleButton)
    assert "is not drawn yet" in ui.statusLabel.text
    box = truth(0)["kidney_left"].box_ras
    roi.SetCenter(*box.mean(axis=0))
    roi.SetSize(*(box[1] - box[0]))
    kit.click(ui.addExampleButton)
    assert cells(ui.exampleTable) == [["Kidney left", "Example box (box)", "Prior"]]
    assert ui.structureTabs.tabText(1) == "My examples (1)"
    assert list(panel._parameterNode.structures) == ["kidney_left"]
    find(kit, panel)
    assert cells(ui.boxTable) == [["Kidney left", "\u2605 example", "\u2713 whole"]]
    assert "by your examples" in ui.boxTable.item(0, 2).toolTip()


def test_six_points_are_placed_one_after_the_other(kit, panel):
    ui = panel.ui
    ui.structureTabs.currentIndex = 1
    kit.click(ui.newPointsButton)
    points = ui.markingSelector.currentNode()
    assert points.GetClassName() == "vtkMRMLMarkupsFiducialNode"
    assert ui.placeWidget.placeModeEnabled
    assert ui.placeWidget.placeModePersistency
    ui.exampleVolumeSelector.setCurrentNode(node("Prior"))
    ui.structureEdit.text = "liver"
    for point in truth(0)["liver"].extremes_ras[:5]:
        points.AddControlPoint(*point)
    kit.click(ui.addExampleButton)
    assert "has 5 points; place six" in ui.statusLabel.text
    points.AddControlPoint(*truth(0)["liver"].extremes_ras[5])
    kit.click(ui.addExampleButton)
    assert cells(ui.exampleTable) == [["Liver", "Six points (six points)", "Prior"]]


def test_a_box_is_drawn_once_even_after_six_points(kit, panel):
    ui = panel.ui
    ui.structureTabs.currentIndex = 1
    kit.click(ui.newPointsButton)
    kit.click(ui.newBoxButton)
    assert ui.placeWidget.placeModeEnabled
    assert not ui.placeWidget.placeModePersistency  # in Slicer each further click would begin another box


def test_a_segmentation_gives_all_its_segments_or_one(kit, panel):
    ui = panel.ui
    ui.structureTabs.currentIndex = 1
    volume = node("Prior")
    segmentation = add_segmentation(kit.scene, 0, volume, {"liver": "Liver", "spleen": "my spleen"})
    segmentation.SetReferenceImageGeometryParameterFromVolumeNode(volume)
    ui.markingSelector.setCurrentNode(segmentation)
    assert ui.exampleVolumeSelector.currentNode() is volume
    assert [ui.segmentSelector.itemText(n) for n in range(3)] == ["All segments, by their names", "Liver", "my spleen"]
    assert not ui.structureEdit.enabled
    kit.click(ui.addExampleButton)
    assert [row[0] for row in cells(ui.exampleTable)] == ["Liver", "My spleen"]
    ui.segmentSelector.currentIndex = 2
    assert ui.structureEdit.enabled
    ui.structureEdit.text = "spleen"
    kit.click(ui.addExampleButton)
    assert [row[:2] for row in cells(ui.exampleTable)] == [
        ["Liver", "Liver (segment)"],
        ["Spleen", "my spleen (segment)"],
    ]
    ui.markingSelector.setCurrentNode(None)
    assert ui.segmentSelector.isHidden()


def test_a_found_box_that_was_put_right_can_be_an_example(kit, panel):
    find(kit, panel, "Liver")
    ui = panel.ui
    ui.structureTabs.currentIndex = 1
    ui.markingSelector.setCurrentNode(node("liver in Current"))
    assert ui.exampleVolumeSelector.currentNode() is node("Current")
    assert ui.structureEdit.text == "liver"
    kit.click(ui.addExampleButton)
    assert cells(ui.boxTable) == [["Liver", "\u2713 whole", "\u2605 example"]]


def test_examples_are_unticked_and_removed(kit, panel):
    ui = panel.ui
    ui.structureTabs.currentIndex = 1
    for name in CHOSEN:
        panel.boxes.examples.add(name, add_roi(kit.scene, truth(0)[name].box_ras, f"{name} box"), node("Prior"))
    panel._parameterNode.structures = CHOSEN
    assert [ui.exampleTable.item(row, 0).checkState().value for row in (0, 1)] == [2, 2]
    ui.exampleTable.item(0, 0).setCheckState(Qt.CheckState.Unchecked)
    assert list(panel._parameterNode.structures) == ["spleen"]
    assert panel.structureList.chosen == ["spleen"]  # the library's of the same name is the same wish
    ui.exampleTable.selectRow(1)
    kit.click(ui.removeExampleButton)
    assert [row[0] for row in cells(ui.exampleTable)] == ["Liver"]
    assert node("spleen box") is not None


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


# -- coverage


def test_coverage_is_told_while_its_section_is_open(kit, panel):
    find(kit, panel, "Liver")
    table = panel.ui.coverageTable
    assert panel.ui.coverageSection.collapsed
    assert table.rowCount == 0
    panel.ui.coverageSection.collapsed = False
    assert [row[0] for row in cells(table)] == ["Prior", "Current"]
    assert all(row[1].startswith("from ") for row in cells(table))
    assert {row[2] for row in cells(table)} == {"not checked"}


def test_orientation_is_checked_in_the_background(kit, panel):
    panel.ui.coverageSection.collapsed = False
    kit.click(panel.ui.orientationButton)
    assert "Prior: is not prepared yet" in panel.ui.statusLabel.text
    find(kit, panel, "Liver")
    kit.click(panel.ui.orientationButton)
    assert panel.ui.orientationButton.text == "Cancel"
    assert not panel.ui.orientationProgressBar.isHidden()
    kit.spin(lambda: not panel.coverage.busy, 120)
    assert [row[2] for row in cells(panel.ui.coverageTable)] == ["no fault found", "no fault found"]
    kit.click(panel.ui.orientationButton)
    kit.click(panel.ui.orientationButton)
    assert not panel.coverage.busy
    assert panel.ui.orientationButton.text == "Check orientation"


# -- scenes


def test_a_saved_scene_keeps_choices_examples_and_boxes(kit, panel, tmp_path):
    find(kit, panel, "Liver", "Spleen")
    panel.boxes.examples.add("stomach", add_roi(kit.scene, truth(0)["stomach"].box_ras, "mine"), node("Prior"))
    panel.ui.allTargetsCheckBox.checked = False
    panel.ui.targetSelector.setCheckState(node("Prior"), 0)
    panel.ui.recallSlider.value = 0.9
    panel.ui.marginSpinBox.value = 7.5
    panel.ui.separatelyCheckBox.checked = panel.ui.replaceEditedCheckBox.checked = True
    panel.ui.exampleVolumeSelector.setCurrentNode(node("Prior"))
    path = kit.save_scene(tmp_path / "scene.mrb")
    kit.close_scene()
    assert panel.ui.boxTable.rowCount == 0
    kit.load_scene(path)
    panel.enter()
    assert panel.structureList.chosen == CHOSEN
    assert [volume.GetName() for volume in panel.ui.targetSelector.checkedNodes()] == ["Current"]
    assert (panel.ui.recallSlider.value, panel.ui.marginSpinBox.value) == (0.9, 7.5)
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
