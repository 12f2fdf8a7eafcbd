"""Nodes that show lesions: a point list for each study, and a line for each axis in the studies that views show.

Reviewed lesions and confirmed axes are green. Unreviewed lesions and unconfirmed axes are amber.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

import vtk

from AnatomicalEmbedding.followup.lesions import PROPOSED, Axis, Point
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.status import ABSENT, UNCERTAIN, status_of

from ..landmarks.ControlPoints import definedIds, fromNode, makeIdsUnique
from ..shared.Colours import AMBER, GREEN, errorText
from ..shared.SceneNodes import nodesOf, removeNode
from .StudyNodes import VOLUME_ROLE, addStudyNode, followVolume

_LISTS = "vtkMRMLMarkupsFiducialNode"
_TIMES = " \u00d7 "
_LESIONS_ATTRIBUTE = "AnatomicalEmbedding.Lesions"  # attribute of the list: JSON, control point ID -> lesion id
_END_SIZE = 1.4  # size of a line's ends, percent of the view's size
_THICKNESS = 0.5  # relative to the size of an end; with MRML's default 0.2 the line is invisible in small views
_LINES = "vtkMRMLMarkupsLineNode"
_AXIS_ATTRIBUTE = "AnatomicalEmbedding.Axis"  # attribute of the line: JSON [lesion id, LONG or SHORT]


@dataclass(frozen=True)
class _Shown:
    """The point that shows a lesion in a study."""

    lesion: str
    label: str
    place: Point
    reviewed: bool
    text: str


class LesionPoints:
    """The point list `node` that shows the lesions of one study. `volumeNode` is the study's volume."""

    def __init__(self, node, volumeNode) -> None:
        self.node, self.volumeNode = node, volumeNode

    @classmethod
    def of(cls, scene, volumeNode) -> LesionPoints:
        """The point list that the scene has for a volume. If there is none, a new list is added."""
        for node in nodesOf(scene, _LISTS):
            if isLesionList(node) and node.GetNodeReference(VOLUME_ROLE) is volumeNode:
                return cls(node, volumeNode)
        node = addStudyNode(scene, _LISTS, f"Lesions in {volumeNode.GetName()}", volumeNode)
        node.SetAttribute(_LESIONS_ATTRIBUTE, "{}")
        display = node.GetDisplayNode()
        display.SetSelectedColor(*GREEN)
        display.SetColor(*AMBER)
        display.SetGlyphTypeFromString("Cross2D")  # a cross does not hide the lesion
        return cls(node, volumeNode)

    @staticmethod
    def removeLeftovers(scene) -> None:
        """Remove the point lists whose volumes were removed."""
        for node in nodesOf(scene, _LISTS):
            if isLesionList(node) and node.GetNodeReference(VOLUME_ROLE) is None:
                removeNode(scene, node)

    def show(self, record: FollowUp, study: str) -> None:
        """Set the points to the record's lesions in this study, and remove all other points."""
        followVolume(self.node, self.volumeNode)
        wanted = [shown for lesion in record.lesions if (shown := _shown(record, lesion.id, study)) is not None]
        before = self.node.StartModify()  # one event for all changes
        if list(self._lesions().values()) != [each.lesion for each in wanted]:
            self.node.RemoveAllControlPoints()
            for each in wanted:
                self.node.AddControlPoint(vtk.vtkVector3d(*each.place), each.label)
            makeIdsUnique(self.node)
            ids = {self.node.GetNthControlPointID(n): each.lesion for n, each in enumerate(wanted)}
            self.node.SetAttribute(_LESIONS_ATTRIBUTE, json.dumps(ids))
        for index, each in enumerate(wanted):
            if tuple(self.node.GetNthControlPointPosition(index)) != each.place:
                self.node.SetNthControlPointPosition(index, *each.place)
            self.node.SetNthControlPointLabel(index, each.label)
            self.node.SetNthControlPointDescription(index, each.text)
            self.node.SetNthControlPointSelected(index, each.reviewed)
            self.node.SetNthControlPointAssociatedNodeID(index, self.volumeNode.GetID())
        self.node.EndModify(before)

    def lesionAt(self, index: int) -> str:
        """The lesion id of a control point; "" for a point that the user added."""
        return self._lesions().get(self.node.GetNthControlPointID(index), "")

    def unknownPoints(self) -> list[Point]:
        """Places, in the RAS mm of the volume, of the points that the user has added to the list."""
        added = [pointId for pointId, lesion in self._lesions().items() if not lesion]
        return [tuple(float(x) for x in fromNode(self.node, pointId)) for pointId in added]

    def missing(self, record: FollowUp, study: str) -> list[str]:
        """Ids of the lesions whose points the user has deleted from the list."""
        here = set(self._lesions().values())
        return [each.id for each in record.lesions if each.id not in here and _shown(record, each.id, study)]

    def _lesions(self) -> dict[str, str]:
        """Lesion id by point ID, for the points that have a position; "" for points that the user added."""
        lesions = json.loads(self.node.GetAttribute(_LESIONS_ATTRIBUTE))
        return {pointId: lesions.get(pointId, "") for pointId in definedIds(self.node)}


def isLesionList(node) -> bool:
    """True if a point list shows lesions of a follow-up."""
    return node.GetAttribute(_LESIONS_ATTRIBUTE) is not None


def _shown(record: FollowUp, lesionId: str, study: str) -> _Shown | None:
    """The point to show for a lesion; None if the lesion has no place, or if its place is probably not in the scan."""
    found = record.finding(lesionId, study)
    status = status_of(record, lesionId, study)
    if found is None or found.point_ras is None or status == ABSENT:
        return None
    suffix = "" if found.reviewed else f" {UNCERTAIN if status == UNCERTAIN else PROPOSED}"
    if found.size.axes:
        suffix += f" {_TIMES.join(f'{math.dist(*axis):.1f}' for axis in found.size.axes.values())} mm"
    text = status
    if not found.reviewed and found.guess is not None and found.guess.error_mm is not None:
        text = f"{status}: {errorText(found.guess.error_mm)}"
    return _Shown(lesionId, record.lesion(lesionId).label + suffix, found.point_ras, found.reviewed, text)


@dataclass(frozen=True)
class AxisLine:
    """A line node that shows an axis of a lesion. kind: LONG or SHORT."""

    node: object
    volumeNode: object
    lesion: str
    kind: str

    @property
    def axis(self) -> Axis | None:
        """The ends of the line as they are now, in the RAS mm of the volume; None if an end was deleted."""
        if self.node.GetNumberOfDefinedControlPoints() != 2:
            return None
        one, other = (tuple(self.node.GetNthControlPointPosition(n)) for n in range(2))
        return one, other

    def show(self, axis: Axis, confirmed: bool) -> None:
        """Set the ends of the line, and its colour: green for a confirmed axis, otherwise amber."""
        followVolume(self.node, self.volumeNode)
        if self.axis != axis:
            self.node.RemoveAllControlPoints()
            for end in axis:
                self.node.AddControlPoint(vtk.vtkVector3d(*end))
        display, colour = self.node.GetDisplayNode(), GREEN if confirmed else AMBER
        display.SetColor(*colour)
        display.SetSelectedColor(*colour)
        display.SetPointLabelsVisibility(False)  # the label of the lesion's point states the lengths
        self.node.SetDescription("measured" if confirmed else "carried over, not accepted")


def axisLines(scene) -> list[AxisLine]:
    """All lines in the scene that show axes of lesions."""
    return [
        AxisLine(node, node.GetNodeReference(VOLUME_ROLE), *json.loads(node.GetAttribute(_AXIS_ATTRIBUTE)))
        for node in nodesOf(scene, _LINES)
        if node.GetAttribute(_AXIS_ATTRIBUTE) is not None
    ]


def showAxes(scene, record: FollowUp, volumes: Mapping[str, object]) -> list[AxisLine]:
    """Show lines for all axes in these volumes, and remove all other lines of axes. Returns the shown lines.

    volumes: volume nodes by study key.
    """
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
            lines[key] = _addLine(scene, *key)
        lines[key].show(axis, confirmed)
    return list(lines.values())


def _addLine(scene, volumeId: str, lesion: str, kind: str) -> AxisLine:
    volume = scene.GetNodeByID(volumeId)
    node = addStudyNode(scene, _LINES, f"{lesion} {kind}", volume)
    node.SetAttribute(_AXIS_ATTRIBUTE, json.dumps([lesion, kind]))
    node.GetMeasurement("length").SetPrintFormat("%.1f %s")
    display = node.GetDisplayNode()
    display.SetPropertiesLabelVisibility(False)  # MRML writes name and length across the lesion
    display.SetGlyphScale(_END_SIZE)  # small ends do not hide the lesion
    display.SetLineThickness(_THICKNESS)
    return AxisLine(node, volume, lesion, kind)
