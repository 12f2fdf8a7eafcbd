"""A user's own examples of structures. They are stored on nodes of the scene, so a saved scene contains them.

A box (ROI) or a segment marks a structure in one volume. The node of the box or segment has a reference to the volume
and an attribute with the names of structures. The position is read at each use, so the user may move the box later.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import vtk

from AnatomicalEmbedding.anatomy.names import canonical_name, spelling_key
from AnatomicalEmbedding.errors import PointsError

from ..shared import Views
from ..shared.SceneNodes import nodesOf
from ..shared.Signal import Listener, Signal
from ..shared.VolumeNodes import holds
from .BoxNodes import boxIn, isDrawn
from .Segments import extremesIn, segmentIds, segmentName

BOX = "box"
SEGMENT = "segment"
_KINDS = {"vtkMRMLMarkupsROINode": BOX, "vtkMRMLSegmentationNode": SEGMENT}
VOLUME_ROLE = "AnatomicalEmbedding.ExampleVolume"
_ATTRIBUTE = "AnatomicalEmbedding.Examples"  # JSON: segment ID ("" for an ROI) -> structure name


@dataclass(frozen=True, eq=False)
class MarkedExample:
    """The mark of one structure in a volume: an ROI node, or one segment of a segmentation node."""

    structure: str
    node: object
    volumeNode: object
    segmentId: str = ""

    @property
    def kind(self) -> str:
        return _KINDS[self.node.GetClassName()]

    @property
    def name(self) -> str:
        """Display name of the segment or of the ROI node."""
        if self.kind == SEGMENT:
            return segmentName(self.node, self.segmentId)
        return self.node.GetName()

    def read(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return (box, positions). box: the current box of the structure, (2, 3) in the volume's own RAS mm. positions:
        (6, 3), mean position of a segment's voxels at each side of the box; None for an ROI. Raises PointsError if the
        node is empty or was removed.
        """
        if self.node.GetScene() is None:
            raise PointsError(
                f"{self.name}: this example was removed from the scene; mark {self.structure} again."
            )
        if self.kind == SEGMENT:
            boxAndExtremes = extremesIn(self.volumeNode, self.node, self.segmentId)
            if boxAndExtremes is None:
                raise PointsError(
                    f"{self.name or self.node.GetName()}: is empty; segment the structure first."
                )
            box, extremes = boxAndExtremes
        elif isDrawn(self.node):
            box = boxIn(self.volumeNode, self.node)
            extremes = None
        else:
            raise PointsError(
                f"{self.name}: this box is not drawn yet; draw the box around the structure."
            )
        if not holds(self.volumeNode, box.mean(axis=0, keepdims=True))[0]:
            raise PointsError(
                f"{self.name}: lies outside {self.volumeNode.GetName()}; choose the scan in which you drew {self.name}."
            )
        return box, extremes


class StructureExamples(Listener):
    """The examples of a scene. Signal changed(): emitted after an example was added or removed, and after a node that
    may belong to an example was removed from the scene.
    """

    def __init__(self, scene) -> None:
        self.scene = scene
        self.changed = Signal()
        self.observe(scene, scene.NodeRemovedEvent, self._onRemoved)

    def all(self) -> list[MarkedExample]:
        """Return all examples whose volume and segment exist, sorted by structure, then in the order of the scene."""
        examples = []
        nodes = [node for className in _KINDS for node in nodesOf(self.scene, className)]
        for node in nodes:
            volumeNode = node.GetNodeReference(VOLUME_ROLE)
            for segmentId, structure in _namesOn(node).items():
                example = MarkedExample(structure, node, volumeNode, segmentId)
                # a removed segment has no name
                if volumeNode is not None and (example.kind == BOX or example.name):
                    examples.append(example)
        return sorted(examples, key=lambda example: example.structure)

    def of(self, structures: Sequence[str]) -> list[MarkedExample]:
        """Return the examples of these structures, in the order of `all`."""
        return [example for example in self.all() if example.structure in structures]

    def add(self, structure: str, node, volumeNode, segmentId: str = "") -> MarkedExample:
        """Make an ROI or segment the example of a structure in a volume, and of no other structure.

        Args:
            structure: name of the structure.
            node: the ROI node or segmentation node.
            volumeNode: the volume.
            segmentId: ID of the segment; "" for an ROI.

        Raises:
            PointsError: node, volume, segment or name is missing, or the ROI or segment is empty or outside the volume.
        """
        if node is None or volumeNode is None or node.GetClassName() not in _KINDS:
            raise PointsError(
                "The example is incomplete; choose a scan, and the box or segment that marks the structure."
            )
        if not spelling_key(structure):
            raise PointsError(
                f"{node.GetName()}: the structure has no name; give the structure a name, such as liver."
            )
        example = MarkedExample(canonical_name(structure), node, volumeNode, segmentId)
        if example.kind == SEGMENT and not example.name:
            raise PointsError(
                f"{node.GetName()}: no segment is chosen; choose one of its segments."
            )
        example.read()
        node.SetNodeReferenceID(VOLUME_ROLE, volumeNode.GetID())
        node.SetAttribute(_ATTRIBUTE, json.dumps({**_namesOn(node), segmentId: example.structure}))
        Views.showOnlyIn(node.GetDisplayNode(), self.scene, volumeNode)
        self.changed.emit()
        return example

    def addSegments(self, node, volumeNode) -> tuple[list[MarkedExample], list[str]]:
        """Add each segment of a node as an example of the structure that has the same name as the segment.

        Returns the examples, and an error message for each segment that could not be added.
        """
        added = []
        refused = []
        for segmentId in segmentIds(node):
            try:
                added.append(self.add(segmentName(node, segmentId), node, volumeNode, segmentId))
            except PointsError as error:
                refused.append(str(error))
        return added, refused

    def remove(self, example: MarkedExample) -> None:
        """Remove an example. Its node stays in the scene."""
        names = _namesOn(example.node)
        names.pop(example.segmentId, None)
        example.node.SetAttribute(_ATTRIBUTE, json.dumps(names) if names else None)
        if not names:
            example.node.RemoveNodeReferenceIDs(VOLUME_ROLE)
        self.changed.emit()

    @vtk.calldata_type(vtk.VTK_OBJECT)
    def _onRemoved(self, caller, event: str, node=None) -> None:
        if node is None:
            return
        if node.GetClassName() in _KINDS or node.IsA("vtkMRMLScalarVolumeNode"):
            self.changed.emit()


def _namesOn(node) -> dict[str, str]:
    """Return segment ID -> structure of the examples on a node. The ID is "" for an ROI."""
    stored = json.loads(node.GetAttribute(_ATTRIBUTE) or "{}")
    return {segmentId: canonical_name(structure) for segmentId, structure in stored.items()}
