"""Undo and redo: records never change, so what was before is kept as it was."""

from __future__ import annotations

from AnatomicalEmbedding.followup.record import FollowUp

_LONGEST = 200


class RecordHistory:
    """now: the record at present."""

    def __init__(self, record: FollowUp | None = None) -> None:
        self.now = record or FollowUp()
        self._past: list[FollowUp] = []
        self._future: list[FollowUp] = []

    @property
    def canUndo(self) -> bool:
        return bool(self._past)

    @property
    def canRedo(self) -> bool:
        return bool(self._future)

    def step(self, record: FollowUp) -> None:
        """The user did something; doing nothing is no step."""
        if record != self.now:
            self._past = [*self._past, self.now][-_LONGEST:]
            self._future = []
            self.now = record

    def refresh(self, record: FollowUp) -> None:
        """The record has changed by itself: places were proposed, a study was loaded. Not a step of its own."""
        self.now = record

    def undo(self) -> None:
        """Back to before the last step; nothing where there is none."""
        self._move(self._past, self._future)

    def redo(self) -> None:
        self._move(self._future, self._past)

    def _move(self, source: list[FollowUp], destination: list[FollowUp]) -> None:
        if source:
            destination.append(self.now)
            self.now = source.pop()
