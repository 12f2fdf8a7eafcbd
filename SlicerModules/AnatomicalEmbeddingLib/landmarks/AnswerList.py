"""The answers in one volume: a markups node in the scene, of the same kind as the template's points, lines or curves.
The node, called the list of answers, also stores the status and error of each answer.

The list has the same parent transform as the volume. So the coordinates of the points, without this transform, are the
volume's own RAS mm. Matched answers are selected points (green). Uncertain answers are unselected points (amber).
If the scan does not show a point, its answer has the position status Missing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import vtk

from AnatomicalEmbedding.landmarks.markups import PLANE
from AnatomicalEmbedding.matching.status import ABSENT, MATCHED

from ..shared.Colours import AMBER, GREEN, errorText
from ..shared.SceneNodes import nodesOf
from ..shared.Views import keepingPlaceNode
from ..shared.VolumeNodes import followVolume
from .ControlPoints import makeIdsUnique, worldOf
from .Edges import edgesIn, hasEdges

MOVED, REMOVED = "moved", "removed"  # the user has moved, or removed, the answer
VOLUME_ROLE = "AnatomicalEmbedding.Volume"
SOURCE_ROLE = "AnatomicalEmbedding.SourceLandmarks"
_CLASS = "vtkMRMLMarkupsNode"
_ATTRIBUTE = "AnatomicalEmbedding.Answers"


@dataclass(frozen=True)
class Answer:
    """The answer to one template point in one scan.

    pointId: ID of the answer's point in the list of answers; "" if there is no such point yet. status: status of the
    match; MOVED or REMOVED for the user's own answer. errorMm: expected error, mm. probability: probability of an error
    of at most 10 mm, or 10 units. errorMm and probability are None if the weights have no calibration. unitMm: unit of
    the maps; 1 for CTs. madeFrom: key of the weights and scans of the answer. doubt: what speaks against an uncertain
    answer, see `followup.doubts.doubt_of`, or "". outdated: True if the user gave the answer and moved the template
    point later. edges: 9 numbers, the edges that a plane or box got by matching, see `Edges`.
    """

    pointId: str
    status: str
    errorMm: float | None = None
    probability: float | None = None
    madeFrom: str = ""
    outdated: bool = False
    doubt: str = ""
    unitMm: float = 1.0
    edges: tuple[float, ...] = ()

    @property
    def byHand(self) -> bool:
        return self.status in (MOVED, REMOVED)

    @property
    def text(self) -> str:
        """The answer as a sentence, for descriptions and tool tips."""
        if self.status == MOVED:
            if self.outdated:
                return "placed by hand, but the point in the template was moved later"
            return "placed by hand"
        if self.status == REMOVED:
            return "marked by hand as not visible"
        if self.status == ABSENT:
            return "absent: this scan does not seem to show the point"
        text = f"{self.status}: {errorText(self.errorMm, self.probability, self.unitMm)}"
        return f"{text}; {self.doubt}" if self.doubt else text


class AnswerList:
    """The answers in scan `volumeNode` to the points of one template list. node: the point list of the answers."""

    def __init__(self, node) -> None:
        self.node = node

    @classmethod
    def find(cls, scene, sourceNode, volumeNode) -> AnswerList | None:
        """Return the list of answers in a scan; None if there is none yet.

        Args:
            scene: the scene.
            sourceNode: the template's points, line, angle, curve, plane or box.
            volumeNode: the scan.
        """
        for node in nodesOf(scene, _CLASS):
            if (
                node.GetNodeReference(VOLUME_ROLE) is volumeNode
                and node.GetNodeReference(SOURCE_ROLE) is sourceNode
            ):
                return cls(node)
        return None

    @classmethod
    def create(cls, scene, sourceNode, volumeNode) -> AnswerList:
        """Create an empty list of answers.

        Args:
            scene: the scene.
            sourceNode: the template's points, line, angle, curve, plane or box; the list is a node of the same kind.
            volumeNode: the scan of the answers.
        """
        name = scene.GenerateUniqueName(f"{sourceNode.GetName()} in {volumeNode.GetName()}")
        with keepingPlaceNode(scene):
            node = scene.AddNewNodeByClass(sourceNode.GetClassName(), name)
        node.CreateDefaultDisplayNodes()
        display = node.GetDisplayNode()
        display.SetSelectedColor(*GREEN)
        display.SetColor(*AMBER)
        if sourceNode.GetMarkupType() == PLANE:
            node.SetPlaneType(sourceNode.GetPlaneType())
        for n in range(sourceNode.GetNumberOfMeasurements()):
            node.GetNthMeasurement(n).SetEnabled(sourceNode.GetNthMeasurement(n).GetEnabled())
        node.SetNodeReferenceID(VOLUME_ROLE, volumeNode.GetID())
        node.SetNodeReferenceID(SOURCE_ROLE, sourceNode.GetID())
        answerList = cls(node)
        answerList.follow()
        return answerList

    @property
    def volumeNode(self):
        return self.node.GetNodeReference(VOLUME_ROLE)

    @property
    def source(self):
        """The template's node whose points are answered."""
        return self.node.GetNodeReference(SOURCE_ROLE)

    def follow(self) -> None:
        followVolume(self.node, self.volumeNode)

    @property
    def answers(self) -> dict[str, Answer]:
        """A copy of the stored answers: {ID of the template point: answer}."""
        text = self.node.GetAttribute(_ATTRIBUTE) or "{}"
        return {key: Answer(**fields) for key, fields in json.loads(text).items()}

    def keep(self, answers: dict[str, Answer]) -> None:
        """Store the answers on the node. answers: {ID of the template point: answer}."""
        text = json.dumps({key: asdict(answer) for key, answer in answers.items()})
        if text != self.node.GetAttribute(_ATTRIBUTE):
            self.node.SetAttribute(_ATTRIBUTE, text)

    def write(self, number: int, label: str, position: Sequence[float], answer: Answer) -> Answer:
        """Write the point of an answer into the list. If the list has no such point, the point is added.

        Args:
            number: index of the point in the template's list; the order of its points is that of a curve.
            label: label of the point.
            position: (3,) in the volume's own RAS mm.
            answer: the answer without `pointId`, or with the ID of the point that is written again.

        Returns:
            The answer with its `pointId`; store it with `keep`.
        """
        node = self.node
        index = node.GetControlPointIndexByID(answer.pointId) if answer.pointId else -1
        if index < 0:
            index = min(number, node.GetNumberOfControlPoints())
            node.InsertControlPoint(index, vtk.vtkVector3d(*position))
            makeIdsUnique(node)
        else:
            node.SetNthControlPointPosition(index, *position)
        node.SetNthControlPointLabel(index, label)
        node.SetNthControlPointAssociatedNodeID(index, self.volumeNode.GetID())
        answer = replace(answer, pointId=node.GetNthControlPointID(index))
        self.show(answer)
        return answer

    def show(self, answer: Answer) -> None:
        node = self.node
        index = self.node.GetControlPointIndexByID(answer.pointId)
        node.SetNthControlPointDescription(index, answer.text)
        node.SetNthControlPointSelected(
            index, answer.status in (MATCHED, MOVED) and not answer.outdated
        )
        if answer.status in (ABSENT, REMOVED):
            node.SetNthControlPointPositionMissing(index)

    def remove(self, answer: Answer) -> None:
        index = self.node.GetControlPointIndexByID(answer.pointId)
        if index >= 0:
            self.node.RemoveNthControlPoint(index)

    def rename(self, answer: Answer, label: str) -> None:
        index = self.node.GetControlPointIndexByID(answer.pointId)
        if index >= 0 and self.node.GetNthControlPointLabel(index) != label:
            self.node.SetNthControlPointLabel(index, label)

    def sourceOf(self, pointId: str) -> str | None:
        """Return the ID of the template point whose answer is `pointId`. Returns None if `pointId` is not an answer."""
        for source, answer in self.answers.items():
            if answer.pointId == pointId:
                return source
        return None

    def worldOf(self, answer: Answer):
        """Position of an answer, (3,) world mm; None if the answer has no position."""
        return worldOf(self.node, answer.pointId)

    def hasTurned(self, answer: Answer) -> bool:
        """Return True if the answer is a plane or box that has been turned or resized since it was matched."""
        if not answer.edges or not hasEdges(self.node):
            return False
        edges = edgesIn(self.volumeNode, self.node).ravel()
        return not np.allclose(edges, answer.edges, atol=0.01)

    def hasPoint(self, answer: Answer) -> bool:
        return self.node.GetControlPointIndexByID(answer.pointId) >= 0


def isAnswers(listNode) -> bool:
    """True if the point list contains answers; False if it contains points that the user placed."""
    return (
        listNode.GetNodeReference(SOURCE_ROLE) is not None
        or listNode.GetAttribute(_ATTRIBUTE) is not None
    )
