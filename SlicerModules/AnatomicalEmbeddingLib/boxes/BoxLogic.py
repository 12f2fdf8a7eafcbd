"""Boxes of structures in scans: find the boxes, read them, and move them when their volumes move."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, PointsError
from AnatomicalEmbedding.scan.boxes import enclosing

from ..shared import SceneNodes, Views
from ..shared.maps.MapStore import MapStore
from ..shared.SceneJob import Part, SceneJob, Steps
from ..shared.SceneNodes import nodesOf
from ..shared.VolumeNodes import ctVolumes
from .BoxLabels import BoxLabels
from .BoxNodes import (
    ABSENT,
    BoxNode,
    FoundBox,
    absentIn,
    boxesByVolume,
    boxesIn,
    coloursIn,
    freeColour,
    keepAbsent,
)
from .StructureExamples import MarkedExample, StructureExamples
from .StructureFinder import Finder, libraryFile, madeFrom, namesIn, openLibrary
from .StructureNames import readable

_AT_ONCE = 5  # number of boxes that are shown at a time, because Slicer handles no events meanwhile
_PREPARING = 0.9  # fraction of a scan's progress bar that stands for preparing the scan


@dataclass(frozen=True)
class Cell:
    """State of one structure in one volume, for a cell of a table.

    answer: the answer of the search; None for a box that the user drew. boxed: True if the volume has a box of the
    structure. edited: True if the user changed the box. outdated: True if the answer was found with other weights or
    before the voxels changed. marked: True if the user's own example marks the structure in this volume.
    """

    answer: FoundBox | None = None
    boxed: bool = False
    edited: bool = False
    outdated: bool = False
    marked: bool = False


class BoxLogic(SceneJob):
    """Finds boxes of structures in the scans of the scene, shows and removes boxes, and makes the table of boxes.

    Signal changed(): emitted when boxes, examples or the progress of a search have changed. Signal reported(sentence):
    a message for the user. libraryPath: path of a structure library; "" for the library that ships with the weights.
    """

    def __init__(self, scene, store: MapStore) -> None:
        super().__init__(scene, store, "find boxes again")
        self.libraryPath = ""
        self.examples = StructureExamples(scene)
        self.examples.changed.connect(self.changed.emit)
        self._parents = self._transforms()
        self._ownViews = Views.OwnViews(scene)
        self._labels = BoxLabels(scene)
        self._drawn = self._drawnNow()
        self._dirty = False
        self.atEnd(self.examples.close, self._labels.clear)

    def libraryStructures(self) -> list[str]:
        """Return the sorted names of the structures in the library; empty if there is no library for the weights."""
        path = libraryFile(self.store.engine.weightsPath(), self.libraryPath)
        return [] if path is None else namesIn(path)

    # -- finding boxes -------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Continue the search, and update boxes after changes of volumes and views. Call this a few times a second."""
        self._followTransforms()
        self._ownViews.follow()
        self._followHands()
        super().poll()

    def find(
        self,
        volumeNodes: Sequence,
        structures: Sequence[str],
        recall: float,
        replaceEdited: bool = False,
    ) -> bool:
        """Start to search volumes for structures. The volumes are embedded first.

        If the user has examples of a structure, these examples are used instead of the library. A structure is not
        searched for in a scan in which the user has marked it.

        Args:
            recall: fraction of a structure that its box should contain, 0 to 1.
            replaceEdited: True to also replace boxes that the user changed.

        Returns:
            False if the search could not start; `reported` states why.
        """
        self.cancel()
        volumes = list(volumeNodes)
        examples = self.examples.of(structures)
        problem = self._problem(volumes, structures, examples)
        if problem:
            self.reported.emit(problem)
            return False
        self.start(
            self._search(volumes, list(dict.fromkeys(structures)), examples, recall, replaceEdited)
        )
        return True

    def _problem(
        self, volumes: list, structures: Sequence[str], examples: list[MarkedExample]
    ) -> str:
        """Return why the search cannot start, with the remedy; "" if it can start."""
        if not volumes:
            return "No scan is chosen; tick the scans to search."
        if not structures:
            return "No structure is chosen; tick structures in the library, or add examples of your own."
        try:
            for example in examples:
                example.read()
        except PointsError as error:
            return str(error)
        return self.store.engine.problem() or ""

    def _search(
        self,
        volumes: list,
        structures: list[str],
        examples: list[MarkedExample],
        recall: float,
        replaceEdited: bool,
    ) -> Steps[None]:
        """Open the library, read the examples, then find boxes in one scan after the other, prepared scans first.

        A structure that has an example is not found with the library.
        """
        marked = {example.structure for example in examples}
        fromLibrary = [name for name in structures if name not in marked]
        weights = self.store.engine.weightsPath()
        path = libraryFile(weights, self.libraryPath)
        library = yield from self.inBackground(
            lambda *_: openLibrary(path, weights, fromLibrary, bool(marked), recall),
            title="opening the library",
        )
        self.store.request([*(example.volumeNode for example in examples), *volumes])
        markings = yield from self._readExamples(examples)
        finder = yield from self.inBackground(
            lambda *_: Finder(library, fromLibrary, markings, recall), title="reading the examples"
        )
        for remark in finder.remarks:
            self.reported.emit(remark)
        volumes.sort(key=lambda volume: self.store.map(volume) is None)
        for done, volume in enumerate(volumes):
            marks = {example.structure for example in examples if example.volumeNode is volume}
            part = (done / len(volumes), (done + 1) / len(volumes))
            try:
                yield from self._searchVolume(volume, finder, marks, replaceEdited, part)
            except AnatomicalEmbeddingError as error:
                if volume.GetScene() is self.scene:  # no message about a volume that was removed
                    self.reported.emit(str(error))
            self.changed.emit()

    def _searchVolume(
        self,
        volume,
        finder: Finder,
        marks: set[str],
        replaceEdited: bool,
        part: Part,
    ) -> Steps[None]:
        """Prepare a volume, find boxes in it, and show them.

        Args:
            volume: the volume.
            finder: finds the boxes.
            marks: structures that the user has marked in the volume, and that are not searched for.
            replaceEdited: as for `find`.
            part: where the progress bar stands at the beginning and at the end, 0 to 1.
        """
        begin, end = part
        ready = begin + _PREPARING * (end - begin)
        (embedding,) = yield from self.maps([volume], (begin, ready))
        answers = yield from self.inBackground(
            lambda *_: finder.find(embedding, marks),
            [volume],
            (ready, end),
            f"finding boxes in {volume.GetName()}",
        )
        for first in range(0, len(answers), _AT_ONCE):
            self._requirePresent([volume])
            self._showBoxes(volume, answers[first : first + _AT_ONCE], replaceEdited)
            yield

    def _readExamples(self, examples: list[MarkedExample]) -> Steps[list[tuple]]:
        """Return the markings for `Finder`. An example that cannot be read is reported and left out."""
        markings = []
        for example in examples:
            try:
                (embedding,) = yield from self.maps([example.volumeNode])
                markings.append((example.structure, example.name, *example.read(), embedding))
            except AnatomicalEmbeddingError as error:
                self.reported.emit(f"{error} The example {example.name} is not used.")
        return markings

    def _showBoxes(
        self, volume, answers: list[tuple[FoundBox, np.ndarray]], replaceEdited: bool
    ) -> None:
        """Add or update the boxes of a volume. Boxes that the user changed stay, and are reported in one sentence."""
        editedNames: list[str] = []
        # views are drawn once, not once for each box
        self.scene.StartState(self.scene.BatchProcessState)
        try:
            boxes = boxesIn(self.scene, volume)
            colours = coloursIn(self.scene)
            absent: dict[str, FoundBox | None] = {}  # None: is not absent any more
            for answer, box in answers:
                name = answer.structure
                old = boxes.get(name)
                if old is not None and old.edited and not replaceEdited:
                    editedNames.append(readable(name))
                elif answer.status == ABSENT:
                    absent[name] = answer
                    if old is not None:
                        SceneNodes.removeNode(self.scene, old.node)
                else:
                    absent[name] = None
                    colours.setdefault(name, freeColour(colours.values()))
                    node = old or BoxNode.create(self.scene, name, volume, colours[name])
                    node.write(box, answer)
            keepAbsent(volume, absent)
        finally:
            self.scene.EndState(self.scene.BatchProcessState)
        if editedNames:
            which = "a box" if len(editedNames) == 1 else "boxes"
            self.reported.emit(
                f"{volume.GetName()}: {which} that you changed by hand stayed ({', '.join(editedNames)}); tick "
                "Replace in the section More to replace such boxes."
            )

    # -- reading boxes -----------------------------------------------------------------------------------------------

    def table(self, volumeNodes: Sequence) -> dict[str, dict[str, Cell]]:
        """Return the table {structure: {volume ID: cell}} of the structures searched for or marked in these volumes."""
        drawn = boxesByVolume(self.scene)
        examples = self.examples.all()
        rows: dict[str, dict[str, Cell]] = {}
        for volume in volumeNodes:
            boxes = drawn.get(volume.GetID(), {})
            source = self._source(volume)
            cells = {}
            for name, absent in absentIn(volume).items():
                cells[name] = Cell(absent, outdated=_isOutdated(absent, source))
            for name, box in boxes.items():
                outdated = _isOutdated(box.found, source)
                cells[name] = Cell(box.found, boxed=True, edited=box.edited, outdated=outdated)
            for example in examples:
                if example.volumeNode is volume:
                    cells[example.structure] = Cell(marked=True)
            for name, cell in cells.items():
                rows.setdefault(name, {})[volume.GetID()] = cell
        return dict(sorted(rows.items()))

    def boxesOf(self, volumeNode, structures: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the boxes of structures in a volume, by structure name: (2, 3) in the volume's own RAS mm.

        If the user marked a structure in this volume, return the box around the marks; otherwise, the found box with
        the user's changes. Structures without a box are left out. Raises PointsError if an example's node was removed.
        """
        boxByName = {name: box.box for name, box in boxesIn(self.scene, volumeNode).items()}
        marked: dict[str, list[np.ndarray]] = {}
        for example in self.examples.of(structures):
            if example.volumeNode is volumeNode:
                marked.setdefault(example.structure, []).append(example.read()[0])
        boxByName |= {name: enclosing(boxes) for name, boxes in marked.items()}
        return {name: boxByName[name] for name in dict.fromkeys(structures) if name in boxByName}

    def jumpTo(self, volumeNode, structure: str) -> bool:
        """Centre the views of a volume on the box of a structure, and let the mouse change only this box.

        If no view shows the volume, all views show it afterwards. Returns False if the volume has no such box.
        """
        for volumeId, boxes in boxesByVolume(self.scene).items():
            for name, box in boxes.items():
                box.setInteractive(volumeId == volumeNode.GetID() and name == structure)
        boxByName = self.boxesOf(volumeNode, [structure])
        if boxByName:
            Views.showBox(self.scene, volumeNode, boxByName[structure])
        return bool(boxByName)

    def removeBoxes(self, volumeNodes: Sequence) -> None:
        """Remove the found boxes of these volumes, and the stored answers about absent structures."""
        for volume in volumeNodes:
            for box in boxesIn(self.scene, volume).values():
                SceneNodes.removeNode(self.scene, box.node)
            keepAbsent(volume, dict.fromkeys(absentIn(volume)))  # None: removed
        self.changed.emit()

    # -- following views and volumes -----------------------------------------------------------------------------------

    def _transforms(self) -> dict[str, str | None]:
        """Return volume ID -> ID of the volume's parent transform, or None."""
        return {node.GetID(): node.GetTransformNodeID() for node in ctVolumes(self.scene)}

    def _followTransforms(self) -> None:
        """Give each box the new parent transform of its volume, if the box had the volume's old parent transform."""
        before = self._parents
        now = self._transforms()
        self._parents = now
        if now == before:
            return
        for volumeId, boxes in boxesByVolume(self.scene).items():
            if volumeId not in now:
                continue
            # a volume that is new keeps its transform
            earlier = before.get(volumeId, now[volumeId])
            for box in boxes.values():
                if box.node.GetTransformNodeID() == earlier:
                    box.follow(now[volumeId])

    def _drawnNow(self) -> tuple:
        """Return values that change if a box is added, removed or edited, or if a scan gets another map."""
        changed = [node.GetMTime() for node in nodesOf(self.scene, "vtkMRMLMarkupsROINode")]
        return (
            len(changed),
            max(changed, default=0),
            [self._source(node) for node in ctVolumes(self.scene)],
        )

    def _followHands(self) -> None:
        """Emit `changed` after boxes or maps have changed, but not while the user drags a box."""
        now = self._drawnNow()
        if not self.busy:  # else all names would be written again for each few boxes of a search
            self._labels.follow(now)
        if now != self._drawn:
            self._drawn = now
            self._dirty = True
        elif self._dirty:
            self._dirty = False
            self.changed.emit()

    def _source(self, volume) -> str:
        """Return a text that identifies the weights and the voxels of the volume's map; "" if the volume has no map."""
        embedding = self.store.map(volume)
        return "" if embedding is None else madeFrom(embedding)


def _isOutdated(answer: FoundBox | None, source: str) -> bool:
    """Return True if an answer was found in another map than the volume's map now. source: see `BoxLogic._source`."""
    return answer is not None and bool(source) and answer.madeFrom != source
