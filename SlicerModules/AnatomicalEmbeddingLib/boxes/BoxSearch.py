"""A search for structures in scans: goes on by itself as scans get embedded, and writes a box for each that is found.

Boxes that the user has edited are kept unless asked otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..shared import SceneNodes
from ..shared.maps.MapStore import EMPTY, FAILED, READY, MapStore
from ..shared.maps.Worker import Event, Worker
from ..shared.Signal import Listener, Signal
from .BoxNodes import ABSENT, BoxNode, FoundBox, Palette, boxesIn, keepAbsent, removeEmptied
from .StructureExamples import MarkedExample, Marking, StructureExamples
from .StructureFinder import Finder, checkRecall, makeFinder, openLibrary
from .StructureNames import libraryFile, readable, weightsHash

if TYPE_CHECKING:
    from AnatomicalEmbedding.structures.library import StructureLibrary

_OPEN, _MAKE = "open the library", "read the examples"  # keys of jobs; those of scans are volume IDs


@dataclass(eq=False)
class _Search:
    """What is looked for, and how far it is. targets: volumes that are not done. running: by ID, the maps of those that
    are looked at.
    """

    structures: tuple[str, ...]
    examples: list[MarkedExample]
    recall: float
    replaceEdited: bool
    weights: Path
    targets: list
    total: int
    library: StructureLibrary | None = None
    making: bool = False
    finder: Finder | None = None
    running: dict[str, object] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)


class BoxSearch(Listener):
    """One search at a time. changed(): boxes or progress have changed. reported(sentence): something to read."""

    def __init__(self, scene, store: MapStore, examples: StructureExamples) -> None:
        self.scene, self.store, self.examples = scene, store, examples
        self.changed, self.reported = Signal(), Signal()
        self._worker = Worker()
        self._search: _Search | None = None
        self.observe(scene, scene.NodeRemovedEvent, self._onNodeRemoved)
        self.observe(scene, scene.StartCloseEvent, lambda *_: self.cancel())
        self.atEnd(self._worker.end, self.cancel)

    @property
    def busy(self) -> bool:
        return self._search is not None

    @property
    def progress(self) -> tuple[float, str]:
        """Share done (0..1) and what is being done."""
        search = self._search
        if search is None:
            return 1.0, ""
        left = sum(0.9 * (1 - self.store.state(node).share) + 0.1 for node in search.targets)
        running = [node.GetName() for node in search.targets if node.GetID() in search.running]
        what = f"looking at {running[0]}" if running else "preparing scans"
        return 1 - left / search.total, what

    def start(
        self, volumeNodes: Sequence, structures: Sequence[str], recall: float, replaceEdited: bool, libraryPath: str
    ) -> bool:
        """Look for structures in volumes; see `BoxLogic.find`. False where nothing could start; `reported` says why."""
        from AnatomicalEmbedding.errors import PointsError

        self.cancel()
        targets = list(dict.fromkeys(node for node in volumeNodes if node is not None))
        examples = self.examples.of(structures)
        try:
            if not targets:
                raise PointsError("No scan was chosen; tick the scans to look at.")
            if not structures:
                raise PointsError("No structure was chosen; tick some in the library, or add examples of your own.")
            for example in examples:
                example.read()
        except PointsError as error:
            self.reported.emit(str(error))
            return False
        problem = self.store.engine.problem()
        if problem is not None:
            self.reported.emit(problem)
            return False
        own = {example.structure for example in examples}
        names = tuple(name for name in dict.fromkeys(structures) if name not in own)
        weights = self.store.engine.weightsPath()
        self._search = _Search(names, examples, recall, replaceEdited, weights, targets, len(targets))

        def openIt(_progress, _cancelled) -> StructureLibrary:
            library = openLibrary(libraryFile(weights, libraryPath), weightsHash(weights), weights.stem)
            checkRecall(library, names, sorted(own), recall)
            return library

        self._worker.submit(_OPEN, openIt)
        self.changed.emit()
        return True

    def cancel(self) -> None:
        """Stop; boxes that were found stay. Scans go on being embedded: see MapStore.cancel."""
        if self._search is not None:
            self._search = None
            self._worker.cancel()
            self.changed.emit()

    def poll(self) -> None:
        """To be called a few times a second, after the store's: takes over what was found, and goes on."""
        for event in self._worker.poll():
            if self._search is not None:
                self._take(self._search, event)
        search = self._search
        if search is None:
            return
        if self.store.engine.weightsPath() != search.weights:
            self._stop("Other weights were chosen during the search; find boxes again.")
        elif search.library is not None:
            self._dropFailed(search)
            if self._search is search:
                self._goOn(search)

    # -- step by step ------------------------------------------------------------------------------------------------

    def _take(self, search: _Search, event: Event) -> None:
        if event.kind == "failed" and event.key in (_OPEN, _MAKE):
            self._stop(event.what)
        elif event.kind == "failed":
            self._finish(search, event.key, event.what)
        elif event.kind == "done" and event.key == _OPEN:
            search.library = event.result
            self.store.request([*(example.volumeNode for example in search.examples), *search.targets])
        elif event.kind == "done" and event.key == _MAKE:
            search.finder = event.result
            for remark in search.finder.remarks:
                self.reported.emit(remark)
        elif event.kind == "done":
            self._found(search, event.key, event.result)

    def _dropFailed(self, search: _Search) -> None:
        """Name the scans that cannot be embedded, or are not any more; the others follow."""
        for node in list(search.targets):
            state = self.store.state(node)
            if state.status == FAILED:
                self._finish(search, node.GetID(), SceneNodes.naming(node, state.sentence))
            elif state.status == EMPTY:
                stopped = f"{node.GetName()}: was changed, or its preparation stopped; find boxes again."
                self._finish(search, node.GetID(), stopped)

    def _goOn(self, search: _Search) -> None:
        if search.finder is None:
            marked = None if search.making else self._markings(search)
            if marked is not None:
                search.making = True
                library, names, recall = search.library, search.structures, search.recall
                self._worker.submit(_MAKE, lambda *_: makeFinder(library, names, marked, recall))
            return
        for node in search.targets:
            embedding = self.store.map(node)
            if embedding is not None and node.GetID() not in search.running:
                search.running[node.GetID()] = embedding
                self._worker.submit(node.GetID(), self._look(search, node, embedding))

    def _look(self, search: _Search, node, embedding):
        """The work for one scan; not for what the user has marked in it."""
        finder, marked = search.finder, {each.structure for each in search.examples if each.volumeNode is node}
        return lambda *_: finder.find(embedding, without=marked)

    def _markings(self, search: _Search) -> list[tuple[Marking, object]] | None:
        """What the examples mark, with the maps; None while one of their scans is not embedded. Those that fail are
        named and left out.
        """
        from AnatomicalEmbedding.errors import PointsError

        marked = []
        for example in search.examples:
            volume, state = example.volumeNode, self.store.state(example.volumeNode)
            if state.status == READY:
                try:
                    marked.append((example.read(), state.embedding))
                except PointsError as error:
                    self.reported.emit(str(error))
            elif state.status not in (FAILED, EMPTY):
                return None
            elif volume.GetID() not in search.failed:
                search.failed.add(volume.GetID())
                why = SceneNodes.naming(volume, state.sentence or "its preparation was stopped.")
                self.reported.emit(f"{why} Its examples were left out.")
        return marked

    def _found(self, search: _Search, volumeId: str, found: list[tuple[FoundBox, np.ndarray]]) -> None:
        node = next((node for node in search.targets if node.GetID() == volumeId), None)
        if node is None:
            return
        if self.store.map(node) is not search.running.get(volumeId):
            self._finish(search, volumeId, f"{node.GetName()}: has changed meanwhile; find boxes again.")
            return
        self.scene.StartState(self.scene.BatchProcessState)  # views follow once, not for each of many boxes
        try:
            kept = self._write(node, found, search.replaceEdited)
        finally:
            self.scene.EndState(self.scene.BatchProcessState)
        self._finish(search, volumeId, _keptSentence(node, kept) if kept else "")

    def _write(self, volume, found: list[tuple[FoundBox, np.ndarray]], replaceEdited: bool) -> list[str]:
        """Put the answers into the scene; returns the structures whose boxes were edited by hand and kept."""
        removeEmptied(self.scene, volume)
        boxes, palette, kept = boxesIn(self.scene, volume), Palette(self.scene), []
        absent: dict[str, FoundBox | None] = {}
        for known, box in found:
            name, old = known.structure, boxes.get(known.structure)
            if old is not None and old.edited and not replaceEdited:
                kept.append(name)
            elif known.status == ABSENT:
                absent[name] = known
                if old is not None:
                    SceneNodes.removeNode(self.scene, old.node)
            else:
                absent[name] = None
                each = old or BoxNode.create(self.scene, name, volume, palette.colour(name))
                each.write(box, known)
                each.showOnlyInOwnViews(self.scene)
        keepAbsent(volume, absent)
        return kept

    def _finish(self, search: _Search, volumeId: str, sentence: str = "") -> None:
        """A volume is done, or nothing more can be done about it."""
        search.targets = [node for node in search.targets if node.GetID() != volumeId]
        search.running.pop(volumeId, None)
        if not search.targets:
            self._search = None
            self._worker.cancel()
        if sentence:
            self.reported.emit(sentence)
        self.changed.emit()

    def _stop(self, sentence: str) -> None:
        self.cancel()
        self.reported.emit(sentence)

    def _onNodeRemoved(self, *_: object) -> None:
        """Go on with the volumes that are left; not at all where an example has gone that is looked for."""
        search = self._search
        if search is None:
            return
        for example in search.examples:
            for node in (example.node, example.volumeNode):
                if self._isGone(node):
                    self._stop(f"{node.GetName()}: was removed, but marks or holds an example; find boxes again.")
                    return
        for node in [node for node in search.targets if self._isGone(node)]:
            self._worker.cancel(node.GetID())
            self._finish(search, node.GetID())

    def _isGone(self, node) -> bool:
        return self.scene.GetNodeByID(node.GetID()) is not node


def _keptSentence(volumeNode, structures: Sequence[str]) -> str:
    names = ", ".join(map(readable, structures))
    which = "a box" if len(structures) == 1 else "boxes"
    return f"{volumeNode.GetName()}: {which} that you changed by hand stayed ({names}); tick Replace to find them anew."
