"""Slice views on nodes alone: which show what, jumping, a row for each scan; and the crosshair that follows anatomy."""

import numpy as np
import pytest
import slicer
import slicer.util
from scans import add_patient, add_points, add_transform, finish, make_store, patient, turned
from view_nodes import add_view

from AnatomicalEmbeddingLib.landmarks.AnatomicalCrosshair import AnatomicalCrosshair
from AnatomicalEmbeddingLib.landmarks.AnswerList import AnswerList
from AnatomicalEmbeddingLib.landmarks.LandmarkLogic import LandmarkLogic
from AnatomicalEmbeddingLib.shared import SideBySide, Views
from slicer_kit.scene import read_mrb, write_mrb


@pytest.fixture
def views(scene):
    """Two views of one scan, one of another."""
    slicer.vtkMRMLSliceNode.AddDefaultSliceOrientationPresets(scene)
    first, second = add_patient(0, "First"), add_patient(1, "Second")
    made = add_view(scene, "Aax", first), add_view(scene, "Acor", first, "Coronal"), add_view(scene, "Bax", second)
    return first, second, made


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
    Views.jump(scene, first, (1.0, 2.0, 3.0), without=axial)
    assert np.allclose(centre(axial), (10, 20, 30))
    assert np.allclose(centre(coronal), (1, 2, 3))


def test_a_list_is_shown_in_the_views_of_its_scan_only(scene, views):
    first, _second, (axial, coronal, other) = views
    display = add_points(scene, {}).GetDisplayNode()
    Views.showOnlyIn(display, scene, first)
    assert set(display.GetViewNodeIDs()) == {axial.GetID(), coronal.GetID()}
    assert not display.IsDisplayableInView(other.GetID())
    Views.showOnlyIn(display, scene, add_patient(2))  # which no view shows
    assert not display.GetVisibility2D()
    assert not display.GetVisibility3D()
    Views.showOnlyIn(display, scene, first)
    assert display.GetVisibility2D()
    assert display.GetVisibility3D()


def test_what_the_user_has_hidden_stays_hidden(scene, views):
    first, _second, _ = views
    display = add_points(scene, {}).GetDisplayNode()
    display.SetVisibility3D(False)
    for volume in (first, add_patient(2), first):  # no view shows the one between
        Views.showOnlyIn(display, scene, volume)
        assert not display.GetVisibility3D()
    assert display.GetVisibility2D()


def test_marks_stay_over_their_scan_also_those_of_a_scene_saved_before_and_go_with_it(scene, views):
    first, second, (axial, coronal, other) = views
    answers = AnswerList.create(scene, add_points(scene, {}, "Others"), first)
    display = answers.node.GetDisplayNode()
    own = Views.OwnViews(scene)
    assert own.follow()
    assert set(display.GetViewNodeIDs()) == {axial.GetID(), coronal.GetID()}
    Views.compositeOf(scene, axial).SetBackgroundVolumeID(second.GetID())
    own.follow()
    assert list(display.GetViewNodeIDs()) == [coronal.GetID()]
    assert not own.follow()
    scene.RemoveNode(first)
    Views.compositeOf(scene, coronal).SetBackgroundVolumeID(second.GetID())
    own.follow()
    assert not any(
        display.GetVisibility2D() and display.IsDisplayableInView(v.GetID()) for v in (axial, coronal, other)
    )
    assert not display.GetVisibility3D()


def test_3d_views_show_what_belongs_to_one_scan_and_do_not_mix_them(scene, views):
    first, second, _ = views
    solid = scene.AddNewNodeByClass("vtkMRMLViewNode")
    ours, others = (add_points(scene, {}).GetDisplayNode() for _ in range(2))
    Views.showOnlyIn(ours, scene, first)
    Views.showOnlyIn(others, scene, second)
    assert ours.IsDisplayableInView(solid.GetID())
    assert not others.IsDisplayableInView(solid.GetID())


def test_a_scan_is_seen_whole_and_in_the_middle_wherever_it_was_moved(scene, views):
    first, second, (axial, coronal, other) = views
    first.SetAndObserveTransformNodeID(add_transform(scene, turned(0, (1200, 0, -300))).GetID())
    before = centre(other)
    Views.fit(scene, first)
    bounds = [0.0] * 6
    first.GetRASBounds(bounds)
    low, high = np.array(bounds[::2]), np.array(bounds[1::2])
    for view, axes in ((axial, (0, 1)), (coronal, (0, 2))):
        assert np.allclose(centre(view), (low + high) / 2)
        shown = np.array(view.GetFieldOfView()[:2])
        assert (shown >= (high - low)[list(axes)] - 1e-6).all()
        assert np.isclose(shown / (high - low)[list(axes)], 1.0).any()  # and no smaller than it must be
    assert np.allclose(centre(other), before)
    assert second.GetID() in dict(Views.backgrounds(scene)).values()


def test_views_that_go_to_a_lesion_are_near_enough_to_measure_it(scene, views):
    first, _second, (axial, coronal, other) = views
    Views.fit(scene, first)
    wide = other.GetFieldOfView()
    Views.jump(scene, first, (0.0, 0.0, 300.0), atMostMm=150.0)
    assert np.isclose(min(axial.GetFieldOfView()[:2]), 150)
    assert other.GetFieldOfView() == wide
    coronal.SetFieldOfView(60, 60, 1)
    Views.jump(scene, first, (0.0, 0.0, 300.0), atMostMm=150.0)
    assert np.isclose(min(coronal.GetFieldOfView()[:2]), 60)  # the user is nearer already


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
    for tag in [SideBySide.viewTag(row, o) for row in range(3) for o in ("Axial", "Sagittal", "Coronal")]:
        add_view(scene, tag, None)
    node = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    node.AddMaximizedViewNode(views[2][0])
    assert SideBySide.showSideBySide(scene, [first, second, third])
    assert node.GetNumberOfMaximizedViewNodes() == 0
    assert node.GetViewArrangement() == SideBySide.ROWS
    for row, volume in enumerate((first, second, third)):
        shown = Views.viewsOf(scene, volume)
        tags = {SideBySide.viewTag(row, orientation) for orientation in ("Axial", "Sagittal", "Coronal")}
        assert tags <= {view.GetLayoutName() for view in shown}
        groups = {view.GetViewGroup() for view in shown if view.GetLayoutName() in tags}
        assert len(groups) == 1
    all_groups = {view.GetViewGroup() for view in Views.sliceNodes(scene) if view.GetLayoutName().startswith("AE")}
    assert len(all_groups) == 3
    for view in Views.viewsOf(scene, third):
        assert view.GetOrientationMarkerType() == view.OrientationMarkerTypeHuman
        assert view.GetRulerType() == view.RulerTypeThin
    assert SideBySide.showSideBySide(scene, [second])  # again, with another description
    layout.SetMRMLScene(None)


def test_four_scans_can_have_one_large_axial_view_each():
    described = SideBySide.layoutOf(["1", "2", "3", "4"], SideBySide.AXIAL)
    assert [described.count(SideBySide.viewTag(n, "Axial")) for n in range(4)] == [1] * 4
    assert "Coronal" not in described
    assert described.count('type="horizontal"') == 2  # two and two


def test_the_grid_is_known_before_it_is_used(scene):
    node = scene.GetFirstNodeByClass("vtkMRMLLayoutNode") or scene.AddNewNodeByClass("vtkMRMLLayoutNode")
    node.SetLayoutDescription(SideBySide.ROWS, "")  # forgets the grid of another test
    assert not node.IsLayoutDescription(SideBySide.ROWS)
    before = node.GetViewArrangement()
    SideBySide.offerLayouts(scene)
    assert node.GetViewArrangement() == before
    described = node.GetLayoutDescription(SideBySide.ROWS)
    assert SideBySide.viewTag(1, "Coronal") in described
    assert SideBySide.viewTag(2, "Axial") not in described


def test_a_scene_that_was_saved_with_three_rows_opens_with_three(scene, tmp_path):
    node = scene.GetFirstNodeByClass("vtkMRMLLayoutNode") or scene.AddNewNodeByClass("vtkMRMLLayoutNode")
    node.SetLayoutDescription(SideBySide.ROWS, "")
    SideBySide.offerLayouts(scene)
    SideBySide.showSideBySide(scene, [add_patient(number, f"<{number}>") for number in range(3)])
    write_mrb(scene, tmp_path / "three.mrb")
    scene.Clear(0)
    node = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    node.SetViewArrangement(node.SlicerLayoutConventionalView)
    node.SetLayoutDescription(SideBySide.ROWS, SideBySide.layoutOf(["", ""]))  # as after a start of Slicer
    node.RemoveAttribute("AnatomicalEmbedding.Rows")
    read_mrb(scene, tmp_path / "three.mrb")
    assert node.GetViewArrangement() == SideBySide.ROWS
    described = node.GetLayoutDescription(SideBySide.ROWS)
    assert SideBySide.viewTag(2, "Axial") in described
    assert SideBySide.viewTag(3, "Axial") not in described


def test_scans_of_a_loaded_scene_are_scrolled_each_on_its_own(scene, tmp_path):
    """Slicer writes the group of a view as yes or no; views of one group and orientation go to the same place."""
    node = scene.GetFirstNodeByClass("vtkMRMLLayoutNode") or scene.AddNewNodeByClass("vtkMRMLLayoutNode")
    node.SetLayoutDescription(SideBySide.ROWS, "")
    SideBySide.offerLayouts(scene)
    volumes = [add_patient(0, "Near"), add_patient(1, "Far", add_transform(scene, turned(0, (0, 0, 900.0))))]
    tags = [SideBySide.viewTag(row, "Axial") for row in range(2)]
    for tag in tags:
        add_view(scene, tag, None)
    SideBySide.showSideBySide(scene, volumes)
    for volume in volumes:
        Views.fit(scene, volume)
    write_mrb(scene, tmp_path / "two.mrb")
    scene.Clear(0)
    read_mrb(scene, tmp_path / "two.mrb")
    near, far = (scene.GetSingletonNode(tag, "vtkMRMLSliceNode") for tag in tags)
    before = far.GetSliceOffset()
    near.SetInteractionFlags(near.SliceToRASFlag)  # as the wheel does
    near.InteractingOn()
    near.SetSliceOffset(near.GetSliceOffset() + 5)
    near.InteractingOff()
    assert far.GetSliceOffset() == before
    assert near.GetViewGroup() != far.GetViewGroup()


def test_when_the_scene_is_closed_the_layout_from_before_comes_back(scene):
    layout = slicer.vtkMRMLLayoutLogic()  # keeps the layout when the scene is closed, as in the application
    layout.SetMRMLScene(scene)
    node = layout.GetLayoutNode()
    node.SetLayoutDescription(SideBySide.ROWS, "")
    SideBySide.offerLayouts(scene)
    node.SetViewArrangement(node.SlicerLayoutFourUpView)
    for number in (SideBySide.ROWS, SideBySide.AXIAL):
        SideBySide.showSideBySide(scene, [add_patient(0), add_patient(1)], number)
    scene.Clear(0)
    assert node.GetViewArrangement() == node.SlicerLayoutFourUpView
    node.SetViewArrangement(node.SlicerLayoutOneUpRedSliceView)
    scene.Clear(0)
    assert node.GetViewArrangement() == node.SlicerLayoutOneUpRedSliceView, "a layout of the user's own stays"
    layout.SetMRMLScene(None)


def test_without_a_layout_there_is_no_grid(scene):
    node = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    if node is not None:
        scene.RemoveNode(node)
    assert not SideBySide.showSideBySide(scene, [add_patient(0)])
    SideBySide.offerLayouts(scene)


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
