"""The answers in one volume: a point list of the scene, which also stores status and error of each answer.

The list follows the volume's parent transform, so its own coordinates are the volume's RAS mm, as the engine gives
them. Matched answers are selected points (green), uncertain ones are not (amber), those not in the scan are Missing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import vtk

from AnatomicalEmbedding.matching.status import ABSENT, MATCHED

from ..shared.Colours import AMBER, GREEN
from ..shared.MatchWords import errorText
from ..shared.SceneNodes import nodesOf
from ..shared.Views import keepingPlaceNode
from .ControlPoints import makeIdsUnique, worldOf

MOVED, REMOVED = "moved", "removed"  # by the user's hand
VOLUME_ROLE, SOURCE_ROLE = "AnatomicalEmbedding.Volume", "AnatomicalEmbedding.SourceLandmarks"
_CLASS = "vtkMRMLMarkupsFiducialNode"
_ATTRIBUTE = "AnatomicalEmbedding.Answers"


@dataclass(frozen=True)
class Answer:
    """pointId: in the answers' list. status: see above. errorMm: expected error, probability: of at most 10 mm error;
    None where the weights state none. madeFrom: the weights and scans. outdated: the user's own answer, given before
    the template's point was moved.
    """

    pointId: str
    status: str
    errorMm: float | None = None
    probability: float | None = None
    madeFrom: str = ""
    outdated: bool = False

    @property
    def byHand(self) -> bool:
        return self.status in (MOVED, REMOVED)

    @property
    def text(self) -> str:
        """The answer as a sentence, for descriptions and tool tips."""
        if self.status == MOVED:
            return "placed by hand" + (", before the template's point was moved" if self.outdated else "")
        if self.status == REMOVED:
            return "marked as not visible by hand"
        if self.status == ABSENT:
            return "absent: this scan does not seem to show the point"
        return f"{self.status}: {errorText(self.errorMm, self.probability)}"


class AnswerList:
    """Answers in `volumeNode` to the points of `sourceNode`, on the list `node`."""

    def __init__(self, node) -> None:
        self.node = node

    @classmethod
    def find(cls, scene, sourceNode, volumeNode) -> AnswerList | None:
        for node in nodesOf(scene, _CLASS):
            if node.GetNodeReference(VOLUME_ROLE) is volumeNode and node.GetNodeReference(SOURCE_ROLE) is sourceNode:
                return cls(node)
        return None

    @classmethod
    def create(cls, scene, sourceNode, volumeNode) -> AnswerList:
        name = scene.GenerateUniqueName(f"{sourceNode.GetName()} in {volumeNode.GetName()}")
        with keepingPlaceNode(scene):
            node = scene.AddNewNodeByClass(_CLASS, name)
        node.CreateDefaultDisplayNodes()
        display = node.GetDisplayNode()
        display.SetSelectedColor(*GREEN)
        display.SetColor(*AMBER)
        node.SetNodeReferenceID(VOLUME_ROLE, volumeNode.GetID())
        node.SetNodeReferenceID(SOURCE_ROLE, sourceNode.GetID())
        found = cls(node)
        found.follow()
        return found

    @property
    def volumeNode(self):
        return self.node.GetNodeReference(VOLUME_ROLE)

    def follow(self) -> None:
        wanted = self.volumeNode.GetTransformNodeID()
        if self.node.GetTransformNodeID() != wanted:
            self.node.SetAndObserveTransformNodeID(wanted)

    @property
    def answers(self) -> dict[str, Answer]:
        """The answers by the ID of the template's point; a copy."""
        text = self.node.GetAttribute(_ATTRIBUTE)
        return {key: Answer(**values) for key, values in json.loads(text).items()} if text else {}

    def keep(self, answers: dict[str, Answer]) -> None:
        """Store the answers on the node, by the ID of the template's point."""
        text = json.dumps({key: asdict(answer) for key, answer in answers.items()})
        if text != self.node.GetAttribute(_ATTRIBUTE):
            self.node.SetAttribute(_ATTRIBUTE, text)

    def write(self, label: str, position: Sequence[float], answer: Answer) -> Answer:
        """Put an answer at a position (3,) in the volume's own RAS mm; `answer.pointId` "" makes a point. Returns it as
        written, for `keep`.
        """
        node = self.node
        index = node.GetControlPointIndexByID(answer.pointId) if answer.pointId else -1
        if index < 0:
            index = node.AddControlPoint(vtk.vtkVector3d(*position))
            makeIdsUnique(node)
        else:
            node.SetNthControlPointPosition(index, *position)
        node.SetNthControlPointLabel(index, label)
        node.SetNthControlPointAssociatedNodeID(index, self.volumeNode.GetID())
        answer = replace(answer, pointId=node.GetNthControlPointID(index))
        self.show(answer)
        return answer

    def show(self, answer: Answer) -> None:
        node, index = self.node, self.node.GetControlPointIndexByID(answer.pointId)
        node.SetNthControlPointDescription(index, answer.text)
        node.SetNthControlPointSelected(index, answer.status in (MATCHED, MOVED) and not answer.outdated)
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
        """ID of the template's point that a point of this list answers, or None."""
        return next((source for source, answer in self.answers.items() if answer.pointId == pointId), None)

    def worldOf(self, answer: Answer):
        """(3,) world mm of an answer, or None where it has no place."""
        return worldOf(self.node, answer.pointId)

    def hasPoint(self, answer: Answer) -> bool:
        return self.node.GetControlPointIndexByID(answer.pointId) >= 0


def isAnswers(listNode) -> bool:
    """Does a point list hold answers, rather than points of the user?"""
    return listNode.GetNodeReference(SOURCE_ROLE) is not None or listNode.GetAttribute(_ATTRIBUTE) is not None
