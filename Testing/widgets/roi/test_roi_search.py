"""Looking for boxes in the ROI panel: the library, the search, and the boxes in table and scene."""

import numpy as np
import slicer
import slicer.util
from roi_actions import boxes, cells, find, node, tick
from view_nodes import add_view

from AnatomicalEmbeddingLib.shared.Views import volumeIn

# -- library


def shipped_count() -> int:
    """How many structures the shipped library holds, read from its file."""
    from AnatomicalEmbedding.resources import DEFAULT_MODEL, resource
    from AnatomicalEmbedding.structures.library import StructureLibrary

    return len(StructureLibrary.load(resource("Structures") / f"{DEFAULT_MODEL}.structures.safetensors").examples)


def test_the_library_is_listed_searched_and_ticked(panel):
    listed = panel.ui.structureList
    assert listed.count == shipped_count()
    panel.ui.searchEdit.text = "left KID"
    shown = [listed.item(n).text() for n in range(listed.count) if not listed.item(n).isHidden()]
    assert shown == ["Kidney left"]
    tick(panel, "Kidney left", "Liver")
    assert list(panel._parameterNode.structures) == ["kidney_left", "liver"]
    assert panel.ui.countLabel.text == f"2 of {shipped_count()} structures ticked"
    panel.ui.searchEdit.text = ""
    assert not any(listed.item(n).isHidden() for n in range(listed.count))
    panel.ui.clearStructuresButton.click()
    assert list(panel._parameterNode.structures) == []
    assert not panel.ui.clearStructuresButton.enabled


def test_weights_without_a_library_are_reported_and_those_with_one_bring_it_back(panel, other_weights):
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    tick(panel, "Liver")
    ModuleSettings.setWeights(str(other_weights))
    assert panel.ui.structureList.count == 0
    assert panel.ui.countLabel.text == "There is no library for these weights."
    ModuleSettings.setWeights("auto")
    assert panel.ui.structureList.count == shipped_count()
    assert panel.structureList.chosen == ["liver"]


def test_a_library_file_that_is_none_is_reported_in_a_sentence(kit, panel, tmp_path):
    tick(panel, "Liver")
    panel.ui.libraryFileEdit.currentPath = str(tmp_path / "gone.structures.safetensors")
    assert panel.ui.structureList.count == 0
    assert not panel.ui.findButton.enabled
    panel.ui.libraryFileEdit.currentPath = ""
    assert panel.structureList.chosen == ["liver"]


def test_a_library_of_ones_own_is_taken_up_and_let_go_of(panel, tmp_path):
    edit = panel.ui.libraryFileEdit
    heard = []
    edit.connect("currentPathChanged(QString)", heard.append)
    own = str(tmp_path / "mine.structures.safetensors")
    edit.currentPath = own
    assert heard == [own], "the dialog's own filter refuses the file"
    assert panel._parameterNode.libraryFile == own
    edit.currentPath = own[:-5]  # a person takes the text back, letter by letter
    edit.currentPath = ""
    assert panel._parameterNode.libraryFile == ""


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
    assert "recall of 0.95, about" in panel.ui.boxTable.item(2, 1).toolTip()
    assert "times the structure's own box" in panel.ui.boxTable.item(2, 1).toolTip()
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


def test_the_recall_that_is_entered_is_asked_for(kit, panel):
    box = panel.ui.recallSpinBox
    assert (box.minimum, box.maximum, box.value) == (0.5, 0.995, 0.95)
    box.value = 0.8
    find(kit, panel, "Liver")
    assert "recall of 0.8" in panel.ui.boxTable.item(0, 1).toolTip()


def test_a_double_click_jumps_to_the_box(kit, panel):
    find(kit, panel, "Liver", "Brain")
    view = add_view(kit.scene, "Test", node("Current"))
    panel.ui.boxTable.cellDoubleClicked.emit(1, 2)
    centre = node("liver in Current").GetCenter()
    np.testing.assert_allclose(slicer.util.arrayFromVTKMatrix(view.GetSliceToRAS())[:3, 3], centre, atol=1e-3)
    assert node("liver in Current").GetDisplayNode().GetHandlesInteractive()
    panel.ui.boxTable.cellDoubleClicked.emit(0, 2)
    assert panel.ui.statusLabel.text == "Current has no box of Brain."
    kit.spin(lambda: list(node("liver in Current").GetDisplayNode().GetViewNodeIDs()) == [view.GetID()])


def test_a_double_click_on_a_scan_that_is_not_shown_shows_it(kit, panel):
    find(kit, panel, "Liver")
    view = add_view(kit.scene, "Red", node("Prior"))
    assert not node("liver in Current").GetDisplayNode().GetVisibility2D(), "no view shows its scan"
    panel.ui.boxTable.cellDoubleClicked.emit(0, 2)
    assert volumeIn(kit.scene, view) is node("Current")
    centre = node("liver in Current").GetCenter()
    np.testing.assert_allclose(slicer.util.arrayFromVTKMatrix(view.GetSliceToRAS())[:3, 3], centre, atol=1e-3)
    kit.spin(lambda: node("liver in Current").GetDisplayNode().GetVisibility2D())
    assert not node("liver in Prior").GetDisplayNode().GetVisibility2D()


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


def test_missing_packages_are_reported_in_a_sentence(kit, panel, monkeypatch):
    from AnatomicalEmbeddingLib.shared.maps.Engine import Engine

    monkeypatch.setattr(Engine, "missingPackages", staticmethod(lambda: ["torch"]))
    tick(panel, "Liver")
    kit.click(panel.ui.findButton)
    assert "torch is not installed" in panel.ui.statusLabel.text
    assert not panel.boxes.busy
    assert not kit.dialogs
