"""The nodes that show lesions: a point list for each study, and a line for each axis in the studies that views show.

A point is green if a person has reviewed the lesion in this study, otherwise amber. An axis is green if a person has
confirmed the lesion's size, otherwise amber.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

import vtk

from AnatomicalEmbedding.followup.lesions import PROPOSED, Axis, Finding, Lesion, Point
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.status import ABSENT, UNCERTAIN, status_of

from ..landmarks.ControlPoints import definedIds, fromNode, makeIdsUnique
from ..shared.Colours import AMBER, GREEN, errorText
from ..shared.SceneNodes import nodesOf, removeNode
from ..shared.VolumeNodes import followVolume
from .StudyNodes import VOLUME_ROLE, addStudyNode

_LISTS = "vtkMRMLMarkupsFiducialNode"
_TIMES = " \u00d7 "
# list attribute: JSON of control point ID -> lesion id
_LESIONS_ATTRIBUTE = "AnatomicalEmbedding.Lesions"
_END_SIZE = 1.4  # size of the points at the ends of an axis, percent of the view's size
# fraction of the size of an end; at MRML's default, 0.2, small views do not draw the line
_THICKNESS = 0.5
_LINES = "vtkMRMLMarkupsLineNode"
_AXIS_ATTRIBUTE = "AnatomicalEmbedding.Axis"  # line attribute: JSON of [lesion id, LONG or SHORT]


class LesionPoints:
    """The point list `node` with the lesions of one study. volumeNode: the volume of the study."""

    def __init__(self, node, volumeNode) -> None:
        self.node = node
        self.volumeNode = volumeNode

    @classmethod
    def of(cls, scene, volumeNode) -> LesionPoints:
        """Return the point list of a volume. If the scene has no point list for this volume, add one."""
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
        """Remove each point list whose volume is no longer in the scene."""
        for node in nodesOf(scene, _LISTS):
            if isLesionList(node) and node.GetNodeReference(VOLUME_ROLE) is None:
                removeNode(scene, node)

    def show(self, record: FollowUp, study: str) -> None:
        """Show a point at each lesion of the record in this study, and remove all other points."""
        node = self.node
        followVolume(self.node, self.volumeNode)
        lesions = _lesionsShown(record, study)
        before = node.StartModify()  # the node then emits one event for all changes
        if list(self._lesions().values()) != [lesion.id for lesion in lesions]:
            node.RemoveAllControlPoints()
            for lesion in lesions:
                node.AddControlPoint(
                    vtk.vtkVector3d(*lesion.findings[study].point_ras), lesion.label
                )
            makeIdsUnique(self.node)
            ids = {node.GetNthControlPointID(n): lesion.id for n, lesion in enumerate(lesions)}
            node.SetAttribute(_LESIONS_ATTRIBUTE, json.dumps(ids))
        for index, lesion in enumerate(lesions):
            finding = lesion.findings[study]
            if tuple(node.GetNthControlPointPosition(index)) != finding.point_ras:
                node.SetNthControlPointPosition(index, *finding.point_ras)
            label, description = _texts(lesion, finding, status_of(record, lesion.id, study))
            node.SetNthControlPointLabel(index, label)
            node.SetNthControlPointDescription(index, description)
            node.SetNthControlPointSelected(index, finding.reviewed)
            node.SetNthControlPointAssociatedNodeID(index, self.volumeNode.GetID())
        node.EndModify(before)

    def lesionAt(self, index: int) -> str:
        """Return the lesion id of a control point; "" for a point that the user added."""
        return self._lesions().get(self.node.GetNthControlPointID(index), "")

    def unknownPoints(self) -> list[Point]:
        """Return the places of the points that the user added to the list, in the RAS mm of the volume."""
        added = [pointId for pointId, lesion in self._lesions().items() if not lesion]
        return [tuple(float(x) for x in fromNode(self.node, pointId)) for pointId in added]

    def missing(self, record: FollowUp, study: str) -> list[str]:
        """Return the ids of the lesions whose points the user deleted from the list."""
        present = set(self._lesions().values())
        return [lesion.id for lesion in _lesionsShown(record, study) if lesion.id not in present]

    def _lesions(self) -> dict[str, str]:
        """Return {point ID: lesion id} of all points with a position. The id is "" if the user added the point."""
        lesions = json.loads(self.node.GetAttribute(_LESIONS_ATTRIBUTE))
        return {pointId: lesions.get(pointId, "") for pointId in definedIds(self.node)}


def isLesionList(node) -> bool:
    """Return True if a point list was made by the follow-up to show lesions."""
    return node.GetAttribute(_LESIONS_ATTRIBUTE) is not None


def _lesionsShown(record: FollowUp, study: str) -> list[Lesion]:
    """Return the lesions that have a place in the study which the scan probably shows."""
    return [
        lesion
        for lesion in record.lesions
        if study in lesion.findings
        and lesion.findings[study].point_ras is not None
        and status_of(record, lesion.id, study) != ABSENT
    ]


def _texts(lesion: Lesion, finding: Finding, status: str) -> tuple[str, str]:
    """Return the label and the description of the point that shows a lesion in a study."""
    label = lesion.label
    if not finding.reviewed:
        label += f" {UNCERTAIN if status == UNCERTAIN else PROPOSED}"
    if finding.size.axes:
        lengths = [f"{math.dist(*axis):.1f}" for axis in finding.size.axes.values()]
        label += f" {_TIMES.join(lengths)} mm"
    guess = finding.guess
    if finding.reviewed or guess is None or guess.error_mm is None:
        return label, status
    description = f"{status}: {errorText(guess.error_mm)}"
    if guess.doubt:
        description += f"; {guess.doubt}"
    return label, description


@dataclass(frozen=True)
class AxisLine:
    """A line node that shows an axis of a lesion. lesion: id of the lesion. kind: LONG or SHORT."""

    node: object
    volumeNode: object
    lesion: str
    kind: str

    @property
    def axis(self) -> Axis | None:
        """The two ends that the line has now, in RAS mm of the volume. None if the user has deleted an end."""
        if self.node.GetNumberOfDefinedControlPoints() != 2:
            return None
        return tuple(tuple(self.node.GetNthControlPointPosition(n)) for n in range(2))

    def show(self, axis: Axis, confirmed: bool) -> None:
        """Set the ends and the colour of the line: green if a person has confirmed the axis, otherwise amber."""
        followVolume(self.node, self.volumeNode)
        if self.axis != axis:
            self.node.RemoveAllControlPoints()
            for end in axis:
                self.node.AddControlPoint(vtk.vtkVector3d(*end))
        display = self.node.GetDisplayNode()
        colour = GREEN if confirmed else AMBER
        display.SetColor(*colour)
        display.SetSelectedColor(*colour)
        display.SetPointLabelsVisibility(False)  # the lesion's point has a label with the lengths
        self.node.SetDescription(
            "measured" if confirmed else "copied from another study, not accepted"
        )


def axisLines(scene) -> list[AxisLine]:
    """Return all lines in the scene that show axes of lesions."""
    lines = []
    for node in nodesOf(scene, _LINES):
        text = node.GetAttribute(_AXIS_ATTRIBUTE)
        if text is not None:
            lesion, kind = json.loads(text)
            lines.append(AxisLine(node, node.GetNodeReference(VOLUME_ROLE), lesion, kind))
    return lines


def showAxes(scene, record: FollowUp, volumes: Mapping[str, object]) -> list[AxisLine]:
    """Show a line for each axis in the given volumes, and remove all other lines of axes. Returns the shown lines.

    Args:
        scene: the scene.
        record: the record with the axes.
        volumes: study key -> volume node.
    """
    # (volume ID, lesion id, kind of axis) -> (the axis, whether a person has confirmed it)
    axes = {}
    for study, volume in volumes.items():
        for lesion in record.lesions:
            if study in lesion.findings:
                size = lesion.findings[study].size
                for kind, axis in size.axes.items():
                    axes[volume.GetID(), lesion.id, kind] = axis, size.confirmed
    lines = {}
    for line in axisLines(scene):
        volumeId = "" if line.volumeNode is None else line.volumeNode.GetID()
        key = (volumeId, line.lesion, line.kind)
        if key in axes and key not in lines:
            lines[key] = line
        else:
            removeNode(scene, line.node)
    for key, (axis, confirmed) in axes.items():
        if key not in lines:
            lines[key] = _addLine(scene, *key)
        lines[key].show(axis, confirmed)
    return list(lines.values())


def _addLine(scene, volumeId: str, lesion: str, kind: str) -> AxisLine:
    """Add a line for an axis of a lesion. kind: LONG or SHORT."""
    volume = scene.GetNodeByID(volumeId)
    node = addStudyNode(scene, _LINES, f"{lesion} {kind}", volume)
    node.SetAttribute(_AXIS_ATTRIBUTE, json.dumps([lesion, kind]))
    node.GetMeasurement("length").SetPrintFormat("%.1f %s")
    display = node.GetDisplayNode()
    display.SetPropertiesLabelVisibility(False)  # otherwise name and length would cover the lesion
    display.SetGlyphScale(_END_SIZE)  # small ends do not hide the lesion
    display.SetLineThickness(_THICKNESS)
    return AxisLine(node, volume, lesion, kind)
