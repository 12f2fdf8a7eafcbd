"""The anatomical crosshair: the place under the mouse in one scan, shown in its other views and in all other scans."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from AnatomicalEmbeddingLib.landmarks.AnatomicalCrosshair import AnatomicalCrosshair
from AnatomicalEmbeddingLib.shared import Views as SliceViews

if TYPE_CHECKING:
    from .session import Session
    from .views import Views


class _Follower(AnatomicalCrosshair):
    """Follows the latest place as soon as all pictures of the one before are drawn: places between are left out."""

    def __init__(self, session: Session, views: Views) -> None:
        super().__init__(session.scene, session.store)
        self._views, self._source = views, None
        views.painter.rested.connect(self.poll)

    def poll(self) -> None:
        if not self._views.painter.busy:
            super().poll()

    def follow(self, volumeNode, pointWorld, sliceNode=None) -> None:
        # the markers of other scans ask every view for a picture; the one under the mouse has changed only if its own
        # scan's marker was shown until now
        still = sliceNode is not None and volumeNode is self._source
        self._source = volumeNode
        with self._views.picture(sliceNode).held() if still else nullcontext():
            SliceViews.jump(self.scene, volumeNode, pointWorld, centre=False, without=sliceNode)
            super().follow(volumeNode, pointWorld, sliceNode)


class Crosshair:
    """Publishes `crosshair`: is it on?"""

    def __init__(self, session: Session, views: Views) -> None:
        self._session = session
        self.logic = _Follower(session, views)
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
