"""The axes of lesions as line nodes of the scene, in the studies that are shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import vtk

from AnatomicalEmbedding.followup.lesions import Axis
from AnatomicalEmbedding.followup.record import FollowUp

from ..shared.Colours import AMBER, GREEN
from ..shared.SceneNodes import nodesOf, removeNode
from .StudyNodes import VOLUME_ROLE, addStudyNode, followVolume

_END_SIZE = 1.4  # percent of the view
_THICKNESS = 0.5  # of an end: MRML's fifth is less than a pixel in a small view, and nothing is drawn
_CLASS = "vtkMRMLMarkupsLineNode"
_ATTRIBUTE = "AnatomicalEmbedding.Axis"  # of the line: JSON [lesion, LONG or SHORT]


@dataclass(frozen=True)
class AxisLine:
    """A line of the scene, and the axis that it shows."""

    node: object
    volumeNode: object
    lesion: str
    kind: str

    @property
    def axis(self) -> Axis | None:
        """Its ends in the scene, in the RAS mm of the volume; None where an end was deleted."""
        if self.node.GetNumberOfDefinedControlPoints() != 2:
            return None
        one, other = (tuple(self.node.GetNthControlPointPosition(n)) for n in range(2))
        return one, other

    def show(self, axis: Axis, confirmed: bool) -> None:
        """Set the ends, and the colour: green for a confirmed axis, amber for another."""
        followVolume(self.node, self.volumeNode)
        if self.axis != axis:
            self.node.RemoveAllControlPoints()
            for end in axis:
                self.node.AddControlPoint(vtk.vtkVector3d(*end))
        display, colour = self.node.GetDisplayNode(), GREEN if confirmed else AMBER
        display.SetColor(*colour)
        display.SetSelectedColor(*colour)
        display.SetPointLabelsVisibility(False)  # the lesion's own label states the lengths
        self.node.SetDescription("measured" if confirmed else "carried over, not accepted")


def axisLines(scene) -> list[AxisLine]:
    """All lines that show axes."""
    return [
        AxisLine(node, node.GetNodeReference(VOLUME_ROLE), *json.loads(node.GetAttribute(_ATTRIBUTE)))
        for node in nodesOf(scene, _CLASS)
        if node.GetAttribute(_ATTRIBUTE) is not None
    ]


def showAxes(scene, record: FollowUp, volumes: Mapping[str, object]) -> list[AxisLine]:
    """Show the axes in these volumes, by study key, and remove all other lines. Returns the lines."""
    wanted = {
        (volume.GetID(), lesion.id, kind): (axis, lesion.findings[study].size.confirmed)
        for study, volume in volumes.items()
        for lesion in record.lesions
        if study in lesion.findings
        for kind, axis in lesion.findings[study].size.axes.items()
    }
    lines = {}
    for line in axisLines(scene):
        key = (line.volumeNode.GetID() if line.volumeNode is not None else "", line.lesion, line.kind)
        if key in wanted and key not in lines:
            lines[key] = line
        else:
            removeNode(scene, line.node)
    for key, (axis, confirmed) in wanted.items():
        if key not in lines:
            lines[key] = _add(scene, *key)
        lines[key].show(axis, confirmed)
    return list(lines.values())


def _add(scene, volumeId: str, lesion: str, kind: str) -> AxisLine:
    volume = scene.GetNodeByID(volumeId)
    node = addStudyNode(scene, _CLASS, f"{lesion} {kind}", volume)
    node.SetAttribute(_ATTRIBUTE, json.dumps([lesion, kind]))
    node.GetMeasurement("length").SetPrintFormat("%.1f %s")
    display = node.GetDisplayNode()
    display.SetPropertiesLabelVisibility(False)  # MRML writes name and length across the lesion
    display.SetGlyphScale(_END_SIZE)  # the lesion below stays in sight
    display.SetLineThickness(_THICKNESS)
    return AxisLine(node, volume, lesion, kind)
