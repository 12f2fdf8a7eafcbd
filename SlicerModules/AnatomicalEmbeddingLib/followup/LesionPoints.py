"""The lesions of one study as a point list of the scene: reviewed ones green, proposals amber."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

import vtk

from AnatomicalEmbedding.followup.lesions import PROPOSED, Point
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.status import ABSENT, UNCERTAIN, status_of

from ..landmarks.ControlPoints import definedIds, fromNode, makeIdsUnique
from ..shared.Colours import AMBER, GREEN
from ..shared.MatchWords import errorText
from ..shared.SceneNodes import nodesOf
from .StudyNodes import VOLUME_ROLE, addStudyNode, followVolume

_CLASS = "vtkMRMLMarkupsFiducialNode"
_TIMES = " \u00d7 "
_ATTRIBUTE = "AnatomicalEmbedding.Lesions"  # of the list: JSON, control point ID -> lesion


@dataclass(frozen=True)
class _Shown:
    """The point of a lesion in a study."""

    lesion: str
    label: str
    place: Point
    reviewed: bool
    text: str


class LesionPoints:
    """The point list `node` of the lesions in the study of `volumeNode`."""

    def __init__(self, node, volumeNode) -> None:
        self.node, self.volumeNode = node, volumeNode

    @classmethod
    def of(cls, scene, volumeNode) -> LesionPoints:
        """The list that the scene holds for a volume, or a new one."""
        for node in nodesOf(scene, _CLASS):
            if isLesionList(node) and node.GetNodeReference(VOLUME_ROLE) is volumeNode:
                return cls(node, volumeNode)
        node = addStudyNode(scene, _CLASS, f"Lesions in {volumeNode.GetName()}", volumeNode)
        node.SetAttribute(_ATTRIBUTE, "{}")
        display = node.GetDisplayNode()
        display.SetSelectedColor(*GREEN)
        display.SetColor(*AMBER)
        display.SetGlyphTypeFromString("Cross2D")  # the lesion below stays in sight
        return cls(node, volumeNode)

    @staticmethod
    def leftovers(scene) -> list:
        """Lists whose volumes are gone."""
        lists = [node for node in nodesOf(scene, _CLASS) if isLesionList(node)]
        return [node for node in lists if node.GetNodeReference(VOLUME_ROLE) is None]

    def show(self, record: FollowUp, study: str) -> None:
        """Set the points as the record has them, and remove all others."""
        followVolume(self.node, self.volumeNode)
        wanted = [shown for lesion in record.lesions if (shown := _shown(record, lesion.id, study)) is not None]
        before = self.node.StartModify()  # one event for all changes
        if list(self._lesions().values()) != [each.lesion for each in wanted]:
            self._begin(wanted)
        for index, each in enumerate(wanted):
            if tuple(self.node.GetNthControlPointPosition(index)) != each.place:
                self.node.SetNthControlPointPosition(index, *each.place)
            self.node.SetNthControlPointLabel(index, each.label)
            self.node.SetNthControlPointDescription(index, each.text)
            self.node.SetNthControlPointSelected(index, each.reviewed)
            self.node.SetNthControlPointAssociatedNodeID(index, self.volumeNode.GetID())
        self.node.EndModify(before)

    def lesionAt(self, index: int) -> str:
        """The lesion of a control point; "" for a point that the user added."""
        return self._lesions().get(self.node.GetNthControlPointID(index), "")

    def unknownPoints(self) -> list[Point]:
        """Places of the points that the user has added to the list."""
        added = [pointId for pointId, lesion in self._lesions().items() if not lesion]
        return [tuple(float(x) for x in fromNode(self.node, pointId)) for pointId in added]

    def missing(self, record: FollowUp, study: str) -> list[str]:
        """Lesions whose points the user has deleted from the list."""
        here = set(self._lesions().values())
        return [each.id for each in record.lesions if each.id not in here and _shown(record, each.id, study)]

    def _lesions(self) -> dict[str, str]:
        """Point ID -> lesion of the points that have a place, in order; "" for points that the user added."""
        lesions = json.loads(self.node.GetAttribute(_ATTRIBUTE))
        return {pointId: lesions.get(pointId, "") for pointId in definedIds(self.node)}

    def _begin(self, wanted: Iterable[_Shown]) -> None:
        """Replace all points."""
        self.node.RemoveAllControlPoints()
        for each in wanted:
            self.node.AddControlPoint(vtk.vtkVector3d(*each.place), each.label)
        makeIdsUnique(self.node)
        ids = {self.node.GetNthControlPointID(n): each.lesion for n, each in enumerate(wanted)}
        self.node.SetAttribute(_ATTRIBUTE, json.dumps(ids))


def isLesionList(node) -> bool:
    """Whether a point list shows lesions of a follow-up."""
    return node.GetAttribute(_ATTRIBUTE) is not None


def _shown(record: FollowUp, lesionId: str, study: str) -> _Shown | None:
    """The point of a lesion; None where it has no place, or the scan does not seem to show it."""
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
