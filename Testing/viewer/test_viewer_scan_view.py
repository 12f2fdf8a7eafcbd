"""Test the picture of a view: it equals Slicer's picture of the same slice, with marks over it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)

import slicer
import slicer.util
import vtk
from AnatomicalEmbeddingViewer.logic.pictures import ScanView, cut_upright
from trame_slicer.core import SlicerApp
from trame_slicer.views import NoScheduleRendering, ViewProps
from vtk.util.numpy_support import vtk_to_numpy

SIZE = 210, 160
_ANGLE = np.deg2rad(12)
_TURN = np.array(
    [[np.cos(_ANGLE), -np.sin(_ANGLE), 0], [np.sin(_ANGLE), np.cos(_ANGLE), 0], [0, 0, 1]]
)
UPRIGHT, OBLIQUE = np.diag([-1.5, -1.5, 2.5, 1.0]), np.eye(4)
OBLIQUE[:3, :3] = _TURN @ UPRIGHT[:3, :3]
# k, j, i; HU a voxel along i, j, k
SHAPE, GRADIENT, OUTSIDE = (7, 9, 11), np.array([3.0, -5.0, 11.0]), -32768


def linear_scan() -> np.ndarray:
    k, j, i = np.indices(SHAPE)
    return (100 + GRADIENT[0] * i + GRADIENT[1] * j + GRADIENT[2] * k).astype(np.int16)


def pixels_to_voxels(steps: dict[int, tuple[int, float]], start) -> np.ndarray:
    """steps: of columns (0) and rows (1), the scan's axis and how many voxels a pixel is."""
    made = np.eye(4)
    made[:3, :3] = 0
    for way, (axis, step) in steps.items():
        made[axis, way] = step
    made[:3, 3] = start
    return made


@settings(max_examples=60, deadline=None)
@given(
    axes=st.permutations(range(3)),
    step=st.tuples(*[st.floats(0.2, 2.5)] * 2),
    flip=st.tuples(*[st.sampled_from((-1, 1))] * 2),
    start=st.tuples(*[st.floats(-3, 12)] * 3),
)
def test_a_cut_interpolates_between_the_voxels(axes, step, flip, start):
    to_ijk = pixels_to_voxels({way: (axes[way], step[way] * flip[way]) for way in (0, 1)}, start)
    rows = 13
    columns = 17
    cut = cut_upright(linear_scan(), to_ijk, rows, columns)
    row, column = np.indices((rows, columns))
    at = np.stack([column, row, 0 * row, 1 + 0 * row], axis=-1) @ to_ijk[:3].T
    last = np.array(SHAPE[::-1]) - 1
    beyond = np.maximum(-at, at - last).max(axis=-1)
    # the outermost half voxel holds what its centre holds
    values = 100 + np.clip(at, 0, last) @ GRADIENT
    assert cut.shape == (rows, columns)
    np.testing.assert_allclose(cut[beyond < 0.499], values[beyond < 0.499], atol=0.01)
    assert (cut[beyond > 0.501] == OUTSIDE).all()


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
    view = ScanView(
        app.scene, app.app_logic, orientation, scheduled_render_strategy=NoScheduleRendering()
    )
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
    """The image of the slice by Slicer's chain of filters, on black: (rows, columns, 3), the top row first."""
    producer = view._logic.GetImageDataConnection().GetProducer()
    producer.Update()
    image = producer.GetOutput()
    columns, rows, _ = image.GetDimensions()
    rgba = vtk_to_numpy(image.GetPointData().GetScalars()).reshape(rows, columns, 4)
    return (rgba[::-1, :, :3] * (rgba[::-1, :, 3:] // 255)).astype(int)


@pytest.mark.parametrize(
    ("to_ras", "dtype"), [(UPRIGHT, np.int16), (OBLIQUE, np.int16), (UPRIGHT, np.float32)]
)
@pytest.mark.parametrize("orientation", ["Axial", "Sagittal", "Coronal"])
def test_a_scan_looks_as_in_slicer(app, to_ras, dtype, orientation):
    view = view_of(app, to_ras, textured(dtype), orientation)
    low, high = view.get_slice_range()
    for share in (0.1, 0.43, 0.8):
        view.set_slice_value(low + share * (high - low))
        expected = image_by_slicer(view)
        assert expected.std() > 30
        assert view.pixels().shape == (SIZE[1], SIZE[0], 3)
        assert np.abs(view.pixels() - expected).max() <= 1
    view.set_background_volume_id(None)
    assert not view.pixels().any()


class CountedRequests(NoScheduleRendering):
    """Counts how often a view has requested a picture."""

    count = 0

    def schedule_render(self):
        self.count += 1


def test_a_change_of_the_scan_requests_a_picture_and_drawing_does_not(app):
    view = view_of(app, UPRIGHT, textured())
    requests = CountedRequests()
    view.set_scheduled_render(requests)
    volume = app.scene.GetNodeByID(view.get_background_volume_id())
    for change in (
        lambda: volume.GetDisplayNode().SetWindowLevel(100, 90),
        lambda: view.get_view_node().JumpSliceByOffsetting(0, -50, 0),
        lambda: slicer.util.updateVolumeFromArray(volume, textured() // 2),
        lambda: view._logic.GetSliceCompositeNode().SetBackgroundVolumeID(None),
    ):
        before = view.pixels()
        requests.count = 0
        assert (view.pixels() == before).all()
        assert requests.count == 0
        change()
        assert requests.count
        assert (view.pixels() != before).any()
