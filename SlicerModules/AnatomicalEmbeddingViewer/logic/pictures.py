"""Pictures of the slice views for the page: drawn in rounds, and sent where they differ from the last.

trame-slicer's own factory draws each view by a task of its own and sends a picture whenever a view asks for one, also
where nothing in it has changed: every marker that moves asks all views.
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

_QUALITY = 90  # of JPEG
_PERIOD = 1 / 30  # seconds between rounds, at least
_EVENTS_MS = 10  # between the mouse's events, at least
_TURNS = 6  # of the event loop between two pictures: what the page says is read, acted on and answered in so many
_FILL = "position: relative; width: 100%; height: 100%; overflow: hidden"
_FIT = "{width: '100%', height: '100%', objectFit: 'contain'}"  # in a window of another shape: whole, and not distorted
_WINDOW = "String(utils.get('performance.timeOrigin'))"  # differs from window to window


class Painter:
    """Draws, in rounds, the views that have asked for it; between two views the page is answered.

    rested(): all that was asked for has been drawn and sent.
    """

    def __init__(self) -> None:
        self.rested = Signal()
        self._asking: dict[Picture, None] = {}
        self._work: asyncio.Task | None = None

    @property
    def busy(self) -> bool:
        """Is anything that was asked for not drawn and sent yet?"""
        return self._work is not None

    def ask(self, picture: Picture) -> None:
        """Draw the view in the next round."""
        self._asking[picture] = None
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._paint())

    def close(self) -> None:
        if self._work is not None:
            self._work.cancel()

    async def _paint(self) -> None:
        while self._asking:
            began, asking, self._asking = monotonic(), self._asking, {}
            drawn = []
            for picture in asking:
                self._asking.pop(picture, None)  # what it has asked for since the round began is drawn now
                drawn.append(_attempt(picture.draw))
                for _turn in range(_TURNS):
                    await asyncio.sleep(0)
            for send in filter(None, drawn):
                # together, they are shown together, and the browser puts the page together once, not once for each
                _attempt(send)
            if self._asking:
                await asyncio.sleep(max(0.0, _PERIOD - (monotonic() - began)))
        self._work = None
        _attempt(self.rested.emit)


class Picture:
    """The picture of one view, as an RcaRenderSchedulerProtocol of trame's area on the page."""

    target_fps = 1 / _PERIOD

    def __init__(self, painter: Painter, view: ScanView, window: RcaWindow) -> None:
        self.rca = window
        self._painter, self._view = painter, view
        self._last: np.ndarray | None = None
        self._push: Callable[[bytes, dict], None] = lambda _content, _about: None
        self._held = False

    def ask(self) -> None:
        """The view may look different now."""
        if not self._held:
            self._painter.ask(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """For who knows that nothing changes in this view: what it asks for inside is not drawn."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def draw(self) -> Callable[[], None] | None:
        """Draw and encode; what sends the picture, or None where it equals the last."""
        pixels = self._view.pixels()
        if self._last is not None and np.array_equal(pixels, self._last):
            return None
        rows, columns = pixels.shape[:2]
        content, about, _time = RcaImageEncoder.TURBO_JPEG.encode(pixels, columns, rows, _QUALITY)
        self._last = pixels
        return partial(self._push, content, about)

    # -- what trame's area calls -------------------------------------------------------------------------------------

    def set_push_callback(self, callback: Callable[[bytes, dict], None]) -> None:
        self._push = callback

    def schedule_render(self) -> None:
        """A page has come, or the view has another size: send even what has not changed."""
        self._last = None
        self._painter.ask(self)

    def reset(self) -> None:
        self.schedule_render()

    async def close(self) -> None:
        """Nothing is kept: the painter is closed by who has made it."""


class PictureFactory(IViewFactory):
    """Makes slice views whose pictures a painter draws, and the area of each on the page, a template of its name."""

    def __init__(self, server, painter: Painter, scrolled: Callable[[str], object]) -> None:
        super().__init__()
        self._scrolled = scrolled
        self._server, self._painter = server, painter
        self._areas: list[_Area] = []

    def picture(self, view_name: str) -> Picture:
        """Of a view that was made here."""
        return self.get_factory_view(view_name)[1]

    def can_create_view(self, view: ViewLayoutDefinition) -> bool:
        return view.view_type == ViewType.SLICE_VIEW

    def _create_view(self, view: ViewLayoutDefinition, scene, app_logic) -> tuple[ScanView, Picture]:
        name = view.singleton_tag
        # not drawn while it is put together
        made = ScanView(scene, app_logic, name, scheduled_render_strategy=NoScheduleRendering())
        made.render_window().SetMultiSamples(0)  # smoothed edges triple the time that a picture takes without a GPU
        made.set_view_properties(view.properties)
        cursor = f"{name}_active_view_cursor"
        self._server.state.setdefault(cursor, "default")
        window = RcaWindow(made.render_window(), self._server.state, cursor)
        picture = Picture(self._painter, made, window)
        self._lay_out(name, cursor)
        adapter = _Area(made, self._areas, window, name, scheduler=picture, do_schedule_render_on_interaction=False)
        adapter.scrolled = partial(self._scrolled, name)
        self._areas.append(adapter)
        create_task(self._register(adapter))
        made.set_scheduled_render(_Asking(picture))
        return made, picture

    def _get_slicer_view(self, view: tuple[ScanView, Picture]) -> ScanView:
        return view[0]

    def _lay_out(self, name: str, cursor: str) -> None:
        with ViewLayout(self._server, template_name=name), html.Div(style=(f"`{_FILL}; cursor: ${{{cursor}}}`",)):
            RemoteControlledArea(
                name=name,
                origin=(_WINDOW,),
                display="image",
                image_style=(_FIT,),
                style="position: relative; width: 100%; height: 100%",
                send_mouse_move=True,
                event_throttle_ms=_EVENTS_MS,
            )

    async def _register(self, adapter: RcaViewAdapter) -> None:
        """trame's areas can be updated once the server is there."""
        await self._server.ready
        self._server.root_server.controller.rc_area_register(adapter)


class _Area(RcaViewAdapter):
    """Where the page shows a view.

    All windows on a session show one picture. It has the size of the window that was last used or sized, where it is
    sharp; the others show it fitted in, until the mouse moves in one of them.
    """

    def __init__(self, view: ScanView, areas: list[_Area], *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self._node = view.get_view_node()
        self._usual = self._node.GetScreenScaleFactor()
        self._areas = areas
        self._sizes: dict[str, dict] = {}  # by window
        self._window = ""
        self.scrolled: Callable[[], object] = lambda: None

    def update_size(self, origin: str, size: dict) -> None:
        """Markers and labels are as large on screens of small pixels."""
        self._window, self._sizes[origin] = origin, size
        self._node.SetScreenScaleFactor(self._usual * size.get("p", 1))
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
        """A place in a window of another size, as the place in the picture that is seen there."""
        if self._current_size is None or not {"x", "y", "w", "h"} <= event.keys() or not event["w"] * event["h"]:
            return event
        (x, y), (w, h), (width, height) = (event["x"], event["y"]), (event["w"], event["h"]), self._current_size[:2]
        scale = min(w / width, h / height)
        x, y = (x - w / 2) / scale + width / 2, (y - h / 2) / scale + height / 2
        return event | {"x": x, "y": y, "w": width, "h": height}


def _attempt(action: Callable):
    """What the action gives; an error in one picture is logged, and the others go on."""
    try:
        return action()
    except Exception:
        logging.exception("the viewer: a picture could not be shown")
        return None


class _Asking(ScheduledRenderStrategy):
    """A view's wish to be drawn, passed on to its picture."""

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self._picture = picture

    def schedule_render(self) -> None:
        self._picture.ask()
