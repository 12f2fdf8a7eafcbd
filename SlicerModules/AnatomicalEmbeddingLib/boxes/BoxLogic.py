"""Boxes of structures in scans: finding them, reading them, and keeping them in step with views and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, PointsError
from AnatomicalEmbedding.scan.boxes import enclosing

from ..shared import SceneNodes, Views
from ..shared.maps.MapStore import MapStore
from ..shared.SceneJob import SceneJob, Steps
from ..shared.SceneNodes import nodesOf
from ..shared.VolumeNodes import ctVolumes, toWorld
from .BoxLabels import BoxLabels
from .BoxNodes import ABSENT, BoxNode, FoundBox, absentIn, boxesByVolume, boxesIn, coloursIn, freeColour, keepAbsent
from .StructureExamples import MarkedExample, StructureExamples
from .StructureFinder import Finder, libraryFile, madeFrom, namesIn, openLibrary
from .StructureNames import readable

_PREPARING = 0.9  # share of a scan's progress, before its boxes are found


@dataclass(frozen=True)
class Cell:
    """A structure in a volume, for tables.

    found: the answer of the search, None for a box of the user's own. boxed: the volume has a box of it. edited: the
    box was changed by hand. outdated: it was found with other weights or voxels. marked: by the user's own example.
    """

    found: FoundBox | None = None
    boxed: bool = False
    edited: bool = False
    outdated: bool = False
    marked: bool = False


class BoxLogic(SceneJob):
    """changed(): boxes, examples or the progress of a search have changed. reported(sentence): to be read.

    libraryPath: file of a structure library; "": the one that ships for the weights.
    """

    def __init__(self, scene, store: MapStore) -> None:
        super().__init__(scene, store, "find boxes again")
        self.libraryPath = ""
        self.examples = StructureExamples(scene)
        self.examples.changed.connect(self.changed.emit)
        self._parents, self._ownViews = self._transforms(), Views.OwnViews(scene)
        self._labels = BoxLabels(scene)
        self._drawn, self._dirty = self._drawnNow(), False
        self.atEnd(self.examples.close, self._labels.clear)

    def libraryStructures(self) -> list[str]:
        """Names of the structures that can be found without examples, sorted; empty for weights without a library."""
        path = libraryFile(self.store.engine.weightsPath(), self.libraryPath)
        return [] if path is None else namesIn(path)

    # -- finding boxes -------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Continue the search, let boxes follow volumes and views; to be called a few times a second."""
        self._followTransforms()
        self._ownViews.follow()
        self._followHands()
        super().poll()

    def find(
        self, volumeNodes: Sequence, structures: Sequence[str], recall: float, replaceEdited: bool = False
    ) -> bool:
        """Start to find structures, of the library or of the user's examples, in volumes, which are prepared first.

        An example of a structure takes the place of the library's; the scan that it marks is not searched for it.

        Args:
            recall: the share of a structure that its box is to hold, 0..1.
            replaceEdited: also replace boxes that were changed by hand.

        Returns:
            False where nothing could be started; `reported` states why.
        """
        self.cancel()
        volumes = list(volumeNodes)
        examples = self.examples.of(structures)
        try:
            if not volumes:
                raise PointsError("No scan was chosen; tick the scans in which boxes are to be found.")
            if not structures:
                raise PointsError("No structure was chosen; tick some in the library, or add examples of your own.")
            for example in examples:
                example.read()
            if problem := self.store.engine.problem():
                raise AnatomicalEmbeddingError(problem)
        except AnatomicalEmbeddingError as error:
            self.reported.emit(str(error))
            return False
        self.start(self._search(volumes, list(dict.fromkeys(structures)), examples, recall, replaceEdited))
        return True

    def _search(
        self, volumes: list, structures: list[str], examples: list[MarkedExample], recall: float, replaceEdited: bool
    ) -> Steps[None]:
        """Open the library, wait for the maps of the examples, then find and show the boxes of scan after scan."""
        marked = {example.structure for example in examples}
        fromLibrary = [name for name in structures if name not in marked]
        weights = self.store.engine.weightsPath()
        path = libraryFile(weights, self.libraryPath)
        library = yield from self.inBackground(
            lambda *_: openLibrary(path, weights, fromLibrary, bool(marked), recall), title="opening the library"
        )
        self.store.request([*(example.volumeNode for example in examples), *volumes])
        markings = []
        for example in examples:
            try:
                (embedding,) = yield from self.maps([example.volumeNode])
                markings.append((example.read(), embedding))
            except AnatomicalEmbeddingError as error:
                self.reported.emit(f"{error} The example {example.name} was left out.")
        finder = yield from self.inBackground(
            lambda *_: Finder(library, fromLibrary, markings), title="reading the examples"
        )
        for remark in finder.remarks:
            self.reported.emit(remark)
        volumes.sort(key=lambda volume: self.store.map(volume) is None)
        for done, volume in enumerate(volumes):
            begin, ready, end = ((done + share) / len(volumes) for share in (0.0, _PREPARING, 1.0))
            known = {example.structure for example in examples if example.volumeNode is volume}
            try:
                (embedding,) = yield from self.maps([volume], (begin, ready))
                found = yield from self.inBackground(
                    lambda *_, embedding=embedding, known=known: finder.find(embedding, recall, known),
                    [volume], (ready, end), f"finding boxes in {volume.GetName()}",
                )  # fmt: skip
            except AnatomicalEmbeddingError as error:
                if volume.GetScene() is self.scene:  # a removed volume is left out
                    self.reported.emit(str(error))
                continue
            self._showBoxes(volume, found, replaceEdited)
            self.changed.emit()

    def _showBoxes(self, volume, found: list[tuple[FoundBox, np.ndarray]], replaceEdited: bool) -> None:
        """Write the answers into the scene; boxes that were changed by hand stay unless they are to be replaced."""
        kept: list[str] = []
        self.scene.StartState(self.scene.BatchProcessState)  # views follow once, not for each of many boxes
        try:
            boxes, colours = boxesIn(self.scene, volume), coloursIn(self.scene)
            absent: dict[str, FoundBox | None] = {}
            for answer, box in found:
                name, old = answer.structure, boxes.get(answer.structure)
                if old is not None and old.edited and not replaceEdited:
                    kept.append(readable(name))
                elif answer.status == ABSENT:
                    absent[name] = answer
                    if old is not None:
                        SceneNodes.removeNode(self.scene, old.node)
                else:
                    absent[name] = None
                    colours.setdefault(name, freeColour(colours.values()))
                    (old or BoxNode.create(self.scene, name, volume, colours[name])).write(box, answer)
            keepAbsent(volume, absent)
        finally:
            self.scene.EndState(self.scene.BatchProcessState)
        if kept:
            which = "a box" if len(kept) == 1 else "boxes"
            self.reported.emit(
                f"{volume.GetName()}: {which} that you changed by hand stayed ({', '.join(kept)}); tick Replace to "
                "find them anew."
            )

    # -- reading boxes -----------------------------------------------------------------------------------------------

    def table(self, volumeNodes: Sequence) -> dict[str, dict[str, Cell]]:
        """By structure and volume ID, the structures that were searched for or marked."""
        drawn, examples = boxesByVolume(self.scene), self.examples.all()
        rows: dict[str, dict[str, Cell]] = {}
        for volume in volumeNodes:
            boxes, source = drawn.get(volume.GetID(), {}), self._source(volume)
            cells = {name: Cell(found, outdated=_isOutdated(found, source)) for name, found in absentIn(volume).items()}
            for name, box in boxes.items():
                cells[name] = Cell(box.found, True, box.edited, _isOutdated(box.found, source))
            cells |= {each.structure: Cell(marked=True) for each in examples if each.volumeNode is volume}
            for name, cell in cells.items():
                rows.setdefault(name, {})[volume.GetID()] = cell
        return dict(sorted(rows.items()))

    def boxesOf(self, volumeNode, structures: Sequence[str]) -> dict[str, np.ndarray]:
        """Boxes (2, 3) of structures that have one in a volume, in its own RAS mm.

        A box comes from the user's example where there is one, else from the ROI as it is now. Raises PointsError for
        an example whose marking is gone.
        """
        found = {name: box.box for name, box in boxesIn(self.scene, volumeNode).items() if name in structures}
        marked: dict[str, list[np.ndarray]] = {}
        for example in self.examples.of(structures):
            if example.volumeNode is volumeNode:
                marked.setdefault(example.structure, []).append(example.read().box)
        found |= {name: enclosing(boxes) for name, boxes in marked.items()}
        return {name: found[name] for name in dict.fromkeys(structures) if name in found}

    def jumpTo(self, volumeNode, structure: str) -> bool:
        """Centre the views of a volume on a box, and let the mouse change that box alone; False where there is no box.
        A volume that no view shows is shown in all.
        """
        for volumeId, boxes in boxesByVolume(self.scene).items():
            for name, box in boxes.items():
                box.setInteractive(volumeId == volumeNode.GetID() and name == structure)
        found = self.boxesOf(volumeNode, [structure])
        if found:
            if not Views.viewsOf(self.scene, volumeNode):
                Views.show(self.scene, volumeNode)
            Views.jump(self.scene, volumeNode, toWorld(volumeNode, [found[structure].mean(axis=0)])[0])
        return bool(found)

    def removeBoxes(self, volumeNodes: Sequence) -> None:
        """Remove the found boxes of some volumes, and the note of structures that they do not show."""
        for volume in volumeNodes:
            for box in boxesIn(self.scene, volume).values():
                SceneNodes.removeNode(self.scene, box.node)
            keepAbsent(volume, dict.fromkeys(absentIn(volume)))
        self.changed.emit()

    # -- following views and volumes -----------------------------------------------------------------------------------

    def _transforms(self) -> dict[str, str | None]:
        return {node.GetID(): node.GetTransformNodeID() for node in ctVolumes(self.scene)}

    def _followTransforms(self) -> None:
        """Move boxes with volumes that were put below another transform."""
        before, now = self._parents, self._transforms()
        self._parents = now
        if now == before:
            return
        for volumeId, boxes in boxesByVolume(self.scene).items():
            for box in boxes.values():
                if volumeId in now and box.node.GetTransformNodeID() == before.get(volumeId, now[volumeId]):
                    box.follow(now[volumeId])

    def _drawnNow(self) -> tuple:
        """The number of ROIs, when one was last changed, and the sources of the maps; new maps make boxes outdated."""
        changed = [node.GetMTime() for node in nodesOf(self.scene, "vtkMRMLMarkupsROINode")]
        return len(changed), max(changed, default=0), [self._source(node) for node in ctVolumes(self.scene)]

    def _followHands(self) -> None:
        """Emit `changed` for boxes that were changed, removed or outdated, once the mouse rests."""
        now = self._drawnNow()
        self._labels.follow(now)
        if now != self._drawn:
            self._drawn, self._dirty = now, True
        elif self._dirty:
            self._dirty = False
            self.changed.emit()

    def _source(self, volume) -> str:
        """The source of boxes that would be found in a volume now; "" where it has no map."""
        embedding = self.store.map(volume)
        return "" if embedding is None else madeFrom(embedding)


def _isOutdated(found: FoundBox | None, source: str) -> bool:
    return found is not None and bool(source) and found.madeFrom != source
