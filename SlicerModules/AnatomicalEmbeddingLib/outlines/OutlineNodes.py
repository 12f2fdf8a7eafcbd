"""Outlines in the scene: segmentation nodes that know their scan, and what is known of each of their structures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from AnatomicalEmbedding.anatomy.names import canonical_name

from ..boxes.Segments import addSegment, extremesIn, segmentIds, segmentName
from ..boxes.StructureNames import readable
from ..shared import SceneNodes, Views
from ..shared.VolumeNodes import toWorld

if TYPE_CHECKING:
    from .OutlineFolder import OutlineFolder

VOLUME_ROLE = "AnatomicalEmbedding.OutlinedVolume"
_ATTRIBUTE = "AnatomicalEmbedding.Outlines"  # JSON: rows of the table of results
_COLOURLESS = (0.9, 0.7, 0.3)
ABSENT, CUT = "absent", "cut"


class Shape(NamedTuple):
    """A structure to be drawn. mask: (k, j, i) bool. toRas: (4, 4) voxel i, j, k -> the scan's own RAS mm. colour: red,
    green and blue, 0..1.
    """

    mask: np.ndarray
    toRas: np.ndarray
    title: str
    colour: Sequence[float]


@dataclass(frozen=True, eq=False)
class OutlineRow:
    """One structure of one scan. doubt: the larger, the sooner it deserves a look; None where the structure is absent.
    volumeMl: 0 there.
    """

    node: object
    volume: object
    structure: str
    status: str
    volumeMl: float
    doubt: float | None
    remark: str


def bringIn(
    scene, volumeNode, folder: OutlineFolder, name: str, looks: Mapping[str, tuple[str, Sequence[float]]]
) -> None:
    """Make a segmentation node of a scan's outlines, next to the scan; earlier ones of ours stay, and are hidden.

    name: of the scan's files. looks: name and colour of each structure. Nothing happens where the scene has them
    already. Raises AnatomicalEmbeddingError for a file that cannot be read.
    """
    from AnatomicalEmbedding.segmentation.files import read_segments

    rows, earlier = rowsText(folder.rows(name)), nodesOver(scene, volumeNode)
    if any(node.GetAttribute(_ATTRIBUTE) == rows for node in earlier):
        return
    labels = read_segments(folder.labels(name))
    for node in earlier:
        node.RemoveAttribute(_ATTRIBUTE)
        node.GetDisplayNode().SetVisibility(False)

    def shape(structure: str) -> Shape:
        title, colour = looks.get(structure, (readable(structure), _COLOURLESS))
        return Shape(labels.voxels == labels.values[structure], labels.ijk_to_ras, title, colour)

    inOrder = sorted(labels.values, key=[*looks, *labels.values].index)  # that of the examples
    draw(scene, volumeNode, rows, map(shape, inOrder))


def draw(scene, volumeNode, rows: str, shapes: Iterable[Shape]):
    """A new segmentation node next to a scan, in that scan's views alone; shapes without voxels are left out.

    rows: as `rowsText` gives them.
    """
    node = scene.AddNewNodeByClass(
        "vtkMRMLSegmentationNode", SceneNodes.freeName(scene, f"{volumeNode.GetName()} outlined")
    )
    node.CreateDefaultDisplayNodes()
    node.SetNodeReferenceID(VOLUME_ROLE, volumeNode.GetID())
    node.SetReferenceImageGeometryParameterFromVolumeNode(volumeNode)
    node.SetAndObserveTransformNodeID(volumeNode.GetTransformNodeID())
    for shape in shapes:
        if shape.mask.any():
            addSegment(node, *shape)
    node.SetAttribute(_ATTRIBUTE, rows)
    SceneNodes.placeNextTo(scene, node, volumeNode)
    Views.showOnlyIn(node.GetDisplayNode(), scene, volumeNode)
    return node


def rowsText(rows: Iterable[Mapping[str, object]]) -> str:
    """What a node keeps of its scan's rows in the table of results (`AnatomicalEmbedding.segmentation.table`)."""
    return json.dumps([{key: str(value) for key, value in row.items() if key != "look"} for row in rows])


def rowsIn(scene) -> list[OutlineRow]:
    """What is known of all outlines, the one that most deserves a look first, absent structures last."""
    found = [row for node in _nodes(scene) for row in _rowsOf(node)]
    return sorted(found, key=lambda row: (row.doubt is None, -(row.doubt or 0.0)))


def nodesOver(scene, volumeNode) -> list:
    """The outlines of a scan."""
    return [node for node in _nodes(scene) if node.GetNodeReference(VOLUME_ROLE) is volumeNode]


def jumpTo(scene, row: OutlineRow) -> None:
    """Centre the views of a scan on a structure; a scan that no view shows is shown in all."""
    if not Views.viewsOf(scene, row.volume):
        Views.show(scene, row.volume)
    for segmentId in segmentIds(row.node):
        if canonical_name(segmentName(row.node, segmentId)) == row.structure:
            found = extremesIn(row.volume, row.node, segmentId)
            if found is not None:
                Views.jump(scene, row.volume, toWorld(row.volume, [found[0].mean(axis=0)])[0])


def _nodes(scene) -> list:
    return [node for node in SceneNodes.nodesOf(scene, "vtkMRMLSegmentationNode") if node.GetAttribute(_ATTRIBUTE)]


def _rowsOf(node) -> list[OutlineRow]:
    volume = node.GetNodeReference(VOLUME_ROLE)
    if volume is None:
        return []
    try:
        return [
            OutlineRow(
                node, volume, canonical_name(row["structure"]), row["status"], float(row["volume_ml"]),
                None if row["status"] == ABSENT else float(row.get("doubt") or "-inf"),  # scenes of earlier versions
                row["remark"],
            )
            for row in json.loads(node.GetAttribute(_ATTRIBUTE))
        ]  # fmt: skip
    except (ValueError, KeyError, TypeError):  # changed by hand
        return []
