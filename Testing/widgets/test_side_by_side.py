"""Scans in the views of a window: seen at the first press, as tissue, and where the point is."""

import numpy as np
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

    ModuleSettings.setCacheFolder(str(map_folder))
    ModuleSettings.setDevice("cpu")
    add_patient(0, "Prior", add_transform(kit.scene, turned(0, (0, 0, 900.0))))
    add_patient(1, "Current")
    return kit.open(kit.load_module("AnatomicalLandmarks"))


def node(name):
    return slicer.util.getNode(name)


def middle(volume):
    bounds = [0.0] * 6
    volume.GetRASBounds(bounds)
    return np.array([sum(bounds[n : n + 2]) / 2 for n in (0, 2, 4)])


def centre(view):
    matrix = view.GetSliceToRAS()
    return np.array([matrix.GetElement(n, 3) for n in range(3)])


def views_of(kit, volume):
    return Views.viewsOf(kit.scene, volume)


def texts(window):
    found = {
        name: window.sliceWidget(name).sliceView().cornerAnnotation().GetText(7) for name in window.sliceViewNames()
    }
    return {name: text for name, text in found.items() if text}


def prepare(kit, panel):
    kit.click(panel.preparation.button)
    kit.spin(lambda: not panel.session.store.busy, 60)


def test_the_first_press_makes_and_draws_one_view_after_the_other(kit, panel, window):
    """Each view takes Slicer a while, to make, to put into the window and to draw: none in one go with another."""
    kit.process_events()
    kit.click(panel.ui.gridButton)
    assert len(window.sliceViewNames()) == 6
    assert (window.most_at_once, window.most_put_in) == (1, 1)
    assert [window.sliceWidget(name).sliceView().rendered for name in window.sliceViewNames()] == [1] * 6
    before = window.laid_out
    kit.click(panel.ui.axialButton)
    assert len(window.sliceViewNames()) == 6, "views that are there are used again"
    assert window.laid_out == before + 1, "and the window is laid out once"


def test_in_a_narrow_window_no_more_than_two_views_are_in_a_row(kit, panel, window):
    """The bar of a slice view takes 330 pixels, and the window would grow past the screen."""
    window.width = 1280
    for number, button in enumerate((panel.ui.gridButton, panel.ui.axialButton)):
        kit.click(button)
        shown = [view.GetOrientation() for view in views_of(kit, node("Current")) if window.is_shown(view)]
        assert shown == [["Axial", "Coronal"], ["Axial"]][number]
    for number in range(3, 7):
        add_patient(0, f"Scan {number}")
    kit.click(panel.ui.axialButton)
    rows = window.node.GetCurrentLayoutDescription().split('type="horizontal"')[1:]
    assert [row.count("vtkMRMLSliceNode") for row in rows] == [2, 2, 2]


def test_a_scan_that_does_not_show_the_point_says_so_in_its_own_views(kit, panel, window):
    kit.click(panel.ui.gridButton)
    prepare(kit, panel)
    points = panel.ui.pointsSelector.addNode()
    points.AddControlPointWorld(vtk.vtkVector3d(*(patient(0).points_ras["carina"] + (0, 0, 900))), "carina")
    assert texts(window) == {}
    (row,) = panel.logic.rows()
    panel.logic.setNotVisible(row.pointId, node("Current"))
    panel.logic.jumpTo(row.pointId)
    own = {view.GetLayoutName() for view in views_of(kit, node("Current"))}
    assert texts(window) == dict.fromkeys(own, "carina: not in this scan")
    panel.ui.pointsSelector.addNode()  # another list: nothing is known of it
    assert texts(window) == {}


def test_a_ct_is_shown_as_soft_tissue_until_the_user_says_otherwise(kit, panel):
    def windows():
        displays = [node(name).GetDisplayNode() for name in ("Prior", "Current")]
        return [(display.GetWindow(), display.GetLevel()) for display in displays]

    kit.spin(lambda: windows() == [(400, 40)] * 2)
    kit.click(panel.viewButtons.windowButtons["Lung"])
    assert windows() == [(1500, -600)] * 2
    node("Current").GetDisplayNode().SetWindowLevel(300, 50)  # as with the mouse
    kit.spin(lambda: windows() == [(300, 50)] * 2)
    node("Prior").GetDisplayNode().SetAutoWindowLevel(True)
    kit.spin(lambda: panel.session.store is not None)
    assert node("Prior").GetDisplayNode().GetAutoWindowLevel(), "chosen by the user, after us"


def test_an_aligned_scan_stays_in_its_own_views(kit, panel):
    kit.click(panel.ui.gridButton)
    panel.ui.alignKindComboBox.setCurrentIndex(0)
    kit.click(panel.ui.alignButton)
    kit.spin(lambda: not panel.alignment.busy, 120)
    assert abs(middle(node("Current")) - middle(node("Prior"))).max() < 50, "it was laid on a scan 900 mm away"
    assert all(np.allclose(centre(view), middle(node("Current"))) for view in views_of(kit, node("Current")))
    kit.click(panel.ui.alignUndoButton)
    assert all(np.allclose(centre(view), middle(node("Current"))) for view in views_of(kit, node("Current")))


def test_a_loaded_scene_is_drawn(kit, panel, window, tmp_path):
    kit.click(panel.ui.gridButton)
    path = kit.save_scene(tmp_path / "scene.mrb")
    read_mrb(kit.scene, path)  # alone: without the events that follow it
    before = {name: window.sliceWidget(name).sliceView().rendered for name in window.sliceViewNames()}
    kit.process_events()
    assert all(window.sliceWidget(name).sliceView().rendered > count for name, count in before.items())


def test_a_loaded_scene_shows_the_places_that_were_shown(kit, panel, window, tmp_path):
    kit.click(panel.ui.gridButton)
    for name, place in (("Prior", (10.0, 20.0, 930.0)), ("Current", (-5.0, 6.0, 270.0))):
        Views.jump(kit.scene, node(name), place)
    kit.save_scene(tmp_path / "scene.mrb")
    kit.reset()
    window = kit.open_window()
    kit.load_module("AnatomicalLandmarks")
    kit.load_scene(tmp_path / "scene.mrb")
    kit.process_events()
    for name, place in (("Prior", (10.0, 20.0, 930.0)), ("Current", (-5.0, 6.0, 270.0))):
        views = views_of(kit, node(name))
        assert len(views) == 3
        assert all(np.allclose(centre(view), place) for view in views)
        assert all(window.is_shown(view) for view in views)
