"""Segmentation nodes of examples and of outlines. A node of outlines also stores the scan's rows of the table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import slicer

from AnatomicalEmbedding.anatomy.names import canonical_name
from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.scan.label_map import LabelMap

from ..boxes.Segments import addSegment, extremesIn, maskIn, segmentIds, segmentName
from ..boxes.StructureNames import readable
from ..shared import SceneNodes, Views
from ..shared.VolumeNodes import hasVoxels, ijkToRas

if TYPE_CHECKING:
    from .OutlineFolder import OutlineFolder

VOLUME_ROLE = "AnatomicalEmbedding.OutlinedVolume"
_ROWS = "AnatomicalEmbedding.Outlines"  # node attribute: JSON of the rows of results
_COLOURLESS = (0.9, 0.7, 0.3)  # of a structure for which no colour is known; by eye
ABSENT = "absent"
CUT = "cut"
Colour = tuple[float, float, float]


def outlinedScans(segmentations: Sequence) -> list[tuple]:
    """Return (volume, segmentation) for each example. volume: the scan on which the segmentation was drawn.

    Raises PointsError if a segmentation has no scan, or if two segmentations have the same scan.
    """
    scans: dict[str, tuple] = {}
    for node in segmentations:
        volume = node.GetNodeReference(
            slicer.vtkMRMLSegmentationNode.GetReferenceImageGeometryReferenceRole()
        )
        if volume is None or not hasVoxels(volume):
            raise PointsError(
                f"{node.GetName()}: the scan of this segmentation is not known; choose the scan as source volume in "
                "the Segment Editor."
            )
        if volume.GetID() in scans:
            otherName = scans[volume.GetID()][1].GetName()
            raise PointsError(
                f"{node.GetName()}: outlines the same scan as {otherName}; untick one segmentation."
            )
        scans[volume.GetID()] = volume, node
    return list(scans.values())


def labelsOf(volume, segmentation) -> LabelMap:
    """Return the segments on the voxel grid of the volume, with the names that the user gave them.

    Segments with spellings of one name, such as "Liver" and "liver", are joined. Raises PointsError if no segment has
    voxels in the volume.
    """
    masks: dict[str, np.ndarray] = {}
    texts: dict[str, str] = {}
    for segmentId in segmentIds(segmentation):
        mask = maskIn(volume, segmentation, segmentId)
        if mask is not None and mask.any():
            text = segmentName(segmentation, segmentId)
            text = texts.setdefault(canonical_name(text), text)  # the first spelling
            masks[text] = mask | masks.get(text, False)
    if not masks:
        raise PointsError(
            f"{segmentation.GetName()}: has no voxels in {volume.GetName()}; segment this scan first."
        )
    return LabelMap.from_masks(
        masks.items(), volume.GetImageData().GetDimensions()[::-1], ijkToRas(volume)
    )


def titlesAndColours(segmentations: Sequence) -> dict[str, tuple[str, Colour]]:
    """Return structure -> (name, colour) of the first segment of this structure, for its outlines."""
    looks: dict[str, tuple[str, Colour]] = {}
    for node in segmentations:
        for segmentId in segmentIds(node):
            segment = node.GetSegmentation().GetSegment(segmentId)
            name = segment.GetName()
            looks.setdefault(canonical_name(name), (name, tuple(segment.GetColor())))
    return looks


@dataclass(frozen=True, eq=False)
class OutlineRow:
    """One structure in one scan. node: segmentation node with the outline. volume: volume node of the scan. structure:
    its name as the user wrote it.

    doubt: larger for a less certain outline; None if the structure is absent.
    """

    node: object
    volume: object
    structure: str
    status: str
    volumeMl: float
    doubt: float | None
    remark: str


def addOutlines(
    scene, volumeNode, folder: OutlineFolder, name: str, looks: Mapping[str, tuple[str, Colour]]
) -> None:
    """Add a segmentation node with the outlines of a scan, and hide the scan's earlier outlines.

    If the scene has the same outlines already, nothing is added.

    Args:
        scene: the scene.
        volumeNode: the scan.
        folder: the folder with the files.
        name: file name of the scan without ending.
        looks: structure -> (title, colour).

    Raises:
        AnatomicalEmbeddingError: the file of the outlines is damaged.
    """
    from AnatomicalEmbedding.structures.segments import read_segments

    results = [dict(row) for row in folder.table()[name]]
    for row in results:
        # its rank changes with every other outline of the run, the result itself does not
        row.pop("look", None)
    rows = json.dumps(results)
    earlier = [
        node for node in _outlines(scene) if node.GetNodeReference(VOLUME_ROLE) is volumeNode
    ]
    if any(node.GetAttribute(_ROWS) == rows for node in earlier):
        return
    labels = read_segments(folder.labels(name))
    for node in earlier:
        node.RemoveAttribute(_ROWS)  # so the table lists the new outlines alone
        node.GetDisplayNode().SetVisibility(False)
    node = _newNode(scene, volumeNode)
    # first the structures of the examples, in their order
    for structure in dict.fromkeys([*looks, *labels.values]):
        if structure in labels.values and labels.mask(structure).any():
            title, colour = looks.get(structure, (readable(structure), _COLOURLESS))
            addSegment(node, labels.mask(structure), labels.ijk_to_ras, title, colour)
    node.SetAttribute(_ROWS, rows)
    SceneNodes.placeNextTo(scene, node, volumeNode)
    Views.showOnlyIn(node.GetDisplayNode(), scene, volumeNode)


def _newNode(scene, volumeNode):
    """Add an empty segmentation node on the voxels of a scan."""
    title = SceneNodes.freeName(scene, f"{volumeNode.GetName()} outlined")
    node = scene.AddNewNodeByClass("vtkMRMLSegmentationNode", title)
    node.CreateDefaultDisplayNodes()
    node.SetNodeReferenceID(VOLUME_ROLE, volumeNode.GetID())
    node.SetReferenceImageGeometryParameterFromVolumeNode(volumeNode)
    node.SetAndObserveTransformNodeID(volumeNode.GetTransformNodeID())
    return node


def rowsIn(scene) -> list[OutlineRow]:
    """Return the rows of all outlines in the scene: the least certain outlines first, absent structures last."""
    present = []
    absent = []
    for node in _outlines(scene):
        volume = node.GetNodeReference(VOLUME_ROLE)
        if volume is None:
            continue
        for row in json.loads(node.GetAttribute(_ROWS)):
            look = (node, volume, row["structure"], row["status"], float(row["volume_ml"]))
            if row["status"] == ABSENT:
                absent.append(OutlineRow(*look, None, row["remark"]))
            else:
                present.append(OutlineRow(*look, float(row["doubt"]), row["remark"]))
    return sorted(present, key=lambda row: row.doubt, reverse=True) + absent


def jumpTo(scene, row: OutlineRow) -> None:
    """Centre the views of a scan on a structure. If no view shows the scan, show it in all views first."""
    if not Views.viewsOf(scene, row.volume):
        Views.show(scene, row.volume)
    structure = canonical_name(row.structure)
    for segmentId in segmentIds(row.node):
        if canonical_name(segmentName(row.node, segmentId)) == structure:
            boxAndExtremes = extremesIn(row.volume, row.node, segmentId)
            if boxAndExtremes is not None:
                Views.showBox(scene, row.volume, boxAndExtremes[0])


def _outlines(scene) -> list:
    """Return the segmentation nodes with the newest outlines of a scan."""
    return [
        node
        for node in SceneNodes.nodesOf(scene, "vtkMRMLSegmentationNode")
        if node.GetAttribute(_ROWS)
    ]
