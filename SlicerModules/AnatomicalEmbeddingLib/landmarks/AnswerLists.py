"""Third step after a click (see `LandmarkLogic`): write the answers into point lists, one list for each target."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from slicer.util import NodeModify

from .AnswerList import MOVED, REMOVED, Answer, AnswerList
from .ControlPoints import definedIds, fromNode, labelOf, makeIdsUnique


@dataclass(frozen=True)
class Row:
    """One point of the template. answers: target ID -> answer. inside: True if the point lies in the template."""

    pointId: str
    label: str
    answers: dict[str, Answer]
    inside: bool


class Correction(NamedTuple):
    """The place (3,) of an answer that the user has placed in a target, in the target's own RAS mm."""

    volumeNode: object
    place: np.ndarray


class AnswerLists:
    """The answers to the points of one template, in one list for each target.

    points: the template's point list. targets: volume nodes. lists: target ID -> list of answers in this target.
    """

    def __init__(self, scene) -> None:
        self.scene = scene
        self.points = None
        self.targets: list = []
        self.lists: dict[str, AnswerList] = {}

    def link(self, points, targets: Sequence) -> None:
        """Set the template's point list (or None) and the targets. Find each target's list of answers in the scene."""
        self.points = points
        self.targets = list(targets)
        self.lists = {}
        if points is None:
            return
        for target in self.targets:
            answerList = AnswerList.find(self.scene, points, target)
            if answerList is not None:
                self._add(answerList, target)

    def rows(self, outside: set[str]) -> list[Row]:
        """Return one row for each point. outside: IDs of the points that lie outside the template."""
        if self.points is None:
            return []
        rows = {
            pointId: Row(pointId, labelOf(self.points, pointId), {}, pointId not in outside)
            for pointId in definedIds(self.points)
        }
        for volumeId, answerList in self.lists.items():
            for pointId, answer in answerList.answers.items():
                if pointId in rows:
                    rows[pointId].answers[volumeId] = answer
        return list(rows.values())

    def answersIn(self, target) -> dict[str, Answer]:
        """Return the answers in one target: ID of the template's point -> answer. Without answers, return {}."""
        return self.lists[target.GetID()].answers if target.GetID() in self.lists else {}

    def corrections(self) -> dict[str, list[Correction]]:
        """Return the answers that the user has placed, by the ID of the template's point.

        Answers that the user placed before the point of the template was moved are left out.
        """
        corrections: dict[str, list[Correction]] = {}
        for answerList in self.lists.values():
            for pointId, answer in answerList.answers.items():
                if answer.status == MOVED and not answer.outdated:
                    place = fromNode(answerList.node, answer.pointId)
                    corrections.setdefault(pointId, []).append(
                        Correction(answerList.volumeNode, place)
                    )
        return corrections

    def write(
        self, target, ids: Sequence[str], places: np.ndarray, answers: Sequence[Answer]
    ) -> None:
        """Write n answers in one target.

        Args:
            target: the scan of the answers.
            ids: IDs of the n template points.
            places: (n, 3) in the target's own RAS mm.
            answers: the n answers.
        """
        answerList = self._listFor(target)
        stored = answerList.answers
        with NodeModify(answerList.node):
            for pointId, place, answer in zip(ids, places, answers, strict=True):
                old = stored.get(pointId)
                if old is not None:
                    answer = replace(answer, pointId=old.pointId, edges=old.edges)
                stored[pointId] = self._write(answerList, pointId, place, answer)
        answerList.keep(stored)

    def setByHand(
        self, pointId: str, target, status: str, position: Sequence[float] | None
    ) -> None:
        """Write the user's own answer to a point in a target.

        Args:
            pointId: ID of the template point.
            target: the scan of the answer.
            status: MOVED if the user placed the answer, REMOVED if the target does not show the point.
            position: (3,) of the answer, in the target's own RAS mm; None to keep the stored position.
        """
        answerList = self._listFor(target)
        answers = answerList.answers
        new = replace(answers.get(pointId, Answer("", MOVED)), status=status, outdated=False)
        if position is None:
            position = fromNode(answerList.node, new.pointId) if new.pointId else (0.0, 0.0, 0.0)
        answers[pointId] = self._write(answerList, pointId, position, new)
        answerList.keep(answers)

    def tidy(self) -> None:
        """Remove the answers to deleted template points, and copy each remaining template point's label to its answers.

        An answer that the user has deleted gets the status REMOVED (not visible). A plane or box that the user has
        turned or resized is the user's own.
        """
        makeIdsUnique(self.points)
        pointIds = set(definedIds(self.points))
        self.followVolumes()
        for answerList in self.lists.values():
            remaining = {}
            for key, answer in answerList.answers.items():
                if key not in pointIds:
                    answerList.remove(answer)
                elif answerList.hasPoint(answer):
                    answerList.rename(answer, labelOf(self.points, key))
                    if not answer.byHand and answerList.hasTurned(answer):
                        answer = replace(answer, status=MOVED)
                        answerList.show(answer)
                    remaining[key] = answer
                else:
                    gone = replace(answer, pointId="", status=REMOVED, outdated=False)
                    remaining[key] = self._write(answerList, key, (0.0, 0.0, 0.0), gone)
            answerList.keep(remaining)

    def retract(self, pointId: str, keptFor: Sequence = ()) -> None:
        """Remove the answers to a template point that was moved. The user's own answers stay, marked as outdated.

        Answers in the targets `keptFor` stay too, because the caller overwrites them at once. pointId: "" for no point.
        """
        if not pointId:
            return
        for answerList in self.lists.values():
            answers = answerList.answers
            if pointId not in answers:
                continue
            if answers[pointId].byHand:
                answers[pointId] = replace(answers[pointId], outdated=True)
                answerList.show(answers[pointId])
            elif answerList.volumeNode not in keptFor:
                answerList.remove(answers.pop(pointId))
            answerList.keep(answers)

    def forget(self, ids: Iterable[str], volumeNode=None, corrections: bool = False) -> None:
        """Remove the answers to points.

        Args:
            ids: IDs of the template points.
            volumeNode: one target; None for all targets.
            corrections: True to also remove the user's own answers.
        """
        for answerList in self.lists.values():
            if volumeNode is None or answerList.volumeNode is volumeNode:
                answers = answerList.answers
                for key in set(ids) & answers.keys():
                    if corrections or not answers[key].byHand:
                        answerList.remove(answers.pop(key))
                answerList.keep(answers)

    def followVolumes(self) -> None:
        for answerList in self.lists.values():
            answerList.follow()

    def _write(
        self, answerList: AnswerList, pointId: str, place: Sequence[float], answer: Answer
    ) -> Answer:
        number = self.points.GetControlPointIndexByID(pointId)
        return answerList.write(number, labelOf(self.points, pointId), place, answer)

    def _listFor(self, target) -> AnswerList:
        if target.GetID() not in self.lists:
            self._add(AnswerList.create(self.scene, self.points, target), target)
        return self.lists[target.GetID()]

    def _add(self, answerList: AnswerList, target) -> None:
        makeIdsUnique(answerList.node)
        self.lists[target.GetID()] = answerList
