"""Find by words in the panel of Anatomical Landmarks: what is typed, answered, shaded and taken away again."""

import pytest
import slicer
import vtk
from scans import add_patient, patient

from slicer_kit.hierarchy import hierarchy_of


@pytest.fixture
def panel(kit, map_folder, kept_finders):
    """The module on two scans, its maps kept from test to test."""
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    ModuleSettings.setCacheFolder(str(map_folder))
    ModuleSettings.setDevice("cpu")
    for number, name in enumerate(("Prior", "Current")):
        add_patient(number, name)
    return kit.open(kit.load_module("AnatomicalLandmarks"))


def enter(panel, text):
    panel.ui.findEdit.text = text
    panel.ui.findEdit.returnPressed.emit()


def settle(kit, panel):
    kit.spin(lambda: not panel.session.store.busy and not panel.words.busy, 60)


def said(panel) -> str:
    return panel.ui.findLabel.text


def shaded() -> list[str]:
    return [node.GetName() for node in slicer.util.getNodesByClass("vtkMRMLSegmentationNode")]


def test_enter_finds_in_all_scans_and_goes_on_to_the_next_place(kit, panel):
    assert not panel.ui.findLabel.visible
    enter(panel, "cyst in the liver, brain")
    settle(kit, panel)
    assert "1 of 2: liver" in said(panel)
    assert "Prior: found (" in said(panel)
    assert "Current: found (" in said(panel)
    assert shaded() == ["liver", "liver"]
    panel.ui.findEdit.returnPressed.emit()
    settle(kit, panel)
    assert "2 of 2: brain" in said(panel)
    assert said(panel).count("not in this scan; it lies superior to it") == 2
    assert shaded() == []
    assert not kit.dialogs


def test_suggestions_complete_the_last_words(kit, panel):
    panel.ui.findEdit.textEdited.emit("mass in the left adr")
    assert panel.findPanel.completer.model().stringList() == ["mass in the left adrenal gland"]
    panel.findPanel.completer.activated[str].emit("liver")
    settle(kit, panel)
    assert "liver" in said(panel)


def test_an_emptied_field_takes_everything_away(kit, panel):
    enter(panel, "liver")
    settle(kit, panel)
    panel.ui.findEdit.text = ""
    assert shaded() == []
    assert not panel.ui.findLabel.visible


def test_what_is_not_understood_is_a_sentence(kit, panel):
    enter(panel, "the weather")
    settle(kit, panel)
    assert "names no place that is known" in said(panel)
    enter(panel, "liver")
    settle(kit, panel)
    assert "names no place" not in said(panel)


def test_missing_packages_are_a_sentence(kit, panel, monkeypatch):
    monkeypatch.setattr(type(panel.session.store.engine), "missingPackages", staticmethod(lambda: ["torch"]))
    enter(panel, "liver")
    settle(kit, panel)
    assert "torch is not installed" in said(panel)


def test_sentences_of_a_pasted_report_can_be_clicked(kit, panel):
    import qt

    assert panel.ui.reportBox.collapsed
    panel.ui.reportBox.collapsed = False
    panel.ui.reportEdit.plainText = "Enlarged liver and spleen.\nNo comment.\nNormal stomach."
    kit.click(panel.ui.reportButton)
    settle(kit, panel)
    sentences = panel.ui.reportList
    assert [sentences.item(n).text() for n in range(sentences.count)] == [
        "Enlarged liver and spleen.",
        "No comment.",
        "Normal stomach.",
    ]
    assert not sentences.item(1).flags() & qt.Qt.ItemIsEnabled
    sentences.itemClicked.emit(sentences.item(0))
    settle(kit, panel)
    assert "1 of 2: liver" in said(panel)
    panel.ui.findEdit.returnPressed.emit()
    settle(kit, panel)
    assert "2 of 2: spleen" in said(panel)


def test_a_report_from_a_file_is_read(kit, panel, tmp_path):
    (tmp_path / "report.txt").write_text("Cyst of the left kidney.", encoding="utf-8")
    kit.dialogs.answer("open_file", str(tmp_path / "report.txt"))
    kit.click(panel.ui.reportFileButton)
    settle(kit, panel)
    assert panel.ui.reportList.count == 1


def test_the_name_under_the_mouse_is_shown_while_the_crosshair_is_on(kit, panel):
    enter(panel, "liver")
    settle(kit, panel)
    panel.ui.crosshairCheckBox.checked = True
    volume = panel.words.volumes[1]
    panel.crosshair.follow(volume, panel.words.found(volume).world)
    settle(kit, panel)
    assert panel.ui.nameLabel.text.startswith("liver, ")
    panel.crosshair.follow(volume, (0.0, 0.0, 9e3))
    assert panel.ui.nameLabel.text == ""
    panel.ui.crosshairCheckBox.checked = False
    assert not panel.ui.nameLabel.visible


def test_leaving_the_module_and_closing_the_scene_leave_nothing(kit, panel):
    enter(panel, "liver")
    settle(kit, panel)
    panel.exit()
    assert shaded() == []
    panel.enter()
    enter(panel, "liver")
    kit.close_scene()
    settle(kit, panel)
    assert panel.ui.findEdit.text == ""
    assert shaded() == []
    assert not panel.ui.findEdit.enabled


def hierarchy_names(scene) -> list[str]:
    items, hierarchy = vtk.vtkIdList(), hierarchy_of(scene)
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


def test_points_and_their_undo_are_left_alone(kit, panel):
    points = panel.ui.pointsSelector.addNode()
    points.AddControlPointWorld(vtk.vtkVector3d(*patient(0).points_ras["carina"]), "carina")
    settle(kit, panel)
    enter(panel, "liver")
    settle(kit, panel)
    kit.click(panel.ui.undoButton)
    assert points.GetNumberOfControlPoints() == 0
    assert shaded() == ["liver", "liver"]
