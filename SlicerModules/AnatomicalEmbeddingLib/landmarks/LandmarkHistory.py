"""Undo and redo of the user's changes of landmarks. A state contains copies of all point lists, with the point IDs."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..shared.UndoStack import UndoStack
from .AnswerList import AnswerList
from .ControlPoints import isPreview
from .Edges import edgesOf


@dataclass(frozen=True)
class _State:
    """All points and answers at one time. Two states are equal if their `content` is equal. lists: node ID of a list ->
    (copy of the list, answers); answers is None for a list of points."""

    content: list[tuple]
    lists: dict[str, tuple[object, dict | None]] = field(compare=False)


class LandmarkHistory(UndoStack[_State | None]):
    """Undo and redo for the template's point list and the lists of answers in all targets."""

    def __init__(self, scene) -> None:
        super().__init__(None)
        self._scene = scene

    def record(self, source, answerLists: Iterable[AnswerList], isStep: bool) -> None:
        """Store the current state of the lists.

        Args:
            source: the template's points, line, angle, curve, plane or box.
            answerLists: the answers in the targets.
            isStep: True to add an undo step; False if only new answers have arrived.
        """
        lists = {source.GetID(): (_copy(source), None)}
        for answerList in answerLists:
            node = answerList.node
            lists[node.GetID()] = (_copy(node), answerList.answers)
        content = [(nodeId, _content(copy), answers) for nodeId, (copy, answers) in lists.items()]
        state = _State(content, lists)
        if isStep and self.now is not None:
            self.step(state)
        else:
            self.refresh(state)

    def undo(self) -> bool:
        return super().undo() and self._restore()

    def redo(self) -> bool:
        return super().redo() and self._restore()

    def _restore(self) -> bool:
        for nodeId, (copy, answers) in self.now.lists.items():
            node = self._scene.GetNodeByID(nodeId)
            if node is None:  # the list was deleted after the state was recorded
                continue
            _copyContent(copy, node)
            if answers is not None:
                AnswerList(node).keep(answers)
        return True


def _copy(node):
    copy = node.CreateNodeInstance()
    _copyContent(node, copy)
    for n in reversed(range(copy.GetNumberOfControlPoints())):
        if isPreview(copy, n):
            copy.RemoveNthControlPoint(n)
    return copy


def _copyContent(source, destination) -> None:
    """Copy points, and the edges of a plane or box, from one node to another."""
    destination.CopyContent(source)
    if not source.GetNumberOfControlPoints():
        destination.RemoveAllControlPoints()  # Slicer gives the copy of an empty plane or box a centre


def _content(points) -> list[tuple]:
    return [
        (
            points.GetNthControlPointID(n),
            points.GetNthControlPointLabel(n),
            points.GetNthControlPointPositionStatus(n),
            tuple(points.GetNthControlPointPosition(n)),
            edgesOf(points),
        )
        for n in range(points.GetNumberOfControlPoints())
    ]
