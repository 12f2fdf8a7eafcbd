"""Boxes of structures in scans: what is known of them, which views show them, and looking for more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..shared import SceneNodes, Views
from ..shared.maps.MapStore import EMPTY, READY, MapStore
from ..shared.SceneNodes import nodesOf
from ..shared.Signal import Listener, Signal
from ..shared.VolumeNodes import ctVolumes, toWorld
from .BoxLabels import BoxLabels
from .BoxNodes import FoundBox, absentIn, boxesByVolume, boxesIn, keepAbsent
from .BoxSearch import BoxSearch
from .StructureExamples import StructureExamples
from .StructureFinder import madeFrom
from .StructureNames import libraryFile, namesIn


@dataclass(frozen=True)
class Cell:
    """A structure in a volume, for tables. found: what is known of it, or None. boxed: has it a box there? edited: was
    the box changed by hand? outdated: it was found with other weights or voxels. marked: by the user's own example.
    """

    found: FoundBox | None = None
    boxed: bool = False
    edited: bool = False
    outdated: bool = False
    marked: bool = False


class BoxLogic(Listener):
    """changed(): boxes, examples or the progress of a search have changed. reported(sentence): something to read.

    libraryPath: file of a structure library; "": the one that ships for the weights.
    """

    def __init__(self, scene, store: MapStore) -> None:
        self.scene, self.store = scene, store
        self.changed, self.reported = Signal(), Signal()
        self.libraryPath = ""
        self.examples = StructureExamples(scene)
        self._search = BoxSearch(scene, store, self.examples)
        self.examples.changed.connect(self.changed.emit)
        self._search.changed.connect(self.changed.emit)
        self._search.reported.connect(self.reported.emit)
        self._parents, self._ownViews = self._transforms(), Views.OwnViews(scene)
        self._labels = BoxLabels(scene)
        self._drawn, self._dirty = self._lastDrawn(), False
        self.atEnd(self.examples.close, self._search.close, self._labels.clear)
        self.listen(store.changed, self._onMap)

    def libraryStructures(self) -> list[str]:
        """Names of what can be found without examples, sorted; none where the weights have no library."""
        path = libraryFile(self.store.engine.weightsPath(), self.libraryPath)
        return [] if path is None else namesIn(path)

    # -- looking for boxes -------------------------------------------------------------------------------------------

    def find(
        self, volumeNodes: Sequence, structures: Sequence[str], recall: float, replaceEdited: bool = False
    ) -> bool:
        """Start looking for structures, of the library or of the user's examples, in volumes; embeds what needs it.

        recall: the share of a structure that its box is to hold, 0 to 1. replaceEdited: also write boxes anew that were
        changed by hand. Own examples go before the library's of the same name; a volume that holds one is not searched
        for it. False where nothing could be started, which `reported` states.
        """
        return self._search.start(volumeNodes, structures, recall, replaceEdited, self.libraryPath)

    def cancel(self) -> None:
        """Stop the search; boxes that were found stay. Scans go on being embedded: see MapStore.cancel."""
        self._search.cancel()

    @property
    def busy(self) -> bool:
        """Is a search going on?"""
        return self._search.busy

    @property
    def progress(self) -> tuple[float, str]:
        """Share done (0..1) and what is being done."""
        return self._search.progress

    def poll(self) -> None:
        """To be called a few times a second, after the store's: goes on, and lets boxes follow views and volumes."""
        self._followTransforms()
        self._ownViews.follow()
        self._followHands()
        self._search.poll()

    # -- what there is -----------------------------------------------------------------------------------------------

    def table(self, volumeNodes: Sequence) -> dict[str, dict[str, Cell]]:
        """By structure and volume ID, what is known of the structures that were looked for or marked."""
        boxes = boxesByVolume(self.scene)
        marks = {(each.structure, each.volumeNode.GetID()) for each in self.examples.all()}
        rows: dict[str, dict[str, Cell]] = {}
        for volume in volumeNodes:
            volumeId, embedding = volume.GetID(), self.store.map(volume)
            source = "" if embedding is None else madeFrom(embedding)
            for structure, found in absentIn(volume).items():
                rows.setdefault(structure, {})[volumeId] = Cell(found, outdated=_isOutdated(found, source))
            for structure, box in boxes.get(volumeId, {}).items():
                cell = Cell(box.found, True, box.edited, _isOutdated(box.found, source))
                rows.setdefault(structure, {})[volumeId] = cell
            for structure in (structure for structure, markedIn in marks if markedIn == volumeId):
                rows.setdefault(structure, {})[volumeId] = Cell(marked=True)
        return dict(sorted(rows.items()))

    def boxesOf(self, volumeNode, structures: Sequence[str]) -> dict[str, tuple[np.ndarray, float | None]]:
        """Of those structures that have one, the box (2, 3) in the volume's own RAS mm: the user's example where there
        is one, else the ROI as it is now; and the recall that it was grown for, None where the user has set it.

        Raises PointsError for an example that marks nothing any more.
        """
        marked: dict[str, list[np.ndarray]] = {}
        for example in self.examples.of(structures):
            if example.volumeNode is volumeNode:
                marked.setdefault(example.structure, []).append(example.read().box)
        found: dict[str, tuple[np.ndarray, float | None]] = {}
        drawn = boxesIn(self.scene, volumeNode)
        for name in dict.fromkeys(structures):
            if name in marked:
                boxes = np.array(marked[name])
                found[name] = np.stack([boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)]), None
            elif name in drawn:
                each = drawn[name]
                found[name] = each.box, None if each.edited or each.found is None else each.found.recall
        return found

    def jumpTo(self, volumeNode, structure: str) -> bool:
        """Centre the views of a volume on a box, and let the mouse change that box alone; False where there is none. A
        volume that no view shows is shown in all.
        """
        for volumeId, boxes in boxesByVolume(self.scene).items():
            for name, box in boxes.items():
                box.setInteractive(volumeId == volumeNode.GetID() and name == structure)
        found = self.boxesOf(volumeNode, [structure])
        if not found:
            return False
        centre = found[structure][0].mean(axis=0)
        if not Views.viewsOf(self.scene, volumeNode):
            Views.show(self.scene, volumeNode)
        Views.jump(self.scene, volumeNode, toWorld(volumeNode, [centre])[0])
        return True

    def removeBoxes(self, volumeNodes: Sequence) -> None:
        """Remove the found boxes of some volumes, and what is known of absent structures."""
        for volume in volumeNodes:
            for box in boxesIn(self.scene, volume).values():
                SceneNodes.removeNode(self.scene, box.node)
            keepAbsent(volume, dict.fromkeys(absentIn(volume)))
        self.changed.emit()

    # -- following views and volumes -----------------------------------------------------------------------------------

    def _transforms(self) -> dict[str, str | None]:
        return {node.GetID(): node.GetTransformNodeID() for node in ctVolumes(self.scene)}

    def _followTransforms(self) -> None:
        """Boxes go with their volumes where these are put below another transform."""
        now = self._transforms()
        if now == self._parents:
            return
        before, self._parents = self._parents, now
        for volumeId, boxes in boxesByVolume(self.scene).items():
            if volumeId in before and volumeId in now and before[volumeId] != now[volumeId]:
                for box in boxes.values():
                    if box.node.GetTransformNodeID() == before[volumeId]:
                        box.follow(now[volumeId])

    def _lastDrawn(self) -> tuple[int, ...]:
        """How many ROIs there are, and when the last one was changed."""
        changed = [node.GetMTime() for node in nodesOf(self.scene, "vtkMRMLMarkupsROINode")]
        return len(changed), max(changed, default=0)

    def _followHands(self) -> None:
        """Report boxes that the user has changed or removed, once the mouse rests."""
        now = self._lastDrawn()
        self._labels.follow(now)
        if now != self._drawn:
            self._drawn, self._dirty = now, True
        elif self._dirty:
            self._dirty = False
            self.changed.emit()

    def _onMap(self, volumeId: str) -> None:
        """Another map, or none any more, may make boxes outdated."""
        node = self.scene.GetNodeByID(volumeId)
        self._dirty = self._dirty or node is None or self.store.state(node).status in (EMPTY, READY)


def _isOutdated(found: FoundBox | None, source: str) -> bool:
    return found is not None and bool(source) and found.madeFrom != source
