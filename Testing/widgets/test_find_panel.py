"""Test the search by words in Anatomical Landmarks: typed text, answers, shaded regions, and removing them."""

import pytest
import slicer
import vtk

from slicer_kit.hierarchy import hierarchy_of


@pytest.fixture
def panel(open_module, kept_finders):
    """The module on two scans."""
    return open_module("AnatomicalLandmarks", "Prior", "Current")


def enter(panel, text):
    panel.ui.findEdit.text = text
    panel.ui.findEdit.returnPressed.emit()


def settle(kit, panel):
    kit.spin(lambda: not panel.session.store.busy and not panel.words.busy, 60)


def said(panel) -> str:
    return panel.ui.findLabel.text


def shaded() -> list[str]:
    return [node.GetName() for node in slicer.util.getNodesByClass("vtkMRMLSegmentationNode")]


def test_suggestions_complete_the_last_words(kit, panel):
    panel.ui.findEdit.textEdited.emit("mass in the left adr")
    assert panel.findPanel.completer.model().stringList() == ["mass in the left adrenal gland"]
    panel.findPanel.completer.activated[str].emit("liver")
    settle(kit, panel)
    assert "liver" in said(panel)


def hierarchy_names(scene) -> list[str]:
    items = vtk.vtkIdList()
    hierarchy = hierarchy_of(scene)
    hierarchy.GetItemChildren(hierarchy.GetSceneItemID(), items, True)
    return [hierarchy.GetItemName(items.GetId(n)) for n in range(items.GetNumberOfIds())]


def test_a_saved_scene_holds_no_region(kit, panel, tmp_path):
    enter(panel, "liver")
    settle(kit, panel)
    kit.save_scene(tmp_path / "scene.mrb")
    assert shaded() == ["liver", "liver"]
    kit.load_scene(tmp_path / "scene.mrb")
    assert shaded() == []
    panel.words.poll()
    assert hierarchy_names(kit.scene) == ["Prior", "Current"]
