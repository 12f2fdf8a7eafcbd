"""The one engine and map store that all modules of the application share, kept going by a timer while in use."""

from __future__ import annotations

import time
from collections.abc import Callable

import qt
import slicer

from ..maps.Engine import Engine
from ..maps.MapStore import MapStore
from ..Signal import Signal
from . import ModuleSettings

_INTERVAL_MS = 50
_BUSY_INTERVAL_MS = 5
_IDLE_INTERVAL_MS = 1000  # while no panel is open and nothing is done
_YIELD_SECONDS = 0.015
_sessions: list[Session] = []


def sharedSession(scene=None) -> Session:
    """The session of a scene, by default of the application's."""
    scene = slicer.mrmlScene if scene is None else scene
    for session in _sessions:
        if session.scene is scene:
            return session
    _sessions.append(Session(scene))
    return _sessions[-1]


class Session:
    """ticked(): the store has taken over what the background thread did; 20 to 50 times a second while in use, once
    while not.
    chosen(key): a setting has changed and the store follows it.

    A panel attaches itself in setup and detaches itself in cleanup. With the last one work is cancelled, the thread
    ends, and all maps and the GPU's memory are given back; what a panel made of `store` must be closed by then.
    """

    def __init__(self, scene, engineClass: type[Engine] = Engine) -> None:
        self.scene = scene
        self.ticked, self.chosen = Signal(), Signal()
        self._engineClass = engineClass
        self._store: MapStore | None = None
        self._panels: list[tuple[object, Callable[[], bool]]] = []
        self._others: list[Callable[[], bool]] = []
        self._timer = qt.QTimer()
        self._timer.setInterval(_INTERVAL_MS)
        self._timer.connect("timeout()", self.tick)

    @property
    def store(self) -> MapStore:
        """Maps of the scene's volumes. Another object after the last panel has gone and one has come again."""
        if self._store is None:
            self._store = MapStore(self.scene, self._engineClass(ModuleSettings.choice()))
        return self._store

    @property
    def attached(self) -> bool:
        """Is any panel attached?"""
        return bool(self._panels)

    def attach(self, panel, isEntered: Callable[[], bool] = lambda: True) -> None:
        """A panel is in use from now on; attaching it twice is the same as once. isEntered: is it open? `wake` must be
        called when it is opened.
        """
        if not any(each is panel for each, _isEntered in self._panels):
            self._panels.append((panel, isEntered))
        ModuleSettings.changed.connect(self._onSettings)
        self._timer.start()

    def wake(self) -> None:
        """A panel was opened, and is not to wait for the next slow tick."""
        self._timer.setInterval(_INTERVAL_MS)

    def detach(self, panel) -> None:
        """A panel is gone; with the last one everything is given back."""
        before = len(self._panels)
        self._panels = [each for each in self._panels if each[0] is not panel]
        if before and not self._panels:
            self._end()

    def addWork(self, isWorking: Callable[[], bool]) -> None:
        """There is work in another thread than the store's, while isWorking() says so; `removeWork` ends this."""
        self._others.append(isWorking)

    def removeWork(self, isWorking: Callable[[], bool]) -> None:
        self._others.remove(isWorking)

    def tick(self) -> None:
        """Take over what the background thread has done and inform the panels. The timer calls it.

        While Slicer's main thread waits for events it may keep Python's lock, without which the background thread
        stands still: so while there is work it is given away here, for less than a frame at a time.
        """
        busy = self.store.busy or any(isWorking() for isWorking in self._others)
        if busy:
            time.sleep(_YIELD_SECONDS)
        idle = not any(isEntered() for _panel, isEntered in self._panels)
        self._timer.setInterval(_BUSY_INTERVAL_MS if busy else _IDLE_INTERVAL_MS if idle else _INTERVAL_MS)
        self.store.poll()
        self.ticked.emit()

    def _end(self) -> None:
        self._timer.stop()
        ModuleSettings.changed.disconnect(self._onSettings)
        if self._store is not None:
            store, self._store = self._store, None
            store.close()

    def _onSettings(self, key: str) -> None:
        if self._store is not None:
            self._store.choose(ModuleSettings.choice())
        self.chosen.emit(key)
