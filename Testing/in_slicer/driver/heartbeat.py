"""Measure how long the main thread is blocked: a timer with a short interval records its longest gap."""

from __future__ import annotations

import time

import qt

_INTERVAL_MS = 5


class Heartbeat:
    """Context manager. longest_ms: the longest time between two beats, so far."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self._last = 0.0
        self._timer = qt.QTimer()
        self._timer.setInterval(_INTERVAL_MS)
        self._timer.connect("timeout()", self._beat)

    def __enter__(self) -> Heartbeat:
        self._last = time.perf_counter()
        self._timer.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._beat()
        self._timer.stop()

    def _beat(self) -> None:
        now = time.perf_counter()
        self.longest_ms = max(self.longest_ms, 1000 * (now - self._last))
        self._last = now
