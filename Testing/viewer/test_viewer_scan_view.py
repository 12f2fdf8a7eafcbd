"""A view's picture beside Slicer's own image of the same slice, and what is drawn over it."""

import numpy as np
import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")

import slicer
import slicer.util
import vtk
from AnatomicalEmbeddingViewer.logic import scan_view
from AnatomicalEmbeddingViewer.logic.scan_view import ScanView
from AnatomicalEmbeddingViewer.logic.upright_cut import cut_upright
from trame_slicer.core import SlicerApp
from trame_slicer.views import NoScheduleRendering, ViewProps
from vtk.util.numpy_support import vtk_to_numpy

SIZE = 210, 160
_ANGLE = np.deg2rad(12)
_TURN = np.array([[np.cos(_ANGLE), -np.sin(_ANGLE), 0], [np.sin(_ANGLE), np.cos(_ANGLE), 0], [0, 0, 1]])
UPRIGHT, OBLIQUE = np.diag([-1.5, -1.5, 2.5, 1.0]), np.eye(4)
OBLIQUE[:3, :3] = _TURN @ UPRIGHT[:3, :3]


@pytest.fixture
def app(drawing, monkeypatch):
    made = SlicerApp()
    monkeypatch.setattr(slicer, "mrmlScene", made.scene, raising=False)
    return made


def view_of(app, to_ras: np.ndarray, voxels: np.ndarray, orientation: str = "Coronal") -> ScanView:
    node = slicer.util.addVolumeFromArray(voxels, to_ras, name="scan")
    node.CreateDefaultDisplayNodes()
    node.GetDisplayNode().SetAndObserveColorNodeID("vtkMRMLColorTableNodeGrey")
    node.GetDisplayNode().SetAutoWindowLevel(False)
    node.GetDisplayNode().SetWindowLevel(400, 40)
    view = ScanView(app.scene, app.app_logic, orientation, scheduled_render_strategy=NoScheduleRendering())
    view.render_window().SetMultiSamples(0)
    view.set_view_properties(ViewProps(orientation=orientation))
    view.interactor().UpdateSize(*SIZE)
    view.interactor().InvokeEvent(vtk.vtkCommand.WindowResizeEvent)
    view.set_background_volume_id(node.GetID())
    view.set_orientation(orientation)
    view.fit_view_to_content()
    return view


def textured(dtype=np.int16) -> np.ndarray:
    """Smooth, as CTs are, and of all greys of the window."""
    k, j, i = np.indices((40, 60, 64))
    return (40 + 260 * np.sin(i / 5) * np.cos(j / 6) * np.sin(k / 4 + 1)).astype(dtype)


def image_by_slicer(view: ScanView) -> np.ndarray:
    """What Slicer's chain of filters makes of the slice, on black: (rows, columns, 3), the top row first."""
    producer = view._logic.GetImageDataConnection().GetProducer()
    producer.Update()
    image = producer.GetOutput()
    columns, rows, _ = image.GetDimensions()
    rgba = vtk_to_numpy(image.GetPointData().GetScalars()).reshape(rows, columns, 4)
    return rgba[::-1, :, :3] * (rgba[::-1, :, 3:] // 255)


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize("to_ras", [UPRIGHT, OBLIQUE], ids=["upright", "oblique"])
@pytest.mark.parametrize("orientation", ["Axial", "Sagittal", "Coronal"])
def test_a_scan_looks_as_in_slicer(app, to_ras, dtype, orientation):
    view = view_of(app, to_ras, textured(dtype), orientation)
    low, high = view.get_slice_range()
    for share in (0.1, 0.43, 0.8):
        view.set_slice_value(low + share * (high - low))
        expected = image_by_slicer(view).astype(int)
        assert expected.std() > 30
        picture = view.pixels()
        assert picture.shape == (SIZE[1], SIZE[0], 3)
        assert np.abs(picture - expected).max() <= 1


@pytest.mark.parametrize(("to_ras", "here"), [(UPRIGHT, True), (OBLIQUE, False)], ids=["upright", "oblique"])
def test_upright_slices_are_cut_here_and_others_by_vtk(app, monkeypatch, to_ras, here):
    cuts = []

    def kept(*values):
        cuts.append(cut_upright(*values))
        return cuts[-1]

    monkeypatch.setattr(scan_view, "cut_upright", kept)
    view = view_of(app, to_ras, textured())
    assert view.pixels().std() > 30
    assert [cut is not None for cut in cuts] == [here]


@pytest.mark.parametrize("of", ["interpolation", "slab", "warp"])
def test_what_is_not_usual_looks_as_in_slicer(app, of):
    view = view_of(app, UPRIGHT, textured())
    volume = app.scene.GetNodeByID(view.get_background_volume_id())
    plain = view.pixels()
    if of == "interpolation":
        volume.GetDisplayNode().SetInterpolate(False)
    elif of == "slab":
        view.set_slab_enabled(True)
        view.set_slab_thickness(20.0)
    else:
        transform = app.scene.AddNewNodeByClass("vtkMRMLTransformNode")
        transform.SetAndObserveTransformToParent(warp())
        volume.SetAndObserveTransformNodeID(transform.GetID())
    picture = view.pixels().astype(int)
    assert np.abs(picture - plain).max() > 5
    assert np.abs(picture - image_by_slicer(view)).max() <= 1


def warp() -> vtk.vtkThinPlateSplineTransform:
    rng, here, there = np.random.default_rng(1), vtk.vtkPoints(), vtk.vtkPoints()
    for point in rng.uniform(-80, 80, (8, 3)):
        here.InsertNextPoint(*point)
        there.InsertNextPoint(*(point + rng.uniform(-10, 10, 3)))
    made = vtk.vtkThinPlateSplineTransform()
    made.SetSourceLandmarks(here)
    made.SetTargetLandmarks(there)
    made.SetBasisToR()
    return made


def test_the_renderer_draws_no_scan(app):
    view = view_of(app, UPRIGHT, textured())
    assert view.pixels().any()
    columns, rows = SIZE
    drawn = vtk.vtkUnsignedCharArray()
    view.render_window().GetRGBACharPixelData(0, 0, columns - 1, rows - 1, 0, drawn)
    assert not vtk_to_numpy(drawn).any()


class Asked(NoScheduleRendering):
    """Counts how often a view has asked for a picture."""

    count = 0

    def schedule_render(self):
        self.count += 1


def test_what_changes_the_scan_asks_for_a_picture(app):
    view, asked = view_of(app, UPRIGHT, textured()), Asked()
    view.set_scheduled_render(asked)
    volume = app.scene.GetNodeByID(view.get_background_volume_id())
    for change in (
        lambda: volume.GetDisplayNode().SetWindowLevel(100, 90),
        lambda: view.get_view_node().JumpSliceByOffsetting(0, -50, 0),
        lambda: slicer.util.updateVolumeFromArray(volume, textured() // 2),
        lambda: view._logic.GetSliceCompositeNode().SetBackgroundVolumeID(None),
    ):
        before, asked.count = view.pixels(), 0
        change()
        assert asked.count
        assert (view.pixels() != before).any()


def test_looking_asks_for_nothing(app):
    view, asked = view_of(app, UPRIGHT, textured()), Asked()
    view.set_scheduled_render(asked)
    first, second = view.pixels(), view.pixels()
    assert (first == second).all()
    assert asked.count == 0


@pytest.mark.parametrize("size", [(300, 220), (90, 60), (90, 220)])
def test_a_picture_has_the_size_of_its_view_while_that_changes(app, size):
    view = view_of(app, UPRIGHT, textured())
    view.interactor().UpdateSize(*size)
    assert view.pixels().shape == (size[1], size[0], 3)
    view.interactor().InvokeEvent(vtk.vtkCommand.WindowResizeEvent)
    expected = image_by_slicer(view).astype(int)
    assert np.abs(view.pixels() - expected).max() <= 1


def test_another_window_changes_the_greys(app):
    view = view_of(app, UPRIGHT, np.full((40, 60, 64), 90, np.int16))
    middle = SIZE[1] // 2, SIZE[0] // 2
    assert abs(int(view.pixels()[middle][0]) - 255 * 250 / 400) <= 1
    volume = app.scene.GetNodeByID(view.get_background_volume_id())
    volume.GetDisplayNode().SetWindowLevel(100, 90)
    assert abs(int(view.pixels()[middle][0]) - 127) <= 1
    assert view.pixels()[2, 2].tolist() == [0, 0, 0]  # beside the scan


def test_a_half_transparent_marker_lets_the_scan_through(app):
    grey = 255 * 250 / 400
    view = view_of(app, UPRIGHT, np.full((40, 60, 64), 90, np.int16))
    points = app.scene.AddNewNodeByClass("vtkMRMLMarkupsFiducialNode")
    points.CreateDefaultDisplayNodes()
    display = points.GetDisplayNode()
    display.SetSelectedColor(1.0, 0.0, 0.0)
    display.SetOpacity(0.5)
    display.SetPointLabelsVisibility(False)
    display.SetGlyphTypeFromString("Circle2D")
    display.SetGlyphScale(12)
    bounds = [0.0] * 6
    app.scene.GetNodeByID(view.get_background_volume_id()).GetBounds(bounds)
    middle = [(low + high) / 2 for low, high in zip(bounds[::2], bounds[1::2], strict=True)]
    points.AddControlPoint(vtk.vtkVector3d(*middle))
    view.get_view_node().JumpSliceByOffsetting(*middle)
    red, green, blue = view.pixels()[SIZE[1] // 2, SIZE[0] // 2].astype(int)
    assert red == pytest.approx((255 + grey) / 2, abs=3)
    assert green == blue == pytest.approx(grey / 2, abs=3)


def test_a_view_without_a_scan_is_black(app):
    view = view_of(app, UPRIGHT, textured())
    assert view.pixels().any()
    view.set_background_volume_id(None)
    assert not view.pixels().any()
