"""Undo and redo of the user's steps with landmarks: states are copies of whole lists, with the IDs of the points."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import slicer

from ..shared.UndoStack import UndoStack
from .AnswerList import AnswerList
from .ControlPoints import isPreview

_LONGEST = 50


@dataclass(frozen=True, eq=False)
class _State:
    """lists: by node ID, a copy of the list's points, and its answers (None for the template's list)."""

    lists: dict[str, tuple[object, dict | None]]

    def __eq__(self, other: object) -> bool:
        """Are points and answers the same?"""
        return (
            isinstance(other, _State)
            and self.lists.keys() == other.lists.keys()
            and all(
                _content(points) == _content(other.lists[nodeId][0]) and answers == other.lists[nodeId][1]
                for nodeId, (points, answers) in self.lists.items()
            )
        )

    __hash__ = None


class LandmarkHistory:
    """States of the template's list and the lists of answers. Call `record` after each step of the user."""

    def __init__(self, scene) -> None:
        self._scene = scene
        self.clear()

    def clear(self) -> None:
        """Forget all states."""
        self._stack: UndoStack[_State | None] = UndoStack(None, _LONGEST)

    @property
    def canUndo(self) -> bool:
        return self._stack.canUndo

    @property
    def canRedo(self) -> bool:
        return self._stack.canRedo

    def refresh(self, source, answerLists: Iterable[AnswerList]) -> None:
        """Replace the present state, which has changed without the user: answers came in."""
        self._stack.refresh(_stateOf(source, answerLists))

    def record(self, source, answerLists: Iterable[AnswerList]) -> None:
        """Keep the state before for undo, if the user has changed the state."""
        if self._stack.now is None:
            self.refresh(source, answerLists)
        else:
            self._stack.step(_stateOf(source, answerLists))

    def undo(self) -> bool:
        """Restore the state before the last step; False where there was no step."""
        return self._stack.undo() and self._restore()

    def redo(self) -> bool:
        """Restore the state after the step that was undone last; False where no step was undone."""
        return self._stack.redo() and self._restore()

    def _restore(self) -> bool:
        for nodeId, (points, answers) in self._stack.now.lists.items():
            node = self._scene.GetNodeByID(nodeId)
            if node is None:  # deleted meanwhile; the other lists are restored
                continue
            node.CopyContent(points)
            if answers is not None:
                AnswerList(node).keep(answers)
        return True


def _stateOf(source, answerLists: Iterable[AnswerList]) -> _State:
    lists = {source.GetID(): (_copy(source), None)}
    lists |= {each.node.GetID(): (_copy(each.node), each.answers) for each in answerLists}
    return _State(lists)


def _copy(node):
    copy = slicer.vtkMRMLMarkupsFiducialNode()
    copy.CopyContent(node)
    for n in reversed(range(copy.GetNumberOfControlPoints())):
        if isPreview(copy, n):
            copy.RemoveNthControlPoint(n)
    return copy


def _content(points) -> list[tuple]:
    return [
        (
            points.GetNthControlPointID(n),
            points.GetNthControlPointLabel(n),
            points.GetNthControlPointPositionStatus(n),
            tuple(points.GetNthControlPointPosition(n)),
        )
        for n in range(points.GetNumberOfControlPoints())
    ]
