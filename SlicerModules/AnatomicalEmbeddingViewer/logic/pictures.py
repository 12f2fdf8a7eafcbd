"""Pictures of the slice views. They are drawn in rounds. A picture is sent to the page only if it has changed.

This replaces the factory of trame-slicer, which draws each view in a separate task and sends a picture at each request.
A marker that moves requests pictures of all views, so many unchanged pictures would be sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic

import numpy as np
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
    ViewLayout,
    ViewLayoutDefinition,
    ViewType,
)

from AnatomicalEmbeddingLib.shared.Signal import Signal

from .scan_view import ScanView

_JPEG_QUALITY = 90
_PERIOD_S = 1 / 30  # shortest time between the starts of two rounds
_EVENT_PERIOD_MS = 10  # shortest time between two mouse events
_LOOP_TURNS = 6  # turns of the event loop between two pictures: enough to read and answer a message of the page
_FILL = "position: relative; width: 100%; height: 100%; overflow: hidden"
_FIT = "{width: '100%', height: '100%', objectFit: 'contain'}"  # undistorted in windows of another shape
_WINDOW = "String(utils.get('performance.timeOrigin'))"  # identifies a browser window


class Painter:
    """Draws the requested pictures in rounds. Between two pictures, messages of the page are answered.

    Signal idle(): all requested pictures are drawn and sent.
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
            start, requested, self._requested = monotonic(), self._requested, {}
            drawn = []
            for picture in requested:
                self._requested.pop(picture, None)  # drawing now also fulfils a newer request
                drawn.append(_run_logged(picture.draw))
                for _turn in range(_LOOP_TURNS):
                    await asyncio.sleep(0)
            for send in filter(None, drawn):  # together, so that the browser computes its layout once
                _run_logged(send)
            if self._requested:
                await asyncio.sleep(max(0.0, _PERIOD_S - (monotonic() - start)))
        self._task = None
        _run_logged(self.idle.emit)


class Picture:
    """The picture of one view. It implements trame's RcaRenderSchedulerProtocol for the view's area on the page."""

    target_fps = 1 / _PERIOD_S

    def __init__(self, painter: Painter, view: ScanView, window: RcaWindow) -> None:
        self.rca = window
        self._painter, self._view = painter, view
        self._last: np.ndarray | None = None
        self._push: Callable[[bytes, dict], None] = lambda _content, _meta: None
        self._paused = False

    def request(self) -> None:
        """Request that the view is drawn again, because it may have changed."""
        if not self._paused:
            self._painter.request(self)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Ignore requests inside the `with` block. For callers that know that this view does not change."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def draw(self) -> Callable[[], None] | None:
        """Draw and encode the view. Returns the function that sends the picture, or None if the view is unchanged."""
        pixels = self._view.pixels()
        if self._last is not None and np.array_equal(pixels, self._last):
            return None
        rows, columns = pixels.shape[:2]
        content, meta, _time = RcaImageEncoder.TURBO_JPEG.encode(pixels, columns, rows, _JPEG_QUALITY)
        self._last = pixels
        return partial(self._push, content, meta)

    # -- called by trame's area --------------------------------------------------------------------------------------

    def set_push_callback(self, callback: Callable[[bytes, dict], None]) -> None:
        self._push = callback

    def schedule_render(self) -> None:
        """Send the picture even if it is unchanged, because a page was opened or the view's size has changed."""
        self._last = None
        self._painter.request(self)

    def reset(self) -> None:
        self.schedule_render()

    async def close(self) -> None:
        """Do nothing, because the session closes the painter."""


class PictureFactory(IViewFactory):
    """Makes slice views. For each view it also makes the picture, and the area on the page as a trame template."""

    def __init__(self, server, painter: Painter, scrolled: Callable[[str], object]) -> None:
        super().__init__()
        self._server, self._painter, self._scrolled = server, painter, scrolled
        self._areas: list[_Area] = []

    def picture(self, view_name: str) -> Picture:
        """Return the picture of a view, which this factory must have made."""
        return self.get_factory_view(view_name)[1]

    def can_create_view(self, view: ViewLayoutDefinition) -> bool:
        return view.view_type == ViewType.SLICE_VIEW

    def _create_view(self, view: ViewLayoutDefinition, scene, app_logic) -> tuple[ScanView, Picture]:
        name = view.singleton_tag
        made = ScanView(scene, app_logic, name, scheduled_render_strategy=NoScheduleRendering())  # draws later
        made.render_window().SetMultiSamples(0)  # without a GPU, smooth edges take three times as long
        made.set_view_properties(view.properties)
        cursor = f"{name}_active_view_cursor"
        self._server.state.setdefault(cursor, "default")
        window = RcaWindow(made.render_window(), self._server.state, cursor)
        picture = Picture(self._painter, made, window)
        self._add_template(name, cursor)
        area = _Area(made, self._areas, window, name, scheduler=picture, do_schedule_render_on_interaction=False)
        area.scrolled = partial(self._scrolled, name)
        self._areas.append(area)
        create_task(self._register(area))
        made.set_scheduled_render(_PictureRequest(picture))
        return made, picture

    def _get_slicer_view(self, view: tuple[ScanView, Picture]) -> ScanView:
        return view[0]

    def _add_template(self, name: str, cursor: str) -> None:
        with ViewLayout(self._server, template_name=name), html.Div(style=(f"`{_FILL}; cursor: ${{{cursor}}}`",)):
            RemoteControlledArea(
                name=name,
                origin=(_WINDOW,),
                display="image",
                image_style=(_FIT,),
                style="position: relative; width: 100%; height: 100%",
                send_mouse_move=True,
                event_throttle_ms=_EVENT_PERIOD_MS,
            )

    async def _register(self, area: RcaViewAdapter) -> None:
        """Wait until the server runs, then register an area with trame."""
        await self._server.ready
        self._server.root_server.controller.rc_area_register(area)


class _Area(RcaViewAdapter):
    """The area of a view on the page.

    All browser windows of a session show the same picture. It has the size of the area in the window that was last used
    or resized. Other windows scale the picture to the size of their areas until the mouse moves there.
    """

    def __init__(self, view: ScanView, areas: list[_Area], *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self._node = view.get_view_node()
        self._usual_scale = self._node.GetScreenScaleFactor()
        self._areas = areas
        self._sizes: dict[str, dict] = {}  # size of the area by browser window
        self._window = ""
        self.scrolled: Callable[[], object] = lambda: None

    def update_size(self, origin: str, size: dict) -> None:
        """Give the view the area's size in a browser window. Scale markers and labels to the screen's pixel size."""
        self._window, self._sizes[origin] = origin, size
        self._node.SetScreenScaleFactor(self._usual_scale * size.get("p", 1))
        super().update_size(origin, size)

    def on_interaction(self, origin: str, event: dict) -> None:
        before = self._node.GetSliceOffset()
        super().on_interaction(origin, self._fitted(event))
        if "Wheel" in event["type"] and self._node.GetSliceOffset() != before:
            self.scrolled()
        if origin != self._window and event["type"] == "MouseMove":
            for area in self._areas:
                if origin in area._sizes:
                    area.update_size(origin, area._sizes[origin])

    def _fitted(self, event: dict) -> dict:
        """Return a mouse event with its position in pixels of the picture, which the browser window may show scaled."""
        if self._current_size is None or not {"x", "y", "w", "h"} <= event.keys() or not event["w"] * event["h"]:
            return event
        (x, y), (w, h), (width, height) = (event["x"], event["y"]), (event["w"], event["h"]), self._current_size[:2]
        scale = min(w / width, h / height)
        x, y = (x - w / 2) / scale + width / 2, (y - h / 2) / scale + height / 2
        return event | {"x": x, "y": y, "w": width, "h": height}


class _PictureRequest(ScheduledRenderStrategy):
    """Forwards the render requests of a view to its picture."""

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self._picture = picture

    def schedule_render(self) -> None:
        self._picture.request()


def _run_logged(action: Callable):
    """Run an action and return its result. An error is logged, so that other pictures are still drawn."""
    try:
        return action()
    except Exception:
        logging.exception("the viewer: a picture could not be shown")
        return None
