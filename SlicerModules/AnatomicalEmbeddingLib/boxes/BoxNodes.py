"""Found boxes in the scene: an ROI node for each structure and volume, with the answer of the search on the node.

A box is (2, 3), lowest and highest corner in the volume's own RAS mm, without the volume's parent transform. The ROI
lies below the same parent transform, so it is exactly that box, wherever the volume is moved. Structures that a scan
does not show have no ROI; the answer is kept on the volume node.
"""

from __future__ import annotations

import colorsys
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count, product

import numpy as np
import slicer.util
from slicer.util import NodeModify

from AnatomicalEmbedding.anatomy.names import canonical_name

from ..shared import SceneNodes, Views
from ..shared.SceneNodes import nodesOf
from ..shared.VolumeNodes import fromWorld, ijkToRas, toWorld
from .StructureNames import readable

WHOLE, CUT, ABSENT, UNCERTAIN = "whole", "cut", "absent", "uncertain"
VOLUME_ROLE, STRUCTURE = "AnatomicalEmbedding.Volume", "AnatomicalEmbedding.Structure"
_FOUND, _WRITTEN, _ABSENT = "AnatomicalEmbedding.Box", "AnatomicalEmbedding.BoxWritten", "AnatomicalEmbedding.Absent"
_CLASS = "vtkMRMLMarkupsROINode"
_EDITED_MM = 1e-3
Colour = tuple[float, float, float]
_CORNERS = np.array(list(product((-0.5, 0.5), repeat=3)))
_GOLDEN = 0.618033988749895  # steps of it around the circle of hues never come close to each other


@dataclass(frozen=True)
class FoundBox:
    """The answer of a search for a structure in a volume.

    status: WHOLE, CUT, ABSENT, or UNCERTAIN (perhaps cut). recall: the share of the structure that its box should hold.
    present: the share of its points that the scan shows. sigmaMm: likely error of each side. cut: sides beyond the
    scan. byOwn: found by the user's own examples. madeFrom: the weights and the scan. times: volume of the box over
    that of the structure's estimated box; 0 where that is unknown.
    """

    structure: str
    status: str
    recall: float
    present: float
    sigmaMm: Sequence[float]
    cut: Sequence[str] = ()
    remarks: Sequence[str] = ()
    byOwn: bool = False
    madeFrom: str = ""
    times: float = 0.0

    @property
    def text(self) -> str:
        """As a sentence."""
        source = "by your examples" if self.byOwn else "by the library"
        if self.status == ABSENT:
            return f"absent: this scan does not seem to show it ({source})"
        status = "perhaps cut by the scan's edge, perhaps elsewhere" if self.status == UNCERTAIN else self.status
        where = f", beyond the scan at its {' and '.join(self.cut)} side" if self.cut else ""
        error = f"likely error of a side {max(self.sigmaMm):.0f} mm"
        remarks = "".join(f"; {remark}" for remark in self.remarks)
        size = f", about {self.times:.1f} times the structure's own box" if self.times else ""
        return f"{status}{where}; grown for a recall of {self.recall:g}{size}, {error} ({source}){remarks}"


class BoxNode:
    """A found box on its ROI node."""

    def __init__(self, node) -> None:
        self.node = node

    @classmethod
    def create(cls, scene, structure: str, volumeNode, colour: Colour) -> BoxNode:
        name = SceneNodes.freeName(scene, f"{readable(structure)} in {volumeNode.GetName()}")
        with Views.keepingPlaceNode(scene):
            node = scene.AddNewNodeByClass(_CLASS, name)
        node.SetNodeReferenceID(VOLUME_ROLE, volumeNode.GetID())
        node.SetAttribute(STRUCTURE, structure)
        node.CreateDefaultDisplayNodes()
        display = node.GetDisplayNode()
        display.SetSelectedColor(*colour)
        display.SetColor(*colour)
        display.SetFillVisibility(False)  # a filled box looks like a label
        display.SetFillOpacity(0.0)
        display.SetPointLabelsVisibility(False)
        display.SetPropertiesLabelVisibility(False)  # `BoxLabels` writes the names
        SceneNodes.placeInFolder(scene, node, volumeNode, "Boxes")
        display.SetHandlesInteractive(False)
        Views.showOnlyIn(display, scene, volumeNode)
        return cls(node)

    @property
    def volumeNode(self):
        return self.node.GetNodeReference(VOLUME_ROLE)

    @property
    def found(self) -> FoundBox | None:
        """The answer of the search, or None for a node that `write` has not written."""
        text = self.node.GetAttribute(_FOUND)
        return _fromValues(json.loads(text)) if text else None

    @property
    def box(self) -> np.ndarray:
        """(2, 3) in the volume's own RAS mm, as the ROI is now."""
        return boxIn(self.volumeNode, self.node)

    @property
    def edited(self) -> bool:
        """Has the ROI been changed since it was written?"""
        text = self.node.GetAttribute(_WRITTEN)
        if not text:
            return True
        written = json.loads(text)
        moved = np.abs(np.array(_shape(self.node)) - written["shape"]).max() > _EDITED_MM
        elsewhere = self.node.GetTransformNodeID() != self.volumeNode.GetTransformNodeID()
        return bool(moved or (elsewhere and self._sameGrid(written)))

    def write(self, box: np.ndarray, found: FoundBox) -> None:
        """Make the ROI a box (2, 3) of the volume's own RAS mm, and keep the answer of the search on it."""
        node, volume, matrix = self.node, self.volumeNode, np.eye(4)
        matrix[:3, 3] = box.mean(axis=0)
        grid = np.round(ijkToRas(volume), 6).ravel().tolist()
        with NodeModify(node):
            node.SetAndObserveTransformNodeID(volume.GetTransformNodeID())
            node.SetAndObserveObjectToNodeMatrix(slicer.util.vtkMatrixFromArray(matrix))
            node.SetSize(*(box[1] - box[0]))
            node.SetAttribute(_FOUND, json.dumps(asdict(found)))
            node.SetAttribute(_WRITTEN, json.dumps({"shape": _shape(node), "grid": grid}))
            node.SetNthControlPointLabel(0, readable(found.structure))
            node.SetNthControlPointDescription(0, found.text)  # a markups node's own is overwritten by MRML

    def follow(self, transformId: str | None) -> None:
        """Lie below this transform, the volume's new one, unless the volume's transform was hardened."""
        text = self.node.GetAttribute(_WRITTEN)
        if text and self._sameGrid(json.loads(text)):
            self.node.SetAndObserveTransformNodeID(transformId)

    def setInteractive(self, on: bool) -> None:
        """Show or hide the handles by which the mouse changes the ROI; the handles of many boxes hide the scan."""
        display = self.node.GetDisplayNode()
        if display is not None and bool(display.GetHandlesInteractive()) != on:
            display.SetHandlesInteractive(on)

    def _sameGrid(self, written: dict) -> bool:
        return bool(np.allclose(written["grid"], ijkToRas(self.volumeNode).ravel(), atol=1e-5))


def isDrawn(roiNode) -> bool:
    """Has the ROI a place and a size?"""
    return roiNode.GetNumberOfControlPoints() > 0 and min(roiNode.GetSize()) > 0


def boxIn(volumeNode, roiNode) -> np.ndarray:
    """The smallest box (2, 3) around the ROI's corners, which may be turned and moved in any way."""
    matrix = slicer.util.arrayFromVTKMatrix(roiNode.GetObjectToNodeMatrix())
    corners = (_CORNERS * roiNode.GetSize()) @ matrix[:3, :3].T + matrix[:3, 3]
    isWithVolume = roiNode.GetParentTransformNode() is volumeNode.GetParentTransformNode()
    inVolume = corners if isWithVolume else fromWorld(volumeNode, toWorld(roiNode, corners))
    return np.stack([inVolume.min(axis=0), inVolume.max(axis=0)])


def boxesIn(scene, volumeNode) -> dict[str, BoxNode]:
    """Boxes in a volume by structure."""
    return boxesByVolume(scene).get(volumeNode.GetID(), {})


def boxesByVolume(scene) -> dict[str, dict[str, BoxNode]]:
    """Boxes of the scene by volume ID and structure; not ROIs without volume or point."""
    found: dict[str, dict[str, BoxNode]] = {}
    for node in nodesOf(scene, _CLASS):
        structure, volume = node.GetAttribute(STRUCTURE), node.GetNodeReference(VOLUME_ROLE)
        if structure and volume is not None and isDrawn(node):
            # the first counts: a later one of the same name is a copy that the user made
            found.setdefault(volume.GetID(), {}).setdefault(canonical_name(structure), BoxNode(node))
    return found


def absentIn(volumeNode) -> dict[str, FoundBox]:
    """Structures that were searched for and that the volume does not seem to show, with the answers."""
    text = volumeNode.GetAttribute(_ABSENT)
    return {canonical_name(name): _fromValues(values) for name, values in json.loads(text).items()} if text else {}


def keepAbsent(volumeNode, changes: Mapping[str, FoundBox | None]) -> None:
    """Keep the answers for absent structures on the volume, and remove the answers of structures that are None."""
    absent = {name: asdict(found) for name, found in {**absentIn(volumeNode), **changes}.items() if found is not None}
    if absent:
        volumeNode.SetAttribute(_ABSENT, json.dumps(absent))
    else:
        volumeNode.RemoveAttribute(_ABSENT)


def _fromValues(values: dict) -> FoundBox:
    return FoundBox(**{**values, "structure": canonical_name(values["structure"])})  # as in scenes of before


def coloursIn(scene) -> dict[str, Colour]:
    """The colour (red, green, blue, 0..1) of each structure that has a box in the scene."""
    found: dict[str, Colour] = {}
    for boxes in boxesByVolume(scene).values():
        for structure, box in boxes.items():
            if box.node.GetDisplayNode() is not None:
                found.setdefault(structure, box.node.GetDisplayNode().GetSelectedColor())
    return found


def freeColour(used: Collection[Colour]) -> Colour:
    """The first colour of the palette that is not used."""
    palette = (colorsys.hls_to_rgb((0.08 + n * _GOLDEN) % 1, (0.55, 0.68, 0.45)[n // 9 % 3], 0.85) for n in count())
    return next(colour for colour in palette if not any(np.allclose(colour, each, atol=0.01) for each in used))


def _shape(roiNode) -> list[float]:
    """The matrix (16 numbers) and size (3) of an ROI in its own coordinates, which a user may edit."""
    matrix = slicer.util.arrayFromVTKMatrix(roiNode.GetObjectToNodeMatrix())
    return [*matrix.ravel().tolist(), *roiNode.GetSize()]
