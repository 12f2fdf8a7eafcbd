"""Undo and redo of what the user did to landmarks: whole lists are kept, points with their IDs included."""

from __future__ import annotations

from dataclasses import dataclass

import slicer

from ..shared.UndoStack import UndoStack
from .AnswerList import AnswerList
from .ControlPoints import isPreview

_LONGEST = 50


@dataclass(frozen=True, eq=False)
class _Kept:
    """nodeId -> a copy of the list's points, and what is known of them as answers (None for the template's list)."""

    lists: dict[str, tuple[object, dict | None]]

    def isLike(self, other: _Kept) -> bool:
        """Are the points and what is known of them the same?"""
        return self.lists.keys() == other.lists.keys() and all(
            _content(points) == _content(other.lists[nodeId][0]) and answers == other.lists[nodeId][1]
            for nodeId, (points, answers) in self.lists.items()
        )


class LandmarkHistory:
    """States of the template's list and the answers' lists. `settle` after each thing the user did."""

    def __init__(self, scene) -> None:
        self._scene = scene
        self.clear()

    def clear(self) -> None:
        self._stack: UndoStack[_Kept | None] = UndoStack(None, _LONGEST)

    @property
    def canUndo(self) -> bool:
        return self._stack.canUndo

    @property
    def canRedo(self) -> bool:
        return self._stack.canRedo

    def refresh(self, source, answerLists: list[AnswerList]) -> None:
        """The present state has changed by itself: answers came in. Not a step of its own."""
        self._stack.refresh(_kept(source, answerLists))

    def settle(self, source, answerLists: list[AnswerList]) -> None:
        """The user may have done something: if so, what was before can be had back."""
        before, now = self._stack.now, _kept(source, answerLists)
        if before is None or before.isLike(now):
            self._stack.refresh(now)
        else:
            self._stack.step(now)

    def undo(self) -> bool:
        """Restore the state before the last step; False where there is none."""
        return self._stack.undo() and self._restore()

    def redo(self) -> bool:
        return self._stack.redo() and self._restore()

    def _restore(self) -> bool:
        for nodeId, (points, answers) in self._stack.now.lists.items():
            node = self._scene.GetNodeByID(nodeId)
            if node is None:  # deleted meanwhile: what is left is restored
                continue
            node.CopyContent(points)
            if answers is not None:
                AnswerList(node).keep(answers)
        return True


def _kept(source, answerLists: list[AnswerList]) -> _Kept:
    lists = {source.GetID(): (_copy(source), None)}
    lists |= {each.node.GetID(): (_copy(each.node), each.answers) for each in answerLists}
    return _Kept(lists)


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
