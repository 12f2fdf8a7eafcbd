"""Measure how long the main thread is blocked: a timer with a short interval records its longest gap. Time in which
the thread could run but other programs had all processors does not count (known on Linux only).
"""

from __future__ import annotations

import time
from pathlib import Path

import qt

_INTERVAL_MS = 5
# the second number: ns in which this thread waited for a processor
_WAITS = Path("/proc/thread-self/schedstat")


class Heartbeat:
    """Context manager. longest_ms: the longest time between two beats, so far."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self._last = 0.0
        self._timer = qt.QTimer()
        self._timer.setInterval(_INTERVAL_MS)
        self._timer.connect("timeout()", self._beat)

    def __enter__(self) -> Heartbeat:
        self._last = _now()
        self._timer.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._beat()
        self._timer.stop()

    def _beat(self) -> None:
        now = _now()
        self.longest_ms = max(self.longest_ms, 1000 * (now - self._last))
        self._last = now


def _now() -> float:
    """Seconds, less those in which this thread has waited for a processor."""
    waited = int(_WAITS.read_text().split()[1]) / 1e9 if _WAITS.is_file() else 0.0
    return time.perf_counter() - waited
