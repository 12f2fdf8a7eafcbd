"""The session: one engine and one map store, which all modules share, and the timer that polls the store."""

import time
from collections.abc import Callable

from ..maps.Engine import Engine
from ..maps.MapStore import MapStore
from ..maps.SceneRelations import SceneRelations
from ..Signal import Signal
from . import ModuleSettings

_INTERVAL_MS = 50  # while a panel is open; by hand
_BUSY_INTERVAL_MS = 5  # while scans are prepared, so that `tick` sleeps often
_IDLE_INTERVAL_MS = 1000  # while no panel is open and no work is running
# with it, a small scan took 1.6 instead of 6.3 s while Slicer held the lock (2026-11-21)
_YIELD_SECONDS = 0.015


class Session:
    """One engine and one map store for all modules.

    Signal ticked(): emitted after each poll of the store, 20 to 50 times a second while a panel is open or work is
    running, otherwise once a second. Signal chosen(key): emitted after a setting has changed.

    A panel calls `attach` in its set-up and `detach` in its clean-up. Before `detach`, the panel closes its objects
    that use `store`. When the last panel is detached, all work is cancelled, the background thread ends, and all
    memory is released.
    """

    def __init__(self, scene, timer, engineClass: type[Engine] = Engine) -> None:
        """timer: a QTimer that only this session uses."""
        self.scene = scene
        self.ticked = Signal()
        self.chosen = Signal()
        self._engineClass = engineClass
        self._store: MapStore | None = None
        self._relations: SceneRelations | None = None
        self._panels: list[tuple[object, Callable[[], bool]]] = []
        self._others: list[Callable[[], bool]] = []
        self._timer = timer
        self._timer.setInterval(_INTERVAL_MS)
        self._timer.connect("timeout()", self.tick)

    @property
    def store(self) -> MapStore:
        """The maps of the scene's volumes. After the last panel was detached, the next use creates a new store."""
        if self._store is None:
            self._store = MapStore(self.scene, self._engineClass(ModuleSettings.choice()))
        return self._store

    @property
    def relations(self) -> SceneRelations:
        """The relations between the scene's volumes; as new as `store`."""
        if self._relations is None:
            self._relations = SceneRelations(self.scene, self.store)
        return self._relations

    def attach(self, panel, isEntered: Callable[[], bool] = lambda: True) -> None:
        """Keep the session running for a panel. isEntered(): returns True while the panel is open.

        The panel must call `wake` each time it is opened.
        """
        self._panels.append((panel, isEntered))
        ModuleSettings.changed.connect(self._onSettings)
        self._timer.start()

    def wake(self) -> None:
        """Shorten the timer's interval, because a panel was opened."""
        self._timer.setInterval(_INTERVAL_MS)

    def detach(self, panel) -> None:
        """Remove a panel from the session. If no panel is left, all work is cancelled and all memory is released."""
        before = len(self._panels)
        self._panels = [entry for entry in self._panels if entry[0] is not panel]
        if before and not self._panels:
            self._end()

    def addWork(self, isWorking: Callable[[], bool]) -> Callable[[], None]:
        """Emit `ticked` often while isWorking() returns True. Use this for work outside the thread of `store`.

        Returns a function that removes `isWorking` again.
        """
        self._others.append(isWorking)
        return lambda: self._others.remove(isWorking)

    def tick(self) -> None:
        """Poll the store and inform the panels. The timer calls this method.

        Slicer's main thread may keep Python's lock (GIL) while it waits for events. The background thread then cannot
        run. So while work is running, a short sleep in this method releases the lock.
        """
        interval = _IDLE_INTERVAL_MS
        if self.store.busy or self.relations.busy or any(isWorking() for isWorking in self._others):
            time.sleep(_YIELD_SECONDS)
            interval = _BUSY_INTERVAL_MS
        elif any(isEntered() for _panel, isEntered in self._panels):
            interval = _INTERVAL_MS
        self._timer.setInterval(interval)
        self.store.poll()
        self.relations.poll()
        self.ticked.emit()

    def _end(self) -> None:
        """Stop the timer and all work, and release the memory. The next use starts anew."""
        self._timer.stop()
        ModuleSettings.changed.disconnect(self._onSettings)
        if self._relations is not None:
            relations = self._relations
            self._relations = None
            relations.close()
        if self._store is not None:
            store = self._store
            self._store = None
            store.close()

    def _onSettings(self, key: str) -> None:
        if self._store is not None:
            self._store.choose(ModuleSettings.choice())
        self.chosen.emit(key)
