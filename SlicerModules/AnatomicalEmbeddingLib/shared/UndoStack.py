"""Undo and redo of immutable states."""

from __future__ import annotations

from typing import Generic, TypeVar

State = TypeVar("State")
_LONGEST = 200  # number of former states that are kept


class UndoStack(Generic[State]):
    """now: the present state."""

    def __init__(self, now: State) -> None:
        self.now = now
        self._past: list[State] = []
        self._future: list[State] = []

    @property
    def canUndo(self) -> bool:
        return bool(self._past)

    @property
    def canRedo(self) -> bool:
        return bool(self._future)

    def step(self, state: State) -> None:
        """Take the state after a step of the user; an equal state is no step."""
        if state != self.now:
            self._past = [*self._past, self.now][-_LONGEST:]
            self._future = []
            self.now = state

    def refresh(self, state: State) -> None:
        """Replace the present state, which changed without the user, as when answers came in."""
        self.now = state

    def undo(self) -> bool:
        """Go back to the state before the last step; False where there was no step."""
        return self._move(self._past, self._future)

    def redo(self) -> bool:
        """Do the step again that was undone last; False where no step was undone."""
        return self._move(self._future, self._past)

    def _move(self, source: list[State], destination: list[State]) -> bool:
        if not source:
            return False
        destination.append(self.now)
        self.now = source.pop()
        return True
