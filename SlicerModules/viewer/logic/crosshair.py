"""The anatomical crosshair: the place under the mouse in one scan, shown in all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from AnatomicalEmbeddingLib.Landmarks.AnatomicalCrosshair import AnatomicalCrosshair

if TYPE_CHECKING:
    from .session import Session


class _Follower(AnatomicalCrosshair):
    """Markers of the other scans ask every view for a new picture; those of the scan under the mouse need none."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.scene, session.store)
        self._views, self._source = session.app.view_manager, None

    def follow(self, volumeNode, pointWorld, sliceNode=None) -> None:
        still = volumeNode is self._source
        self._source = volumeNode
        own = [v for v in self._views.get_slice_views() if v.get_background_volume_id() == volumeNode.GetID()]
        for view in own if still else ():
            view._is_render_blocked = True  # set_render_blocked(False) would draw each of them
        try:
            super().follow(volumeNode, pointWorld, sliceNode)
        finally:
            shown = self._views.get_current_view_ids()
            for view in own if still else ():
                view._is_render_blocked = view.get_singleton_tag() not in shown


class Crosshair:
    """Publishes `crosshair`: is it on?"""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.logic = _Follower(session)
        session.scans_changed.connect(self.follow)
        session.at_end(self.logic.close)

    def follow(self) -> None:
        self.logic.volumes = list(self._session.scans)

    def toggle(self) -> None:
        self.logic.setEnabled(not self.logic.enabled)

    def poll(self) -> None:
        self.logic.poll()

    def publish(self, state) -> None:
        state.crosshair = self.logic.enabled
