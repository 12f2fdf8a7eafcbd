"""Test the nodes of slice views: what they show, jumps, one row for each scan, and the anatomical crosshair."""

import numpy as np
import pytest
import slicer
import slicer.util
from film_nodes import add_film, add_picture
from scans import add_patient, add_points, add_transform, finish, make_store, patient, turned
from view_nodes import add_view

from AnatomicalEmbeddingLib.landmarks.AnatomicalCrosshair import AnatomicalCrosshair
from AnatomicalEmbeddingLib.landmarks.AnswerList import AnswerList
from AnatomicalEmbeddingLib.shared import SideBySide, Views
from AnatomicalEmbeddingLib.shared.maps.SceneRelations import SceneRelations


@pytest.fixture
def views(scene):
    """Two views of one scan, one of another."""
    slicer.vtkMRMLSliceNode.AddDefaultSliceOrientationPresets(scene)
    first = add_patient(0, "First")
    second = add_patient(1, "Second")
    made = (
        add_view(scene, "Aax", first),
        add_view(scene, "Acor", first, "Coronal"),
        add_view(scene, "Bax", second),
    )
    return first, second, made


def centre(slice_node) -> np.ndarray:
    matrix = slice_node.GetSliceToRAS()
    return np.array([matrix.GetElement(n, 3) for n in range(3)])


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
        display.GetVisibility2D() and display.IsDisplayableInView(v.GetID())
        for v in (axial, coronal, other)
    )
    assert not display.GetVisibility3D()


def test_a_scan_is_seen_whole_and_in_the_middle_wherever_it_was_moved(scene, views):
    first, second, (axial, coronal, other) = views
    first.SetAndObserveTransformNodeID(add_transform(scene, turned(0, (1200, 0, -300))).GetID())
    before = centre(other)
    Views.fit(scene, first)
    bounds = [0.0] * 6
    first.GetRASBounds(bounds)
    low = np.array(bounds[::2])
    high = np.array(bounds[1::2])
    for view, axes in ((axial, (0, 1)), (coronal, (0, 2))):
        assert np.allclose(centre(view), (low + high) / 2)
        shown = np.array(view.GetFieldOfView()[:2])
        assert (shown >= (high - low)[list(axes)] - 1e-6).all()
        assert np.isclose(
            shown / (high - low)[list(axes)], 1.0
        ).any()  # and no smaller than it must be
    assert np.allclose(centre(other), before)
    assert second.GetID() in dict(Views.backgrounds(scene)).values()


def test_a_film_has_one_view_in_its_own_plane_and_a_ruler_only_with_a_known_size(scene):
    ct = add_patient(0, "CT")
    film = add_film(0, "film")
    unscaled = add_picture(np.zeros((400, 300), np.uint8), "png")
    drr = add_film(1, "DRR")
    turned_up = slicer.util.vtkMatrixFromArray(np.diag([-2.0, 1.0, -2.0, 1.0])[[0, 2, 1, 3]])
    drr.SetIJKToRASMatrix(turned_up)
    scene.GetFirstNodeByClass("vtkMRMLLayoutNode") or scene.AddNewNodeByClass("vtkMRMLLayoutNode")
    rows = [ct, film, drr, unscaled]
    wanted = {0: {"Axial", "Sagittal", "Coronal"}, 1: {"Axial"}, 2: {"Coronal"}, 3: {"Axial"}}
    for _tag in SideBySide.makeViews(scene, rows):
        pass
    tags = {view.GetLayoutName(): view for view in Views.sliceNodes(scene)}
    made = {row: {o for o in wanted[0] if SideBySide.viewTag(row, o) in tags} for row in range(4)}
    assert made == wanted
    for tag in tags:
        add_view(scene, tag, None)
    SideBySide.showSideBySide(scene, rows)
    layout = scene.GetFirstNodeByClass("vtkMRMLLayoutNode").GetCurrentLayoutDescription()
    assert layout.count("vtkMRMLSliceNode") == 6
    rulers = [
        tags[SideBySide.viewTag(row, plane)].GetRulerType()
        for row, plane in ((1, "Axial"), (3, "Axial"))
    ]
    assert rulers == [slicer.vtkMRMLSliceNode.RulerTypeThin, slicer.vtkMRMLSliceNode.RulerTypeNone]


def test_the_grid_has_a_row_of_linked_views_for_each_scan(scene, views):
    first, second, _ = views
    layout = slicer.vtkMRMLLayoutLogic()
    layout.SetMRMLScene(scene)
    third = add_patient(2, 'Third <"&">')
    for tag in [
        SideBySide.viewTag(row, o) for row in range(3) for o in ("Axial", "Sagittal", "Coronal")
    ]:
        add_view(scene, tag, None)
    node = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    node.AddMaximizedViewNode(views[2][0])
    assert SideBySide.showSideBySide(scene, [first, second, third])
    assert node.GetNumberOfMaximizedViewNodes() == 0
    assert node.GetViewArrangement() == SideBySide.ROWS
    for row, volume in enumerate((first, second, third)):
        shown = Views.viewsOf(scene, volume)
        tags = {
            SideBySide.viewTag(row, orientation) for orientation in ("Axial", "Sagittal", "Coronal")
        }
        assert tags <= {view.GetLayoutName() for view in shown}
        groups = {view.GetViewGroup() for view in shown if view.GetLayoutName() in tags}
        assert len(groups) == 1
    all_groups = {
        view.GetViewGroup()
        for view in Views.sliceNodes(scene)
        if view.GetLayoutName().startswith("AE")
    }
    assert len(all_groups) == 3
    for view in Views.viewsOf(scene, third):
        assert view.GetOrientationMarkerType() == view.OrientationMarkerTypeHuman
        assert view.GetRulerType() == view.RulerTypeThin
        assert view.GetRulerColor() == view.RulerColorYellow
    assert SideBySide.showSideBySide(scene, [second])  # again, with another description
    layout.SetMRMLScene(None)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def crosshair(scene, views, map_folder):
    store = make_store(scene, map_folder)
    store.request(views[:2])
    finish(store)
    relations = SceneRelations(scene, store)
    made = AnatomicalCrosshair(scene, relations, Clock())
    made.volumes = list(views[:2])
    made.setEnabled(True)
    yield made
    made.close()
    relations.close()
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
    marker = crosshair.markers.of(second)
    assert (
        np.linalg.norm(
            np.array(marker.GetNthControlPointPositionWorld(0)) - patient(1).points_ras["carina"]
        )
        < 10
    )
    assert abs(centre(other)[2] - patient(1).points_ras["carina"][2]) < 10
    assert np.allclose(centre(axial), before)
    assert crosshair.markers.of(first) is None


def test_half_of_the_time_between_two_updates_is_left_for_drawing(scene, views, crosshair):
    axial = views[2][0]
    carina = patient(0).points_ras["carina"]
    seen = []
    clock = crosshair._clock
    seconds = [0.0]

    def work(_volume, world) -> None:
        seen.append(world[0])
        clock.now += seconds[0]

    crosshair.moved.connect(work)
    for seconds[0], rest in ((0.0, 1 / 60), (0.03, 0.03)):  # a quick update, and a slow one
        seen.clear()
        clock.now += 1
        move_mouse(scene, axial, carina)
        clock.now += rest - 0.001
        for shift in (1.0, 2.0):
            move_mouse(scene, axial, carina + [shift, 0, 0])
        assert len(seen) == 1
        clock.now += 0.002
        crosshair.poll()
        assert np.allclose(seen, [carina[0], carina[0] + 2.0], atol=0.01), (
            "only the latest place is shown"
        )


def test_markers_are_not_saved_nor_offered_and_go_when_it_is_off(scene, views, crosshair):
    _, second, (axial, _, other) = views
    move_mouse(scene, axial, patient(0).points_ras["carina"])
    marker = crosshair.markers.of(second)
    assert not marker.GetSaveWithScene()
    assert marker.GetHideFromEditors()
    assert list(marker.GetDisplayNode().GetViewNodeIDs()) == [other.GetID()]
    crosshair.setEnabled(False)
    assert crosshair.markers.of(second) is None
    assert scene.GetFirstNodeByName("Anatomical crosshair") is None
    crosshair._clock.now += 1
    move_mouse(scene, axial, patient(0).points_ras["carina"])
    assert scene.GetFirstNodeByName("Anatomical crosshair") is None
