"""Gives Python's lock to background threads while Slicer's main thread waits for events, which may keep it."""

from __future__ import annotations

import time

import qt

_INTERVAL_MS, _SECONDS = 5, 0.015


class LockYield:
    """For work in threads that the session does not know of; see `Session.tick`."""

    def __init__(self) -> None:
        self._timer = qt.QTimer()
        self._timer.setInterval(_INTERVAL_MS)
        self._timer.connect("timeout()", self._yield)

    def setWorking(self, working: bool) -> None:
        """Is there work that needs the lock now?"""
        if working == self._timer.active:
            return
        if working:
            self._timer.start()
        else:
            self._timer.stop()

    def _yield(self) -> None:
        time.sleep(_SECONDS)
