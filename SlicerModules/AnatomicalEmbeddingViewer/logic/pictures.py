"""Pictures of the slice views. All requested pictures are drawn in one round, and only changed pictures are sent.

This module replaces the view factory of trame-slicer, which sends a picture after each request. When a marker moves,
pictures of all views are requested, and most of these pictures are unchanged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from time import monotonic

import numpy as np
import slicer.util
import vtk
from trame.widgets import html
from trame_rca.encoders import RcaImageEncoder
from trame_rca.utils import RcaViewAdapter
from trame_rca.widgets.rca import RemoteControlledArea
from trame_server.utils.asynchronous import create_task
from trame_slicer.rca_view.rca_view_factory import RcaWindow
from trame_slicer.views import (
    IViewFactory,
    NoScheduleRendering,
    ScheduledRenderStrategy,
    SliceView,
    ViewLayout,
    ViewLayoutDefinition,
    ViewType,
)
from vtk.util.numpy_support import vtk_to_numpy

from AnatomicalEmbeddingLib.shared.Signal import Signal

_OUTSIDE_HU = -32768  # HU value that is black in every CT window
_TOLERANCE = 1e-6  # smaller steps, in voxels, count as zero
_JPEG_QUALITY = 90  # of the views; by eye
_PERIOD_S = 1 / 30  # shortest time between the starts of two rounds
_EVENT_PERIOD_MS = 10  # shortest time between two mouse events
_LOOP_TURNS = 6  # turns of the event loop between two pictures; the page's messages are answered in these turns
_FILL = "position: relative; width: 100%; height: 100%; overflow: hidden"
_FIT = "{width: '100%', height: '100%', objectFit: 'contain'}"  # keeps the picture's proportions


class ScanView(SliceView):
    """A slice view that draws the scan with numpy, and markups over the scan with VTK.

    Without a GPU, this is twice as fast as Slicer's filters and textures. The view shows only the background volume, in
    the grey values of its CT window.
    """

    def _update_image_data_connection(self) -> None:
        """Request a new picture when the scan has changed, because VTK does not draw the scan itself."""
        self.schedule_render()

    def pixels(self) -> np.ndarray:
        """Draw the current picture: (rows, columns, 3) uint8, the top row first."""
        window = self.render_window()
        pixel_data = vtk.vtkUnsignedCharArray()
        window.Render()
        columns, rows = window.GetSize()
        window.GetRGBACharPixelData(0, 0, columns - 1, rows - 1, 0, pixel_data)
        marks = vtk_to_numpy(pixel_data).reshape(rows, columns, 4)  # premultiplied by opacity
        layer = self._logic.GetBackgroundLayer()
        volume = None if layer is None else layer.GetVolumeNode()
        if volume is None or volume.GetImageData() is None:
            return np.ascontiguousarray(marks[::-1, :, :3])
        reslice = layer.GetReslice()
        display = volume.GetDisplayNode()
        hu = None
        if reslice.GetResliceTransform().IsA("vtkLinearTransform"):
            xy_to_ijk = slicer.util.arrayFromVTKMatrix(reslice.GetResliceTransform().GetMatrix())
            hu = cut_upright(slicer.util.arrayFromVolume(volume), xy_to_ijk, rows, columns)
        if hu is None:
            reslice.SetBackgroundLevel(_OUTSIDE_HU)
            reslice.Update()
            hu = vtk_to_numpy(reslice.GetOutput().GetPointData().GetScalars()).reshape(
                rows, columns
            )
        width = max(display.GetWindow(), 1e-3)
        grey = np.clip(
            (hu - np.float32(display.GetLevel() - width / 2)) * np.float32(255 / width), 0, 255
        )
        below = grey.astype(np.uint16)[..., None] * (255 - marks[..., 3:]) // 255
        return np.ascontiguousarray((marks[..., :3] + below).astype(np.uint8)[::-1])


def cut_upright(
    voxels: np.ndarray, xy_to_ijk: np.ndarray, rows: int, columns: int
) -> np.ndarray | None:
    """Interpolate a slice of a scan linearly, one axis after the other. VTK interpolates each pixel, which is slower.

    Args:
        voxels: (k, j, i).
        xy_to_ijk: (4, 4), from pixels (column, row, 0, 1) to voxel indices (i, j, k, 1), which may be fractions.

    Returns:
        (rows, columns) float32 HU; _OUTSIDE_HU outside the scan. None if the slice is not parallel to the scan's axes.
    """
    steps = xy_to_ijk[:3, :2]
    start = xy_to_ijk[:3, 3]
    # (axis i, j, k; column or row): which axis of the scan a column and a row of pixels run along
    moving = np.abs(steps) > _TOLERANCE
    if not (moving.sum(axis=0) == 1).all() or moving.sum(axis=1).max() > 1:
        return None
    column_axis, row_axis = moving.argmax(axis=0)  # 0, 1, 2 for i, j, k
    # the axis across the picture first; the sum of all three is 3
    order = 3 - column_axis - row_axis, row_axis, column_axis
    picture = np.transpose(voxels, [2 - axis for axis in order])
    outside = []
    steps_along = 0.0, steps[row_axis, 1], steps[column_axis, 0]
    for axis, step, number in zip(order, steps_along, (1, rows, columns), strict=True):
        positions = start[axis] + step * np.arange(number)
        last = len(picture) - 1
        within = np.clip(positions, 0, last)
        low = within.astype(np.intp)
        first = picture[low].astype(np.float32)
        part = (within - low).astype(np.float32)[:, None, None]
        # the next axis becomes axis 0
        picture = np.moveaxis(first + part * (picture[np.minimum(low + 1, last)] - first), 0, -1)
        # a scan ends half a voxel beyond the outermost voxel centres
        outside.append((positions < -0.5) | (positions > last + 0.5))
    picture[outside[0]] = _OUTSIDE_HU
    picture[:, outside[1]] = _OUTSIDE_HU
    picture[:, :, outside[2]] = _OUTSIDE_HU
    return picture[0]


class Painter:
    """Draws the requested pictures in rounds. Between two pictures, messages of the page are answered.

    Signal idle(): emitted when all requested pictures are drawn and sent.
    """

    def __init__(self) -> None:
        self.idle = Signal()
        self._requested: dict[Picture, None] = {}
        self._task: asyncio.Task | None = None

    @property
    def busy(self) -> bool:
        """True until all requested pictures are drawn and sent."""
        return self._task is not None

    def request(self, picture: Picture) -> None:
        """Request that a picture is drawn in the next round."""
        self._requested[picture] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._paint())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _paint(self) -> None:
        while self._requested:
            start = monotonic()
            requested = self._requested
            self._requested = {}
            drawn = []
            for picture in requested:
                # this drawing also answers requests since the round began
                self._requested.pop(picture, None)
                drawn.append(_run_logged(picture.draw))
                for _turn in range(_LOOP_TURNS):
                    await asyncio.sleep(0)
            # sent together, so that the browser computes its layout once
            for send in filter(None, drawn):
                _run_logged(send)
            if self._requested:
                await asyncio.sleep(max(0.0, _PERIOD_S - (monotonic() - start)))
        self._task = None
        _run_logged(self.idle.emit)


class Picture(ScheduledRenderStrategy):
    """The picture of one view. The view and its area on the page call `schedule_render` to request the picture."""

    target_fps = 1 / _PERIOD_S

    def __init__(self, painter: Painter, view: ScanView, window: RcaWindow) -> None:
        super().__init__()
        self.rca = window
        self._painter = painter
        self._view = view
        self._last: np.ndarray | None = None
        self._push: Callable[[bytes, dict], None] = lambda _content, _meta: None

    def draw(self) -> Callable[[], None] | None:
        """Draw and encode the view. Return a function that sends the picture, or None if the picture is unchanged."""
        pixels = self._view.pixels()
        if self._last is not None and np.array_equal(pixels, self._last):
            return None
        rows, columns = pixels.shape[:2]
        content, meta, _time = RcaImageEncoder.TURBO_JPEG.encode(
            pixels, columns, rows, _JPEG_QUALITY
        )
        self._last = pixels
        return partial(self._push, content, meta)

    def schedule_render(self) -> None:
        """Request a new picture, because the view may have changed."""
        self._painter.request(self)

    def reset(self) -> None:
        """Send the next picture even if it equals the last picture. Called after the view has changed its size."""
        self._last = None
        self._painter.request(self)

    def set_push_callback(self, callback: Callable[[bytes, dict], None]) -> None:
        self._push = callback

    async def close(self) -> None:
        """Do nothing, because the session closes the painter."""


class PictureFactory(IViewFactory):
    """Makes slice views. For each view, it also makes the picture and the area that shows the picture on the page."""

    def __init__(self, server, painter: Painter, scrolled: Callable[[str], object]) -> None:
        super().__init__()
        self._server = server
        self._painter = painter
        self._scrolled = scrolled

    def can_create_view(self, view: ViewLayoutDefinition) -> bool:
        return view.view_type == ViewType.SLICE_VIEW

    def _create_view(self, view: ViewLayoutDefinition, scene, app_logic) -> ScanView:
        name = view.singleton_tag
        scan_view = ScanView(
            scene, app_logic, name, scheduled_render_strategy=NoScheduleRendering()
        )
        # Slicer prepares every slice for 3-D views too, which doubles the time to show a slice. The viewer has no 3-D.
        scan_view._logic.GetSliceModelNode().SetPolyDataConnection(None)
        # without a GPU, smooth edges take three times as long to draw
        scan_view.render_window().SetMultiSamples(0)
        cursor = f"{name}_active_view_cursor"
        self._server.state.setdefault(cursor, "default")
        picture = Picture(
            self._painter,
            scan_view,
            RcaWindow(scan_view.render_window(), self._server.state, cursor),
        )
        scan_view.set_scheduled_render(picture)
        scan_view.set_view_properties(view.properties)
        self._add_template(name, cursor)
        create_task(self._register(_Area(scan_view, picture, partial(self._scrolled, name))))
        return scan_view

    def _get_slicer_view(self, view: ScanView) -> ScanView:
        return view

    def _add_template(self, name: str, cursor: str) -> None:
        with (
            ViewLayout(self._server, template_name=name),
            html.Div(style=(f"`{_FILL}; cursor: ${{{cursor}}}`",)),
        ):
            RemoteControlledArea(
                name=name,
                display="image",
                image_style=(_FIT,),
                style="position: relative; width: 100%; height: 100%",
                send_mouse_move=True,
                event_throttle_ms=_EVENT_PERIOD_MS,
            )

    async def _register(self, area: RcaViewAdapter) -> None:
        await self._server.ready
        self._server.root_server.controller.rc_area_register(area)


class _Area(RcaViewAdapter):
    """The area of the page in which a view is drawn.

    All browser windows of a session show the same picture. The picture gets the size of the area in the window that the
    user resizes, or in which the mouse moves over the view. The other windows scale the picture.
    """

    def __init__(self, view: SliceView, picture: Picture, scrolled: Callable[[], object]) -> None:
        super().__init__(
            picture.rca, view.name, scheduler=picture, do_schedule_render_on_interaction=False
        )
        self._node = view.get_view_node()
        self._scrolled = scrolled
        self._usual_scale = self._node.GetScreenScaleFactor()

    def update_size(self, origin: str, size: dict) -> None:
        """Fit the view to its area of the page, and scale markers and labels with the pixel density of the screen."""
        self._node.SetScreenScaleFactor(self._usual_scale * size.get("p", 1))
        super().update_size(origin, size)
        self._scheduler.reset()

    def on_interaction(self, origin: str, event: dict) -> None:
        size = int(event.get("w", 0)), int(event.get("h", 0))
        # from another window
        if all(size) and self._current_size is not None and size != self._current_size[:2]:
            self.update_size(origin, {"w": size[0], "h": size[1], "p": self._current_size[2]})
        before = self._node.GetSliceOffset()
        super().on_interaction(origin, event)
        if "Wheel" in event["type"] and self._node.GetSliceOffset() != before:
            self._scrolled()


def _run_logged(action: Callable):
    """Return the result of `action`. If `action` raises an exception, log the exception and return None."""
    try:
        return action()
    except Exception:
        logging.exception("the viewer: a picture could not be shown")
        return None
