"""The anatomical crosshair: the place under the mouse in one scan, shown in its other views and in all other scans."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from AnatomicalEmbeddingLib.landmarks.AnatomicalCrosshair import AnatomicalCrosshair
from AnatomicalEmbeddingLib.shared import Views as SliceViews

if TYPE_CHECKING:
    from .session import Session
    from .views import Views


class Crosshair(AnatomicalCrosshair):
    """Shows the latest place once all pictures of the place before are drawn; places in between are left out.

    Publishes `crosshair`: is it on?
    """

    def __init__(self, session: Session, views: Views) -> None:
        super().__init__(session.scene, session.store)
        self._session, self._views, self._source = session, views, None
        views.painter.idle.connect(self.poll)
        session.scans_changed.connect(self._follow_scans)
        session.on_close(self.close)

    def _follow_scans(self) -> None:
        self.volumes = list(self._session.scans)

    def toggle(self) -> None:
        self.setEnabled(not self.enabled)

    def poll(self) -> None:
        if not self._views.painter.busy:
            super().poll()

    def publish(self, state) -> None:
        state.crosshair = self.enabled

    def follow(self, volumeNode, pointWorld, sliceNode=None) -> None:
        # The markers of other scans request a picture of every view. The view under the mouse changes only when the
        # marker of its own scan disappears.
        unchanged = sliceNode is not None and volumeNode is self._source
        self._source = volumeNode
        with self._views.picture(sliceNode).paused() if unchanged else nullcontext():
            SliceViews.jump(self.scene, volumeNode, pointWorld, centre=False, without=sliceNode)
            super().follow(volumeNode, pointWorld, sliceNode)
