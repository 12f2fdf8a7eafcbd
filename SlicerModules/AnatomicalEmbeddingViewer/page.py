"""The features of the page, put together: what a button does, what the page shows, and the server that shows it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from trame.app import get_server

from AnatomicalEmbeddingLib.shared.CtWindow import PRESETS

from .logic.boxes import Boxes
from .logic.crosshair import Crosshair
from .logic.demo import patients
from .logic.demo_follow_up import follow_up_patient
from .logic.exports import Exports
from .logic.follow_up import FollowUps
from .logic.gallery import Gallery
from .logic.landmarks import Landmarks
from .logic.linking import Linking
from .logic.outlines import Outlines, open_segmenter
from .logic.scans import Scans
from .logic.session import Session
from .logic.views import Views
from .logic.words import Words
from .ui.template import build_page
from .web.gallery import PAGE as GALLERY_PAGE
from .web.gallery import add_gallery
from .web.guard import Guard

TABS = ("points", "organs", "lesions", "outlines")
_DRAWING_S = 0.25  # between two updates while pictures are drawn


class Viewer:
    """One page and its session. `poll` is to be called many times a second. say: to who started the program."""

    def __init__(self, options, say: Callable[[str], None] = print) -> None:
        import trame_rca.module

        from AnatomicalEmbedding.scan.sources import find_scans

        self.options = options
        choice = options.choice
        segmenter = None if options.segmenter is None else open_segmenter(options.segmenter, choice.device)
        if segmenter is not None:
            choice = choice._replace(weights=segmenter.weights)
        self.session = session = Session(choice, options.limits)
        self.server = get_server("anatemb-view", client_type="vue3")
        self.server.enable_module(trame_rca.module)
        self.scans = Scans(session)
        self.views = Views(session, self.server)
        self.linking = Linking(session, self.views)
        self.landmarks = Landmarks(session)
        self.crosshair = Crosshair(session, self.views)
        self.words = Words(session, self.crosshair)
        self.boxes = Boxes(session)
        self.follow_up = FollowUps(session, self.views)
        self.outlines = None if segmenter is None else Outlines(session, segmenter)
        self.exports = Exports(session, self.landmarks, self.outlines)
        self.tab = TABS[0] if segmenter is None else "outlines"
        self._told = 0.0
        self.gallery = Gallery(options.cohort, session, self.scans) if options.cohort else None
        self.guard = Guard(options.host, options.token, GALLERY_PAGE if options.cohort else "/index.html")
        self._publish(initial=True)
        self._connect()
        build_page(self.server)
        self.server.controller.on_server_bind.add(self._bind)
        if options.demo:
            for name, reader in patients():
                self.scans.read(name, reader)
        if options.demo_follow_up:
            self.set_tab("lesions")
            self.scans.read(*follow_up_patient(self.follow_up))
        for name, source in find_scans(options.scans, say, options.series).items():
            self.scans.read_source(name, source, failed=say)

    # -- the server --------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where the page is, with the token that lets a browser in."""
        return self.guard.url(self.server.port)

    async def start(self) -> None:
        await self.server.start(
            exec_mode="coroutine",
            host=self.options.host,
            port=self.options.port,
            open_browser=False,
            show_connection_info=False,
            disable_logging=True,
            timeout=0,
        )

    async def stop(self) -> None:
        if self.server.running:
            await self.server.stop()

    def _bind(self, wslink_server) -> None:
        """Before the server listens: who is let in, and our own addresses."""
        from .web.routes import add_routes

        app = wslink_server.app
        app.middlewares.append(self.guard.middleware)
        add_routes(app, self)
        if self.gallery is not None:
            add_gallery(app, self.gallery)

    # -- what the page does ------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Names by which the page's templates call: `trigger('name', [values])`."""
        scans, views, landmarks, boxes = self.scans, self.views, self.landmarks, self.boxes
        follow_up = self.follow_up
        actions = {
            "scan_remove": scans.remove,
            "scan_template": scans.choose_template,
            "scan_rename": scans.rename,
            "prepare": scans.prepare,
            "cancel": scans.cancel,
            "view_mode": views.set_mode,
            "view_orientation": views.set_orientation,
            "view_enlarge": views.enlarge,
            "view_reset": views.reset,
            "window": views.set_window,
            "link": self.linking.toggle,
            "slice": views.set_slice,
            "mouse": landmarks.set_mouse,
            "point_select": landmarks.select,
            "point_rename": landmarks.rename,
            "point_delete": landmarks.delete,
            "answer_not_visible": landmarks.set_not_visible,
            "answer_again": landmarks.match_again,
            "undo": lambda: self._at_hand.undo(),
            "redo": lambda: self._at_hand.redo(),
            "tab": self.set_tab,
            "crosshair": self.crosshair.toggle,
            "boxes_find": boxes.find,
            "boxes_cancel": boxes.cancel,
            "boxes_jump": boxes.jump,
            "boxes_clear": boxes.clear,
            "boxes_crop": boxes.crop,
            "boxes_drop": boxes.drop_crop,
            "follow_patient": follow_up.choose_patient,
            "follow_date": follow_up.set_date,
            "follow_prior": follow_up.set_prior,
            "follow_current": follow_up.set_current,
            "follow_choose": follow_up.choose,
            "follow_act": follow_up.act,
            "follow_merge": follow_up.merge,
            "follow_describe": follow_up.describe,
            "follow_pair": follow_up.pairing.begin,
            "follow_agree": follow_up.pairing.agree,
            "follow_cancel": follow_up.pairing.cancel,
            "follow_close_up": follow_up.close_up,
            "words_typed": self.words.typed,
            "words_find": self.words.find,
            "words_read": self.words.read,
            "words_sentence": self.words.sentence,
            "dismiss": self.session.dismiss,
        }
        if self.outlines is not None:
            actions |= {
                "outlines_run": self.outlines.run,
                "outlines_cancel": self.outlines.cancel,
                "outlines_jump": self.outlines.jump,
                "outlines_show": self.outlines.show,
            }
        for name, action in actions.items():
            self.server.trigger(name)(self._guarded(action))

    def set_tab(self, tab: str) -> None:
        """Which page of the side panel is in front; it stays when the browser loads the page anew."""
        if tab in TABS:
            self.tab = tab
            self.follow_up.set_open(tab == "lesions")

    @property
    def _at_hand(self):
        """Whose steps undo and redo are about."""
        return self.follow_up if self.tab == "lesions" else self.landmarks

    def _guarded(self, action):
        """An action whose error, if any, is a sentence on the page; the page shows at once what has changed."""
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

        def act(*values) -> None:
            try:
                action(*values)
            except AnatomicalEmbeddingError as error:
                self.session.say(str(error))
            self._publish()

        return act

    # -- going on ----------------------------------------------------------------------------------------------------

    @property
    def awake(self) -> bool:
        """Is there anything that should be followed closely?"""
        return self.scans.busy or self.crosshair.logic.enabled or bool(self.session.scans)

    def poll(self) -> None:
        self.scans.poll()
        self.views.poll()
        self.linking.poll()
        self.landmarks.poll()
        self.follow_up.poll()
        self.crosshair.poll()
        self.words.poll()
        self.boxes.poll()
        if self.outlines is not None:
            self.outlines.poll()
        if self.views.painter.busy and monotonic() - self._told < _DRAWING_S:
            return  # pictures first: an update costs as much as drawing one
        self._publish()
        self.server.state.flush()

    def _publish(self, initial: bool = False) -> None:
        self._told = monotonic()
        state = self.server.state
        if initial:
            state.trame__title = "Anatomical Embedding"
            state.windows = list(PRESETS)
            state.cohort = "" if self.gallery is None else self.gallery.name
            state.outlines = None
            state.update({"sought": "", "wanted": [], "recall": "0.95", "margin": 0, "sayings": "", "report_text": ""})
            state.client_only("sought", "wanted", "recall", "margin", "sayings", "report_text")
        state.tab = self.tab
        self.scans.publish(state)
        self.views.publish(state)
        self.views.publish_slices(state)
        self.linking.publish(state)
        self.landmarks.publish(state)
        self.follow_up.publish(state)
        self.crosshair.publish(state)
        self.words.publish(state)
        self.boxes.publish(state)
        if self.outlines is not None:
            self.outlines.publish(state)
        self.exports.publish(state)
        state.sentences = self.session.sentences
