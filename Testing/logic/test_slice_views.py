"""Slice views on nodes alone: which show what, jumping, a row for each scan; and the crosshair that follows anatomy."""

import numpy as np
import pytest
import slicer
import slicer.util
from scans import add_patient, add_points, add_transform, finish, make_store, patient, turned
from view_nodes import add_view, remove_views

from AnatomicalEmbeddingLib import Views
from AnatomicalEmbeddingLib.Landmarks.AnatomicalCrosshair import AnatomicalCrosshair
from AnatomicalEmbeddingLib.Landmarks.LandmarkLogic import LandmarkLogic
from slicer_kit.scene import read_mrb, write_mrb


@pytest.fixture
def views(scene):
    """Two views of one scan, one of another; gone afterwards, for views outlive the closing of a scene."""
    slicer.vtkMRMLSliceNode.AddDefaultSliceOrientationPresets(scene)
    first, second = add_patient(0, "First"), add_patient(1, "Second")
    made = add_view(scene, "Aax", first), add_view(scene, "Acor", first, "Coronal"), add_view(scene, "Bax", second)
    yield first, second, made
    remove_views(scene)


def centre(slice_node) -> np.ndarray:
    matrix = slice_node.GetSliceToRAS()
    return np.array([matrix.GetElement(n, 3) for n in range(3)])


def test_views_are_found_by_what_they_show(scene, views):
    first, second, (axial, coronal, other) = views
    assert Views.viewsOf(scene, first) == [axial, coronal]
    assert Views.viewsOf(scene, second) == [other]
    assert Views.volumeIn(scene, coronal) is first


def test_a_jump_moves_the_scans_views_and_no_others(scene, views):
    first, _second, (axial, coronal, other) = views
    before = centre(other)
    Views.jump(scene, first, (10.0, 20.0, 30.0))
    assert np.allclose(centre(axial), (10, 20, 30))
    assert np.allclose(centre(coronal), (10, 20, 30))
    assert np.allclose(centre(other), before)
    Views.jump(scene, first, (1.0, 2.0, 3.0), besides=axial)
    assert np.allclose(centre(axial), (10, 20, 30))
    assert np.allclose(centre(coronal), (1, 2, 3))


def test_a_list_is_shown_in_the_views_of_its_scan_only(scene, views):
    first, _second, (axial, coronal, other) = views
    display = add_points(scene, {}).GetDisplayNode()
    Views.showOnlyIn(display, scene, first)
    assert set(display.GetViewNodeIDs()) == {axial.GetID(), coronal.GetID()}
    assert not display.IsDisplayableInView(other.GetID())
    Views.showOnlyIn(display, scene, add_patient(2))
    assert display.IsDisplayableInView(other.GetID())


def test_points_follow_their_scan_into_other_views(scene, views, tmp_path):
    first, second, (axial, coronal, other) = views
    store = make_store(scene, tmp_path)
    logic = LandmarkLogic(scene, store)
    try:
        logic.setScans(first, [second])
        logic.setPoints(add_points(scene, {}))
        display = logic.points.GetDisplayNode()
        assert set(display.GetViewNodeIDs()) == {axial.GetID(), coronal.GetID()}
        Views.compositeOf(scene, other).SetBackgroundVolumeID(first.GetID())  # as the user does in a view's bar
        Views.compositeOf(scene, axial).SetBackgroundVolumeID(second.GetID())
        logic.poll()
        assert set(display.GetViewNodeIDs()) == {other.GetID(), coronal.GetID()}
    finally:
        logic.close()
        store.close()


def test_the_grid_has_a_row_of_linked_views_for_each_scan(scene, views):
    first, second, _ = views
    layout = slicer.vtkMRMLLayoutLogic()
    layout.SetMRMLScene(scene)
    third = add_patient(2, 'Third <"&">')
    for tag in [Views.viewTag(row, o) for row in range(3) for o in ("Axial", "Sagittal", "Coronal")]:
        add_view(scene, tag, None)
    node = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    node.AddMaximizedViewNode(views[2][0])
    assert Views.showGrid(scene, [first, second, third])
    assert node.GetNumberOfMaximizedViewNodes() == 0
    assert node.GetViewArrangement() == Views.GRID_LAYOUT
    for row, volume in enumerate((first, second, third)):
        shown = Views.viewsOf(scene, volume)
        tags = {Views.viewTag(row, orientation) for orientation in ("Axial", "Sagittal", "Coronal")}
        assert tags <= {view.GetLayoutName() for view in shown}
        groups = {view.GetViewGroup() for view in shown if view.GetLayoutName() in tags}
        assert len(groups) == 1
    all_groups = {view.GetViewGroup() for view in Views.sliceNodes(scene) if view.GetLayoutName().startswith("AE")}
    assert len(all_groups) == 3
    assert Views.showGrid(scene, [second])  # again, with another description
    layout.SetMRMLScene(None)


def test_the_grid_is_known_before_it_is_used(scene):
    node = scene.GetFirstNodeByClass("vtkMRMLLayoutNode") or scene.AddNewNodeByClass("vtkMRMLLayoutNode")
    node.SetLayoutDescription(Views.GRID_LAYOUT, "")  # forgets the grid of another test
    assert not node.IsLayoutDescription(Views.GRID_LAYOUT)
    before = node.GetViewArrangement()
    Views.offerGrid(scene)
    assert node.GetViewArrangement() == before
    described = node.GetLayoutDescription(Views.GRID_LAYOUT)
    assert Views.viewTag(1, "Coronal") in described
    assert Views.viewTag(2, "Axial") not in described


def test_a_scene_that_was_saved_with_three_rows_opens_with_three(scene, tmp_path):
    node = scene.GetFirstNodeByClass("vtkMRMLLayoutNode") or scene.AddNewNodeByClass("vtkMRMLLayoutNode")
    node.SetLayoutDescription(Views.GRID_LAYOUT, "")
    Views.offerGrid(scene)
    Views.showGrid(scene, [add_patient(number, f"<{number}>") for number in range(3)])
    write_mrb(scene, tmp_path / "three.mrb")
    scene.Clear(0)
    node = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    node.SetViewArrangement(node.SlicerLayoutConventionalView)
    node.SetLayoutDescription(Views.GRID_LAYOUT, Views.gridLayout(["", ""]))  # as after a start of Slicer
    node.RemoveAttribute("AnatomicalEmbedding.Rows")
    read_mrb(scene, tmp_path / "three.mrb")
    assert node.GetViewArrangement() == Views.GRID_LAYOUT
    described = node.GetLayoutDescription(Views.GRID_LAYOUT)
    assert Views.viewTag(2, "Axial") in described
    assert Views.viewTag(3, "Axial") not in described


def test_without_a_layout_there_is_no_grid(scene):
    node = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    if node is not None:
        scene.RemoveNode(node)
    assert not Views.showGrid(scene, [add_patient(0)])
    Views.offerGrid(scene)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def crosshair(scene, views, map_folder):
    store = make_store(scene, map_folder)
    store.request(views[:2])
    finish(store)
    made = AnatomicalCrosshair(scene, store, Clock())
    made.volumes = list(views[:2])
    made.setEnabled(True)
    yield made
    made.close()
    store.close()


def move_mouse(scene, slice_node, ras) -> None:
    """As the application's views do."""
    to_view = np.linalg.inv(slicer.util.arrayFromVTKMatrix(slice_node.GetXYToRAS()))
    xyz = (to_view @ [*ras, 1.0])[:3]
    scene.GetFirstNodeByClass("vtkMRMLCrosshairNode").SetCursorPositionXYZ(list(xyz), slice_node)


def test_the_other_scan_follows_the_mouse_to_the_same_anatomy(scene, views, crosshair):
    first, second, (axial, _, other) = views
    before = centre(axial)
    move_mouse(scene, axial, patient(0).points_ras["carina"])
    marker = crosshair.marker(second)
    assert np.linalg.norm(np.array(marker.GetNthControlPointPositionWorld(0)) - patient(1).points_ras["carina"]) < 10
    assert abs(centre(other)[2] - patient(1).points_ras["carina"][2]) < 10
    assert np.allclose(centre(axial), before)
    assert crosshair.marker(first) is None


def test_a_moved_scan_is_followed_in_the_world(scene, views, crosshair):
    _first, second, (axial, _, _) = views
    move_mouse(scene, axial, patient(0).points_ras["carina"])
    plain = np.array(crosshair.marker(second).GetNthControlPointPositionWorld(0))
    matrix = turned(30, (50, 60, 70))
    second.SetAndObserveTransformNodeID(add_transform(scene, matrix).GetID())
    crosshair._clock.now += 1
    move_mouse(scene, axial, patient(0).points_ras["carina"])
    moved = np.array(crosshair.marker(second).GetNthControlPointPositionWorld(0))
    assert np.allclose(moved, (matrix @ [*plain, 1.0])[:3], atol=1e-3)


def test_moves_that_come_too_fast_are_shown_by_the_next_poll(scene, views, crosshair):
    _, second, (axial, _, _) = views
    move_mouse(scene, axial, patient(0).points_ras["carina"])
    at = np.array(crosshair.marker(second).GetNthControlPointPositionWorld(0))
    move_mouse(scene, axial, patient(0).points_ras["kidney_left_lower_pole"])
    crosshair.poll()
    assert np.allclose(crosshair.marker(second).GetNthControlPointPositionWorld(0), at)
    crosshair._clock.now += 0.05
    crosshair.poll()
    assert np.linalg.norm(np.array(crosshair.marker(second).GetNthControlPointPositionWorld(0)) - at) > 50


def test_markers_are_not_saved_nor_offered_and_go_when_it_is_off(scene, views, crosshair):
    _, second, (axial, _, other) = views
    move_mouse(scene, axial, patient(0).points_ras["carina"])
    marker = crosshair.marker(second)
    assert not marker.GetSaveWithScene()
    assert marker.GetHideFromEditors()
    assert list(marker.GetDisplayNode().GetViewNodeIDs()) == [other.GetID()]
    crosshair.setEnabled(False)
    assert crosshair.marker(second) is None
    assert scene.GetFirstNodeByName("Anatomical crosshair") is None
    crosshair._clock.now += 1
    move_mouse(scene, axial, patient(0).points_ras["carina"])
    assert scene.GetFirstNodeByName("Anatomical crosshair") is None


def test_outside_the_scan_nothing_happens(scene, views, crosshair):
    _, second, (axial, _, _) = views
    move_mouse(scene, axial, (0.0, 0.0, 9000.0))
    assert crosshair.marker(second) is None


def test_closing_the_scene_or_deleting_a_scan_is_harmless(scene, views, crosshair):
    _, second, (axial, _, _) = views
    move_mouse(scene, axial, patient(0).points_ras["carina"])
    scene.RemoveNode(crosshair.marker(second))
    crosshair._clock.now += 1
    move_mouse(scene, axial, patient(0).points_ras["diaphragm_dome_right"])
    assert crosshair.marker(second) is not None
    scene.Clear(0)
    crosshair._clock.now += 1
    crosshair.poll()
    assert crosshair._markers == {}
