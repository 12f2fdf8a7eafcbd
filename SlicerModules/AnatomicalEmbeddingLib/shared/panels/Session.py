"""The one engine and map store that all modules of the application share, kept going by a timer while in use."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..maps.Engine import Engine
from ..maps.MapStore import MapStore
from ..Signal import Signal
from . import ModuleSettings

_INTERVAL_MS = 50
_BUSY_INTERVAL_MS = 5
_IDLE_INTERVAL_MS = 1000  # while no panel is open and nothing is done
_YIELD_SECONDS = 0.015


class Session:
    """ticked(): results of the background thread were delivered; 20 to 50 times a second while in use, else once.
    chosen(key): a setting has changed, and the store uses it.

    A panel attaches itself in its set-up and detaches itself in its clean-up. With the last one work is cancelled, the
    thread ends, and all maps and the GPU's memory are given back; a panel closes before what it made of `store`.
    """

    def __init__(self, scene, timer, engineClass: type[Engine] = Engine) -> None:
        """timer: a QTimer, which only this session uses."""
        self.scene = scene
        self.ticked, self.chosen = Signal(), Signal()
        self._engineClass = engineClass
        self._store: MapStore | None = None
        self._panels: list[tuple[object, Callable[[], bool]]] = []
        self._others: list[Callable[[], bool]] = []
        self._timer = timer
        self._timer.setInterval(_INTERVAL_MS)
        self._timer.connect("timeout()", self.tick)

    @property
    def store(self) -> MapStore:
        """Maps of the scene's volumes. Another object after the last panel was detached and one is attached again."""
        if self._store is None:
            self._store = MapStore(self.scene, self._engineClass(ModuleSettings.choice()))
        return self._store

    def attach(self, panel, isEntered: Callable[[], bool] = lambda: True) -> None:
        """Keep the session going for a panel. isEntered: is the panel open? Call `wake` when it is opened."""
        self._panels.append((panel, isEntered))
        ModuleSettings.changed.connect(self._onSettings)
        self._timer.start()

    def wake(self) -> None:
        """Let the next tick come soon: a panel was opened."""
        self._timer.setInterval(_INTERVAL_MS)

    def detach(self, panel) -> None:
        """Stop for a panel; with the last one all work and memory is given back."""
        before = len(self._panels)
        self._panels = [each for each in self._panels if each[0] is not panel]
        if before and not self._panels:
            self._end()

    def addWork(self, isWorking: Callable[[], bool]) -> Callable[[], None]:
        """Tick often while isWorking() is true of another thread than the store's; the returned function ends this."""
        self._others.append(isWorking)
        return lambda: self._others.remove(isWorking)

    def tick(self) -> None:
        """Deliver results of the background thread and inform the panels. The timer calls it.

        While Slicer's main thread waits for events it may keep Python's lock, without which the background thread
        stands still: so while there is work the lock is given away here, for less than a frame at a time.
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
