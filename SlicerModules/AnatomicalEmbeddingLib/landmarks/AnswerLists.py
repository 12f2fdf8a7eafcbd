"""Third step after a click (see `LandmarkLogic`): write the answers into point lists, one list for each target."""

from __future__ import annotations

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
        self.scene, self.points = scene, None
        self.targets: list = []
        self.lists: dict[str, AnswerList] = {}

    def link(self, points, targets: Sequence) -> None:
        """Set the template's point list (or None) and the targets. Find each target's list of answers in the scene."""
        self.points, self.targets, self.lists = points, list(targets), {}
        for target in self.targets if points is not None else ():
            found = AnswerList.find(self.scene, points, target)
            if found is not None:
                self._add(found, target)

    def rows(self, outside: set[str]) -> list[Row]:
        """Return one row for each point. outside: IDs of the points that lie outside the template."""
        if self.points is None:
            return []
        known = {volumeId: each.answers for volumeId, each in self.lists.items()}
        rows = []
        for pointId in definedIds(self.points):
            answers = {volumeId: of[pointId] for volumeId, of in known.items() if pointId in of}
            rows.append(Row(pointId, labelOf(self.points, pointId), answers, pointId not in outside))
        return rows

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
                    corrections.setdefault(pointId, []).append(Correction(answerList.volumeNode, place))
        return corrections

    def write(self, target, ids: Sequence[str], places: np.ndarray, answers: Sequence[Answer]) -> None:
        """Write n answers in one target. ids: IDs of the template points. places: (n, 3) in the target's own RAS mm."""
        each = self._listFor(target)
        known = each.answers
        with NodeModify(each.node):
            for pointId, place, answer in zip(ids, places, answers, strict=True):
                old = known.get(pointId)
                answer = replace(answer, pointId="" if old is None else old.pointId)
                known[pointId] = each.write(labelOf(self.points, pointId), place, answer)
        each.keep(known)

    def setByHand(self, pointId: str, target, status: str, position: Sequence[float] | None) -> None:
        """Write the user's own answer to a point in a target.

        status: MOVED if the user placed the answer, REMOVED if the target does not show the point. position: (3,) of
        the answer, in the target's own RAS mm; None to keep the stored position.
        """
        each = self._listFor(target)
        answers = each.answers
        new = replace(answers.get(pointId, Answer("", MOVED)), status=status, outdated=False)
        if position is None:
            position = fromNode(each.node, new.pointId) if new.pointId else (0.0, 0.0, 0.0)
        answers[pointId] = each.write(labelOf(self.points, pointId), position, new)
        each.keep(answers)

    def tidy(self) -> None:
        """Remove the answers to deleted template points, and copy each remaining template point's label to its answers.

        An answer that the user has deleted gets the status REMOVED (not visible).
        """
        makeIdsUnique(self.points)
        wanted = set(definedIds(self.points))
        self.followVolumes()
        for each in self.lists.values():
            kept = {}
            for key, answer in each.answers.items():
                if key not in wanted:
                    each.remove(answer)
                elif each.hasPoint(answer):
                    each.rename(answer, labelOf(self.points, key))
                    kept[key] = answer
                else:
                    gone = replace(answer, pointId="", status=REMOVED, outdated=False)
                    kept[key] = each.write(labelOf(self.points, key), (0.0, 0.0, 0.0), gone)
            each.keep(kept)

    def retract(self, pointId: str, keptFor: Sequence = ()) -> None:
        """Remove the answers to a template point that was moved. The user's own answers stay, marked as outdated.

        Answers in the targets `keptFor` stay too, because the caller overwrites them at once.
        """
        for each in self.lists.values() if pointId else ():
            answers = each.answers
            if pointId not in answers:
                continue
            if answers[pointId].byHand:
                answers[pointId] = replace(answers[pointId], outdated=True)
                each.show(answers[pointId])
            elif each.volumeNode not in keptFor:
                each.remove(answers.pop(pointId))
            each.keep(answers)

    def forget(self, ids: Iterable[str], volumeNode=None, corrections: bool = False) -> None:
        """Remove the answers to the points `ids`. volumeNode: one target; None for all targets.

        corrections: True to also remove the user's own answers.
        """
        for each in self.lists.values():
            if volumeNode is None or each.volumeNode is volumeNode:
                answers = each.answers
                for key in set(ids) & answers.keys():
                    if corrections or not answers[key].byHand:
                        each.remove(answers.pop(key))
                each.keep(answers)

    def followVolumes(self) -> None:
        for each in self.lists.values():
            each.follow()

    def _listFor(self, target) -> AnswerList:
        if target.GetID() not in self.lists:
            self._add(AnswerList.create(self.scene, self.points, target), target)
        return self.lists[target.GetID()]

    def _add(self, each: AnswerList, target) -> None:
        makeIdsUnique(each.node)
        self.lists[target.GetID()] = each
