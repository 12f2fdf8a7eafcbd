"""Undo and redo of states that never change: what was before is kept as it was."""

from __future__ import annotations

from typing import Generic, TypeVar

State = TypeVar("State")


class UndoStack(Generic[State]):
    """now: the present state. longest: how many steps back are kept."""

    def __init__(self, now: State, longest: int = 200) -> None:
        self.now = now
        self._longest = longest
        self._past: list[State] = []
        self._future: list[State] = []

    @property
    def canUndo(self) -> bool:
        return bool(self._past)

    @property
    def canRedo(self) -> bool:
        return bool(self._future)

    def step(self, state: State) -> None:
        """The user did something; doing nothing is no step."""
        if state != self.now:
            self._past = [*self._past, self.now][-self._longest :]
            self._future = []
            self.now = state

    def refresh(self, state: State) -> None:
        """The state has changed by itself, as when answers came in. Not a step of its own."""
        self.now = state

    def undo(self) -> bool:
        """Back to before the last step; False where there is none."""
        return self._move(self._past, self._future)

    def redo(self) -> bool:
        return self._move(self._future, self._past)

    def _move(self, source: list[State], destination: list[State]) -> bool:
        if not source:
            return False
        destination.append(self.now)
        self.now = source.pop()
        return True
