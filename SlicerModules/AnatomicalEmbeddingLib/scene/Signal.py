"""A signal of plain Python, for logic that must not know Qt."""

from __future__ import annotations

from collections.abc import Callable


class Signal:
    """Calls every connected function, in the order of connection, in the thread that emits."""

    def __init__(self) -> None:
        self._slots: list[Callable] = []

    def connect(self, slot: Callable) -> None:
        if slot not in self._slots:
            self._slots.append(slot)

    def disconnect(self, slot: Callable) -> None:
        if slot in self._slots:
            self._slots.remove(slot)

    def emit(self, *values: object) -> None:
        for slot in list(self._slots):  # a slot may disconnect itself
            slot(*values)
