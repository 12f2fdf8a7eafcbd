"""Test the inputs and texts of the panel of Anatomical ROI. The scenario `boxes` tests a whole search."""

from box_bench import add_roi, truth
from roi_actions import cells, find, node, tick
from scans import add_patient

# -- scans


def chosen(panel):
    return [volume.GetName() for volume in panel.ui.targetSelector.checkedNodes()]


def test_all_cts_are_searched_but_crops(kit, panel):
    assert not panel.ui.targetSelector.enabled
    assert chosen(panel) == ["Prior", "Current"]
    find(kit, panel, "Liver")
    kit.click(panel.ui.cropButton)
    assert node("Prior crop") is not None
    panel.ui.coverageSection.collapsed = False
    assert [row[::2] for row in cells(panel.ui.coverageTable)] == [
        [n, "no fault found"] for n in ("Prior", "Current")
    ]
    add_patient(2, "Later")
    assert chosen(panel) == ["Prior", "Current", "Later"]
    assert panel.ui.cropButton.text == "Crop 3 scans"
    tick(panel, "Spleen")
    assert panel.ui.cropButton.text == "Crop 3 scans around all structures"
    panel.ui.separatelyCheckBox.checked = True
    assert panel.ui.cropButton.text == "Crop 3 scans to each structure"


def test_a_missing_choice_is_stated_by_the_buttons(kit, panel):
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


# -- the library


def test_the_library_is_listed_searched_and_ticked(panel):
    listed = panel.ui.structureList
    count = listed.count
    panel.ui.searchEdit.text = "left KID"
    assert [listed.item(n).text() for n in range(count) if not listed.item(n).isHidden()] == [
        "Kidney left"
    ]
    tick(panel, "Kidney left", "Liver")
    assert list(panel._parameterNode.structures) == ["kidney_left", "liver"]
    assert panel.ui.countLabel.text == f"2 of {count} structures ticked"
    panel.ui.searchEdit.text = ""
    assert not any(listed.item(n).isHidden() for n in range(count))
    panel.ui.clearStructuresButton.click()
    assert list(panel._parameterNode.structures) == []


# -- a search, and what it found


def test_a_saved_scene_keeps_choices_examples_and_boxes(kit, panel, tmp_path):
    find(kit, panel, "Liver", "Spleen")
    panel.boxes.examples.add(
        "stomach", add_roi(kit.scene, truth(0)["stomach"].box_ras, "mine"), node("Prior")
    )
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
    assert panel.structurePanel.chosen == ["liver", "spleen"]
    assert chosen(panel) == ["Current"]
    assert (panel.ui.recallSpinBox.value, panel.ui.marginSpinBox.value) == (0.9, 7.5)
    assert panel.ui.separatelyCheckBox.checked
    assert panel.ui.replaceEditedCheckBox.checked
    assert panel.ui.exampleVolumeSelector.currentNode() is node("Prior")
    assert [row[0] for row in cells(panel.ui.exampleTable)] == ["Stomach"]
    assert cells(panel.ui.boxTable) == [["Liver", "\u2713 whole"], ["Spleen", "\u2713 whole"]]
