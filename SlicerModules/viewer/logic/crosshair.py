"""The anatomical crosshair: the place under the mouse in one scan, shown in all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from AnatomicalEmbeddingLib.Landmarks.AnatomicalCrosshair import AnatomicalCrosshair

if TYPE_CHECKING:
    from .session import Session


class Crosshair:
    """Publishes `crosshair`: is it on?"""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.logic = AnatomicalCrosshair(session.scene, session.store)
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
