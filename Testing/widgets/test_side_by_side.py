"""Test scans in the views of a window: shown at the first press, in a soft-tissue window, at the chosen point."""

import pytest
import slicer.util
import vtk
from scans import add_patient, add_transform, patient, turned

from AnatomicalEmbeddingLib.shared import Views
from slicer_kit.scene import read_mrb


@pytest.fixture
def window(kit):
    """The main window, with no view of ours yet."""
    return kit.open_window()


@pytest.fixture
def panel(kit, window, map_folder):
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    ModuleSettings.setValue("cacheFolder", str(map_folder))
    ModuleSettings.setValue("device", "cpu")
    add_patient(0, "Prior", add_transform(kit.scene, turned(0, (0, 0, 900.0))))
    add_patient(1, "Current")
    return kit.open(kit.load_module("AnatomicalLandmarks"))


def node(name):
    return slicer.util.getNode(name)


def views_of(kit, volume):
    return Views.viewsOf(kit.scene, volume)


def test_in_a_narrow_window_no_more_than_two_views_are_in_a_row(kit, panel, window):
    """The bar of a slice view takes 330 pixels, and the window would grow past the screen."""
    window.width = 1280
    for number, button in enumerate((panel.ui.gridButton, panel.ui.axialButton)):
        kit.click(button)
        shown = [
            view.GetOrientation()
            for view in views_of(kit, node("Current"))
            if window.is_shown(view)
        ]
        assert shown == [["Axial", "Coronal"], ["Axial"]][number]
    for number in range(3, 7):
        add_patient(0, f"Scan {number}")
    kit.click(panel.ui.axialButton)
    rows = window.node.GetCurrentLayoutDescription().split('type="horizontal"')[1:]
    assert [row.count("vtkMRMLSliceNode") for row in rows] == [2, 2, 2]


def test_four_scans_in_a_narrow_window_have_one_view_each(kit, panel, window):
    for number in range(2):
        add_patient(number, f"More {number}")
    kit.spin(lambda: len(panel.logic.targets) == 3)
    for width, views in ((1280, 1), (1920, 3)):
        window.width = width
        kit.click(panel.ui.gridButton)
        shown = [view for view in views_of(kit, node("More 1")) if window.is_shown(view)]
        assert len(shown) == views
    assert panel.ui.statusLabel.text == ""


def test_a_loaded_scene_is_drawn(kit, panel, window, tmp_path):
    kit.click(panel.ui.gridButton)
    path = kit.save_scene(tmp_path / "scene.mrb")
    read_mrb(kit.scene, path)  # alone: without the events that follow it
    before = {
        name: window.sliceWidget(name).sliceView().rendered for name in window.sliceViewNames()
    }
    kit.process_events()
    assert all(
        window.sliceWidget(name).sliceView().rendered > count for name, count in before.items()
    )


def test_views_show_the_level_of_the_axial_slice_once_the_scan_has_a_map(kit, panel, window):
    """The scan "Prior" is 90 cm above its own place, by a transform."""
    kit.click(panel.ui.gridButton)
    views = {view.GetOrientation(): view for view in views_of(kit, node("Prior"))}

    def level(orientation: str) -> str:
        corners = (
            window.sliceWidget(views[orientation].GetLayoutName()).sliceView().cornerAnnotation()
        )
        return corners.GetText(vtk.vtkCornerAnnotation.LowerEdge) or ""

    def show(name: str) -> None:
        for view in views.values():
            view.JumpSliceByOffsetting(*(patient(0).points_ras[name] + [0, 0, 900]))

    show("vertebrae_L1")
    kit.process_events()
    assert level("Axial") == ""
    kit.click(panel.preparation.button)
    kit.spin(lambda: not panel.session.store.busy, 60)
    kit.spin(lambda: "L1" in level("Axial"))
    assert level("Axial").splitlines()[-1].isspace(), "the last line is empty: the ruler is there"
    assert {level(other) for other in ("Sagittal", "Coronal")} == {f"axial slice: {level('Axial')}"}
    show("vertebrae_L3")
    kit.spin(lambda: "L3" in level("Axial"))
    panel.exit()
    assert {level(orientation) for orientation in views} == {""}


def test_texts_in_views_are_wrapped_and_have_a_dark_ground(kit, panel, window):
    from AnatomicalEmbeddingLib.shared.panels.ViewPanel import writeInViews

    kit.click(panel.ui.gridButton)
    current = node("Current")
    sentence = "upper pole of the right kidney: not in this scan; it lies beyond the lower end"
    writeInViews(kit.scene, {current.GetID(): sentence})
    for view in views_of(kit, current):
        corners = window.sliceWidget(view.GetLayoutName()).sliceView().cornerAnnotation()
        lines = corners.GetText(vtk.vtkCornerAnnotation.UpperEdge).split("\n")
        assert " ".join(lines) == sentence
        assert max(map(len, lines)) * 8 < view.GetDimensions()[0]
        assert corners.GetTextProperty().GetBackgroundOpacity() >= 0.5
