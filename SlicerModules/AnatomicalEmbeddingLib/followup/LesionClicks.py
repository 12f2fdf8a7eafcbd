"""What the next clicks in the slice views are for: a new lesion, the place of a known one, or one of its axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from AnatomicalEmbedding.followup.record import FollowUp

from ..shared.VolumeNodes import fromWorld
from .AxisLines import LONG, SHORT
from .Placing import LINE, POINT, Placing

if TYPE_CHECKING:
    from .FollowUpLogic import FollowUpLogic


class LesionClicks:
    """Reports clicks to the logic. placing: the mouse, shared with what shows its state."""

    def __init__(self, logic: FollowUpLogic) -> None:
        self.logic = logic
        self.placing = Placing(logic.scene)
        self._lesion: str | None = None  # that the next clicks are for

    def placeLesion(self, lesion: str | None) -> None:
        """The next click marks a new lesion (None), or is the place of a known one, in the study clicked in."""
        self._lesion = lesion
        what = lesion or self.logic.record.free_id()
        self.placing.start(POINT, what, lambda places, volume: self._onClicked(places, volume, lesion))

    def drawAxis(self, lesion: str, kind: str) -> None:
        """The next two clicks are the ends of the LONG or SHORT axis of a lesion, in the study clicked in."""
        self._lesion = lesion
        self.placing.start(LINE, f"{lesion} {kind}", lambda places, volume: self._onDrawn(places, volume, lesion, kind))

    def follow(self, record: FollowUp) -> None:
        """Await no click for a lesion that the record does not have any more."""
        if self._lesion is not None and self._lesion not in {each.id for each in record.lesions}:
            self._lesion = None
            self.placing.stop()

    def _onClicked(self, places: np.ndarray, volumeNode, lesion: str | None) -> None:
        study = self._clickedStudy(volumeNode)
        if study:
            self._touch(self.logic.mark(study, tuple(fromWorld(volumeNode, places)[0]), lesion), study)

    def _onDrawn(self, places: np.ndarray, volumeNode, lesion: str, kind: str) -> None:
        study = self._clickedStudy(volumeNode)
        if not study:
            return
        one, other = (tuple(end) for end in fromWorld(volumeNode, places))
        found = self.logic.record.finding(lesion, study)
        kept = found.size if found is not None and found.size.confirmed else None  # what nobody accepted is not kept
        axes = {LONG: kept and kept.long_axis, SHORT: kept and kept.short_axis, kind: (one, other)}
        if self.logic.measure(lesion, study, axes[LONG], axes[SHORT]):
            self._touch(lesion, study)

    def _clickedStudy(self, volumeNode) -> str:
        study = self.logic.studyOf(volumeNode)
        if not study:
            self.logic.reported.emit("Click in a slice view that shows one of the patient's studies.")
        return study

    def _touch(self, lesion: str, study: str) -> None:
        if lesion:
            self.logic.touched.emit(lesion, study)
