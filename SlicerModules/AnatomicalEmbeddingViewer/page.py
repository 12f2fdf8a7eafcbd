"""The page: connects all features with the buttons, with the values that the page shows, and with the server."""

import argparse
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic

import trame_rca.module
from trame.app import get_server
from trame.ui.html import DivLayout

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.scan.sources import Source, find_scans
from AnatomicalEmbedding.scan.volume import Film, Volume
from AnatomicalEmbeddingLib.shared.maps.Engine import Choice

from .logic.boxes import Boxes
from .logic.exports import Exports
from .logic.gallery import Gallery
from .logic.landmarks import Landmarks
from .logic.linking import Crosshair, Linking
from .logic.scans import Scans
from .logic.session import Session
from .logic.views import Views
from .logic.words import Words
from .web.guard import Guard
from .web.routes import GALLERY_PAGE, add_gallery, add_routes

_TEMPLATES = Path(__file__).parent / "ui"
_PART = re.compile(r"<!-- part: (\w+) -->")
_DRAWING_S = 0.25  # shortest time between two updates of the page while pictures are drawn
# Initial values of the page's fields that the server does not read. Each browser window has its own values.
_FIELDS = {
    "tab": "points",
    "search": "",
    "chosen": [],
    "recall": "0.95",
    "margin": 0,
    "typed": "",
    "report_text": "",
}


class Viewer:
    """One page and its session. Call `poll` many times a second.

    Args:
        options: the options of `anatemb view`.
        report: called with each sentence for the terminal.
    """

    def __init__(self, options: argparse.Namespace, report: Callable[[str], None]) -> None:
        self._options = options
        choice = Choice(options.model, options.device, None if options.no_cache else "")
        self.session = session = Session(choice)
        self.server = get_server("anatemb-view", client_type="vue3")
        self.server.enable_module(trame_rca.module)
        self._scans = Scans(session, report)
        self._views = Views(session, self.server)
        self._linking = Linking(session, self._views)
        self._landmarks = Landmarks(session, options.landmarks)
        self._crosshair = Crosshair(session, self._views)
        self._words = Words(session, self._crosshair)
        self._boxes = Boxes(session)
        self._exports = Exports(session, self._landmarks)
        self._features = (
            self._scans,
            self._views,
            self._linking,
            self._landmarks,
            self._crosshair,
            self._words,
            self._boxes,
        )
        self._gallery = Gallery(options.cohort, session, self._scans) if options.cohort else None
        self._guard = Guard(
            options.host, options.token, GALLERY_PAGE if options.cohort else "/index.html"
        )
        self._published = 0.0
        state = self.server.state
        state.update({"trame__title": "Anatomical Embedding", **_FIELDS})
        state.cohort = "" if self._gallery is None else self._gallery.name
        state.client_only(*_FIELDS)
        self._publish()
        self._add_actions()
        with DivLayout(self.server, classes="viewer") as layout:
            layout.root.add_child(_template("page"))
        self.server.controller.on_server_bind.add(self._bind)
        if options.demo:
            self._scans.read_demo()
        for name, source in find_scans(options.scans, report, options.series).items():
            self._scans.read(
                name, partial(_read_source, name, source, session.check, options.film_width_mm)
            )

    # -- the server --------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The page's address, with the token that a browser needs for access."""
        return self._guard.url(self.server.port)

    async def start(self) -> None:
        """Serve the page until the server is stopped."""
        await self.server.start(
            exec_mode="coroutine",
            host=self._options.host,
            port=self._options.port,
            open_browser=False,
            show_connection_info=False,
            disable_logging=True,
            timeout=0,
        )

    def _bind(self, wslink_server) -> None:
        """Add our addresses before the server listens, and check every request."""
        app = wslink_server.app
        app.middlewares.append(self._guard.middleware)
        add_routes(app, self.session, self._scans, self._exports, self._boxes)
        if self._gallery is not None:
            add_gallery(app, self._gallery)

    # -- the page ----------------------------------------------------------------------------------------------------

    def _add_actions(self) -> None:
        """Register each action under the name with which the page's templates call it: `trigger('name', [values])`."""
        scans = self._scans
        views = self._views
        landmarks = self._landmarks
        boxes = self._boxes
        words = self._words
        actions = {
            "scan_remove": scans.remove,
            "scan_template": scans.choose_template,
            "scan_rename": scans.rename,
            "prepare": scans.prepare,
            "cancel": scans.cancel,
            "view_mode": views.set_mode,
            "view_orientation": views.set_orientation,
            "view_enlarge": views.enlarge,
            "view_fit": views.fit,
            "window": views.set_window,
            "slice": views.set_slice,
            "link": self._linking.toggle,
            "crosshair": self._crosshair.toggle,
            "mouse": landmarks.set_mouse,
            "set_place": landmarks.place_set,
            "point_select": landmarks.select,
            "point_rename": landmarks.rename,
            "point_delete": landmarks.delete,
            "answer_not_visible": landmarks.set_not_visible,
            "answer_again": landmarks.match_again,
            "undo": landmarks.logic.undo,
            "redo": landmarks.logic.redo,
            "boxes_find": boxes.find,
            "boxes_cancel": boxes.cancel,
            "boxes_jump": boxes.jump,
            "boxes_clear": boxes.clear,
            "boxes_crop": boxes.crop,
            "crop_remove": boxes.remove_crop,
            "words_complete": words.complete,
            "words_find": words.find,
            "report_read": words.read_report,
            "report_sentence": words.find_sentence,
            "dismiss": self.session.withdraw,
        }
        for name, action in actions.items():
            self.server.trigger(name)(self._reporting(action))

    def _reporting(self, action: Callable) -> Callable:
        """Return a function that runs an action, shows its error on the page, and updates the page."""

        def act(*values) -> None:
            try:
                action(*values)
            except AnatomicalEmbeddingError as error:
                self.session.report(str(error))
            self._publish()

        return act

    def poll(self) -> None:
        """Continue the work of all features, and update the page."""
        for feature in self._features:
            feature.poll()
        if self._views.painter.busy and monotonic() - self._published < _DRAWING_S:
            return  # draw the pictures first: an update of the page takes as long as the drawing of one picture
        self._publish()
        self.server.state.flush()

    def _publish(self) -> None:
        self._published = monotonic()
        for feature in (*self._features, self._exports):
            feature.publish(self.server.state)
        self.server.state.sentences = self.session.sentences


def _template(name: str) -> str:
    """Return the Vue template `name`. Each comment `<!-- part: NAME -->` is replaced by the template NAME."""
    text = (_TEMPLATES / f"{name}.html").read_text(encoding="utf-8")
    return _PART.sub(lambda match: _template(match[1]), text)


def _read_source(
    name: str,
    source: Source,
    check: Callable[[Volume], Volume] | None,
    film_width_mm: float | None,
    _cancelled: Callable[[], bool],
) -> list[Volume]:
    """Read a scan of the command line. check: see `Source.read`. film_width_mm: None if a film states its width."""
    volume = replace(source.read(check), name=name)
    return [volume.with_width(film_width_mm) if isinstance(volume, Film) else volume]
