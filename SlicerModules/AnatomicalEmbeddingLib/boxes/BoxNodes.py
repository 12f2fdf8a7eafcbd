"""Found boxes in the scene: one ROI node for each structure and volume. The node also stores the answer of the search.

A box is (2, 3): the lowest and the highest corner in the volume's own RAS mm, before the volume's parent transform is
applied. The ROI has the same parent transform as the volume, so it stays on the structure when the volume is moved.
A structure that is absent from the scan has no ROI; the volume node stores the answer.
"""

from __future__ import annotations

import colorsys
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count, product

import numpy as np
import slicer.util
from slicer.util import NodeModify

from AnatomicalEmbedding.scan.geometry import transform_points

from ..shared import SceneNodes, Views
from ..shared.SceneNodes import nodesOf
from ..shared.VolumeNodes import fromWorld, ijkToRas, toWorld
from .StructureNames import readable

WHOLE = "whole"
CUT = "cut"
ABSENT = "absent"
UNCERTAIN = "uncertain"
VOLUME_ROLE = "AnatomicalEmbedding.Volume"
STRUCTURE = "AnatomicalEmbedding.Structure"
_FOUND = "AnatomicalEmbedding.Box"
_WRITTEN = "AnatomicalEmbedding.BoxWritten"
_ABSENT = "AnatomicalEmbedding.Absent"
_CLASS = "vtkMRMLMarkupsROINode"
_EDITED_MM = 1e-3  # smaller changes are MRML's rounding
Colour = tuple[float, float, float]
_CORNERS = np.array(list(product((-0.5, 0.5), repeat=3)))  # (8, 3), of a box of size 1 about 0
_GOLDEN = 0.618033988749895  # golden ratio: hues that are multiples of this number differ clearly
_COLOUR_STEP = 0.01  # colours whose red, green and blue differ by less are the same colour


@dataclass(frozen=True)
class FoundBox:
    """The answer of a search for a structure in a volume.

    status: WHOLE, CUT, ABSENT, or UNCERTAIN (perhaps cut). recall: fraction of the structure that the box should
    contain. present: fraction of the structure's points that the scan shows. sigmaMm: likely error of each side, mm.
    cut: names of the sides that lie outside the scan. byOwn: True if found with the user's own examples. madeFrom: key
    of the weights and the scan. times: volume of the box / volume before its enlargement; 0 if unknown.
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
        """The answer as a phrase for tool tips."""
        source = "found with your examples" if self.byOwn else "found with the library"
        if self.status == ABSENT:
            return f"absent: this scan does not seem to show the structure ({source})"
        status = self.status
        if status == UNCERTAIN:
            status += ": perhaps cut by the edge of the scan, perhaps in another place"
        where = f", outside the scan at its {' and '.join(self.cut)} side" if self.cut else ""
        error = f"likely error of a side {max(self.sigmaMm):.0f} mm"
        remarks = "".join(f"; {remark}" for remark in self.remarks)
        size = f" to {self.times:.1f} times its volume" if self.times else ""
        return f"{status}{where}; box enlarged{size} for a recall of {self.recall:g}, {error} ({source}){remarks}"


class BoxNode:
    """A found box, stored on the ROI node `node`."""

    def __init__(self, node) -> None:
        self.node = node

    @classmethod
    def create(cls, scene, structure: str, volumeNode, colour: Colour) -> BoxNode:
        """Add an empty ROI node for a structure of a volume.

        Args:
            scene: the scene.
            structure: name of the structure.
            volumeNode: the volume in which the box lies.
            colour: red, green and blue, 0 to 1.
        """
        name = SceneNodes.freeName(scene, f"{readable(structure)} in {volumeNode.GetName()}")
        with Views.keepingPlaceNode(scene):
            node = scene.AddNewNodeByClass(_CLASS, name)
        node.SetNodeReferenceID(VOLUME_ROLE, volumeNode.GetID())
        node.SetAttribute(STRUCTURE, structure)
        node.CreateDefaultDisplayNodes()
        display = node.GetDisplayNode()
        display.SetSelectedColor(*colour)
        display.SetColor(*colour)
        display.SetFillVisibility(False)  # a filled box looks like a segmentation
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
        """The found box, as `write` stored it with this node. None if `write` was never called for this node."""
        text = self.node.GetAttribute(_FOUND)
        return FoundBox(**json.loads(text)) if text else None

    @property
    def box(self) -> np.ndarray:
        """The ROI's current box, (2, 3) in the volume's own RAS mm."""
        return boxIn(self.volumeNode, self.node)

    @property
    def edited(self) -> bool:
        """True if the ROI was changed after `write`, or if `write` was never called for this node."""
        text = self.node.GetAttribute(_WRITTEN)
        if not text:
            return True
        written = json.loads(text)
        moved = np.abs(np.array(_shape(self.node)) - written["shape"]).max() > _EDITED_MM
        elsewhere = self.node.GetTransformNodeID() != self.volumeNode.GetTransformNodeID()
        # if the volume got another grid, `follow` has left the ROI at its place
        return bool(moved or (elsewhere and self._sameGrid(written)))

    def write(self, box: np.ndarray, answer: FoundBox) -> None:
        """Set the ROI to a box (2, 3) in the volume's own RAS mm, and store the answer of the search on the node."""
        node = self.node
        volume = self.volumeNode
        matrix = np.eye(4)
        matrix[:3, 3] = box.mean(axis=0)
        grid = np.round(ijkToRas(volume), 6).ravel().tolist()
        with NodeModify(node):
            node.SetAndObserveTransformNodeID(volume.GetTransformNodeID())
            node.SetAndObserveObjectToNodeMatrix(slicer.util.vtkMatrixFromArray(matrix))
            node.SetSize(*(box[1] - box[0]))
            node.SetAttribute(_FOUND, json.dumps(asdict(answer)))
            node.SetAttribute(_WRITTEN, json.dumps({"shape": _shape(node), "grid": grid}))
            node.SetNthControlPointLabel(0, readable(answer.structure))
            # not the description of the node, which MRML overwrites
            node.SetNthControlPointDescription(0, answer.text)

    def follow(self, transformId: str | None) -> None:
        """Set the parent transform of the ROI to `transformId`, the new parent transform of its volume.

        If the IJK-to-RAS matrix of the volume has changed since `write`, the ROI keeps its old parent transform.
        """
        text = self.node.GetAttribute(_WRITTEN)
        if text and self._sameGrid(json.loads(text)):
            self.node.SetAndObserveTransformNodeID(transformId)

    def setInteractive(self, on: bool) -> None:
        """Show or hide the handles for the mouse. If all boxes had handles, they would cover the scan."""
        display = self.node.GetDisplayNode()
        if display is not None and bool(display.GetHandlesInteractive()) != on:
            display.SetHandlesInteractive(on)

    def _sameGrid(self, written: dict) -> bool:
        """Return True if the volume has the IJK-to-RAS matrix that it had when `write` stored `written`."""
        return bool(np.allclose(written["grid"], ijkToRas(self.volumeNode).ravel(), atol=1e-5))


def isDrawn(roiNode) -> bool:
    """True if the ROI has a position and a size."""
    return roiNode.GetNumberOfControlPoints() > 0 and min(roiNode.GetSize()) > 0


def boxIn(volumeNode, roiNode) -> np.ndarray:
    """Return the smallest box around an ROI, which may be rotated. The box is (2, 3) in the volume's own RAS mm."""
    corners = cornersOf(roiNode, roiNode.GetObjectToNodeMatrix())
    isWithVolume = roiNode.GetParentTransformNode() is volumeNode.GetParentTransformNode()
    inVolume = corners if isWithVolume else fromWorld(volumeNode, toWorld(roiNode, corners))
    return np.stack([inVolume.min(axis=0), inVolume.max(axis=0)])


def cornersOf(roiNode, toMm) -> np.ndarray:
    """Return the corners (8, 3) of an ROI in mm. toMm: its VTK matrix from the ROI's axes to these mm."""
    return transform_points(slicer.util.arrayFromVTKMatrix(toMm), _CORNERS * roiNode.GetSize())


def boxesIn(scene, volumeNode) -> dict[str, BoxNode]:
    """Return the found boxes of one volume, by structure name."""
    return boxesByVolume(scene).get(volumeNode.GetID(), {})


def boxesByVolume(scene) -> dict[str, dict[str, BoxNode]]:
    """Return all found boxes, by volume ID and structure name. ROIs without a volume or a size are left out."""
    boxes: dict[str, dict[str, BoxNode]] = {}
    for node in nodesOf(scene, _CLASS):
        structure = node.GetAttribute(STRUCTURE)
        volume = node.GetNodeReference(VOLUME_ROLE)
        if structure and volume is not None and isDrawn(node):
            volumeBoxes = boxes.setdefault(volume.GetID(), {})
            # the first ROI of a structure stays: a later ROI of the same structure is a copy that the user made
            volumeBoxes.setdefault(structure, BoxNode(node))
    return boxes


def absentIn(volumeNode) -> dict[str, FoundBox]:
    """Return the answers about structures that the volume does not show, by structure name."""
    absent = json.loads(volumeNode.GetAttribute(_ABSENT) or "{}")
    return {name: FoundBox(**values) for name, values in absent.items()}


def keepAbsent(volumeNode, changes: Mapping[str, FoundBox | None]) -> None:
    """Store answers about absent structures on the volume node. The value None removes the answer of a structure."""
    answers = absentIn(volumeNode) | changes
    absent = {name: asdict(answer) for name, answer in answers.items() if answer is not None}
    if absent:
        volumeNode.SetAttribute(_ABSENT, json.dumps(absent))
    else:
        volumeNode.RemoveAttribute(_ABSENT)


def coloursIn(scene) -> dict[str, Colour]:
    """Return the colour (red, green, blue, 0 to 1) of each structure that has a box in the scene."""
    colours: dict[str, Colour] = {}
    for boxes in boxesByVolume(scene).values():
        for structure, box in boxes.items():
            if box.node.GetDisplayNode() is not None:
                colours.setdefault(structure, box.node.GetDisplayNode().GetSelectedColor())
    return colours


def freeColour(used: Collection[Colour]) -> Colour:
    """Return the first colour of the palette that is not among the `used` colours."""
    return next(
        colour
        for colour in _palette()
        if not any(np.abs(np.subtract(colour, c)).max() < _COLOUR_STEP for c in used)
    )


def _palette() -> Iterator[Colour]:
    """Yield colours without end. Colours near to each other in the sequence differ clearly."""
    for n in count():
        # 0.17 to 1.04: without amber, which means "uncertain"
        hue = (0.17 + 0.87 * ((0.5 + n * _GOLDEN) % 1)) % 1
        lightness = (0.55, 0.68, 0.45)[n // 9 % 3]  # changes after every nine hues
        yield colorsys.hls_to_rgb(hue, lightness, 0.85)


def _shape(roiNode) -> list[float]:
    """Return the matrix (16 numbers) and the size (3 numbers) of an ROI. Each edit changes at least one number."""
    matrix = slicer.util.arrayFromVTKMatrix(roiNode.GetObjectToNodeMatrix())
    return [*matrix.ravel().tolist(), *roiNode.GetSize()]
