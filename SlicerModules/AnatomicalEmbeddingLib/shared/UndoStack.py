"""Undo and redo of immutable states."""

from typing import Generic, TypeVar

State = TypeVar("State")
_LONGEST = 200  # largest number of earlier states


class UndoStack(Generic[State]):
    """The current state `now`, earlier states for `undo`, and undone states for `redo`."""

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
        """Store the state after an action of the user. A state that equals the current state adds no undo step."""
        if state != self.now:
            self._past = [*self._past, self.now][-_LONGEST:]
            self._future = []
            self.now = state

    def refresh(self, state: State) -> None:
        """Replace the current state without an undo step, for a change that the user did not make."""
        self.now = state

    def undo(self) -> bool:
        """Restore the state before the last step. Returns False if there is no step to undo."""
        return self._move(self._past, self._future)

    def redo(self) -> bool:
        """Repeat the step that was undone last. Returns False if there is no undone step."""
        return self._move(self._future, self._past)

    def _move(self, source: list[State], destination: list[State]) -> bool:
        """Store the current state at `destination`, and take the last state of `source`. False if `source` is empty."""
        if not source:
            return False
        destination.append(self.now)
        self.now = source.pop()
        return True
