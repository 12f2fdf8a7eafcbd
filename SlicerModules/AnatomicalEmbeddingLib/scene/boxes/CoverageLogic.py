"""Which part of the body each scan holds, in words, and on demand whether it is stored the right way round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..maps.MapStore import FAILED, READY, WAITING, WORKING, MapStore
from ..maps.Worker import Worker
from ..Signal import Signal
from ..VolumeNodes import Snapshot, snapshot
from .StructureFinder import madeFrom


@dataclass(frozen=True)
class CoverageRow:
    """Of one volume. holds: the part of the body in words, or why it is not known. known: is it? orientation: what the
    check found, how far it is, or "". fault: did it find one?
    """

    name: str
    holds: str
    known: bool
    orientation: str = ""
    fault: bool = False


class CoverageLogic:
    """changed(): a check has begun, gone on or ended. reported(sentence): something to read."""

    def __init__(self, scene, store: MapStore) -> None:
        self.scene, self.store = scene, store
        self.changed, self.reported = Signal(), Signal()
        self._worker = Worker()
        self._waiting: list = []
        self._current: tuple[str, object] | None = None  # volume ID and the map that is checked
        self._share, self._total = 0.0, 0
        self._checked: dict[str, str | None] = {}  # what the map is made from: fault
        self._held: dict[str, tuple[str, bool]] = {}  # what the map is made from: words, known
        self._tags = [
            scene.AddObserver(event, slot)
            for event, slot in (
                (scene.NodeRemovedEvent, self._onNodeRemoved),
                (scene.StartCloseEvent, lambda *_: self.cancel()),
            )
        ]

    def close(self) -> None:
        """Cancel, let the thread end, stop observing."""
        self.cancel()
        self._worker.end()
        for tag in self._tags:
            self.scene.RemoveObserver(tag)
        self._tags = []

    def row(self, volumeNode) -> CoverageRow:
        """What is known of a volume now."""
        state = self.store.state(volumeNode)
        if state.status != READY:
            why = {WAITING: "waiting to be prepared", WORKING: f"being prepared, {100 * state.share:.0f} %"}
            sentence = state.sentence if state.status == FAILED else why.get(state.status, "not prepared yet")
            return CoverageRow(volumeNode.GetName(), sentence, False)
        holds, known = self._holds(state.embedding)
        orientation, fault = self._orientation(volumeNode, state.embedding)
        return CoverageRow(volumeNode.GetName(), holds, known, orientation, fault)

    def _holds(self, embedding) -> tuple[str, bool]:
        from AnatomicalEmbedding.embedding.coverage import find_coverage
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

        source = madeFrom(embedding)
        if source not in self._held:
            try:
                self._held[source] = find_coverage(embedding).text, True
            except AnatomicalEmbeddingError as error:
                self._held[source] = str(error), False
        return self._held[source]

    def _orientation(self, node, embedding) -> tuple[str, bool]:
        if self._current is not None and self._current[0] == node.GetID():
            return f"checking, {100 * self._share:.0f} %", False
        if any(waiting is node for waiting in self._waiting):
            return "waiting", False
        source = madeFrom(embedding)
        if source not in self._checked:
            return "", False
        fault = self._checked[source]
        return fault or "no fault found", fault is not None

    # -- the orientation check ---------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self._current is not None or bool(self._waiting)

    @property
    def progress(self) -> float:
        """Share of the checks that are done, 0 to 1."""
        if not self.busy:
            return 1.0
        return 1 - (len(self._waiting) + (self._current is not None) * (1 - self._share)) / self._total

    def check(self, volumeNodes: Sequence) -> bool:
        """Check the orientation of volumes, one after the other; three more embeddings each, in the background.

        Volumes that are not embedded are named by `reported`. False where none can be checked.
        """
        self.cancel()
        ready = [node for node in volumeNodes if self.store.map(node) is not None]
        for node in volumeNodes:
            if not any(node is each for each in ready):
                self.reported.emit(f"{node.GetName()}: is not prepared yet; press Prepare scans, then check it.")
        self._waiting, self._total = ready, len(ready)
        self._next()
        self.changed.emit()
        return bool(ready)

    def cancel(self) -> None:
        """Stop checking; what was found stays."""
        if self.busy:
            self._worker.cancel()
            self._waiting, self._current = [], None
            self.changed.emit()

    def poll(self) -> None:
        """To be called a few times a second, after the store's."""
        if self._current is not None and not self._isCurrent(*self._current):
            self._drop()
        for event in self._worker.poll():
            if event.kind == "progress":
                self._share = event.share
            else:
                embedding, self._current = self._current[1], None
                if event.kind == "done":
                    self._checked[madeFrom(embedding)] = event.result.fault
                elif event.kind == "failed":
                    self.reported.emit(event.what)
                self._next()
            self.changed.emit()

    def _next(self) -> None:
        """Start with the next volume; one copy of a scan is held at a time."""
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

        while self._waiting and self._current is None:
            node = self._waiting.pop(0)
            embedding = self.store.map(node)
            try:
                if embedding is not None:
                    self._start(node.GetID(), snapshot(node), embedding)
            except AnatomicalEmbeddingError as error:
                self.reported.emit(str(error))

    def _start(self, volumeId: str, copy: Snapshot, embedding) -> None:
        engine = self.store.engine
        self._current, self._share = (volumeId, embedding), 0.0
        self._worker.submit(
            volumeId,
            lambda progress, cancelled: engine.checkOrientation(copy.volume(), embedding, progress, cancelled),
        )

    def _isCurrent(self, volumeId: str, embedding) -> bool:
        node = self.scene.GetNodeByID(volumeId)
        return node is not None and self.store.map(node) is embedding

    def _drop(self) -> None:
        """What is checked has changed, or has gone: go on with the next."""
        self._worker.cancel()
        self._current = None
        self._next()
        self.changed.emit()

    def _onNodeRemoved(self, *_: object) -> None:
        self._waiting = [node for node in self._waiting if self.scene.GetNodeByID(node.GetID()) is node]
        if self._current is not None and not self._isCurrent(*self._current):
            self._drop()
