"""Answers to the points of one scan in others, kept in the scene: matching what is missing, and tidying up.

Points are paired by control point ID. Nothing here observes the scene; `LandmarkLogic` says when.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from slicer.util import NodeModify

from AnatomicalEmbedding.matching.status import UNCERTAIN

from ..shared.maps.MapStore import MapStore
from ..shared.Signal import Signal
from ..shared.VolumeNodes import fromWorld
from .AnswerList import MOVED, REMOVED, Answer, AnswerList
from .ControlPoints import definedIds, fromNode, labelOf, makeIdsUnique, worldOf


@dataclass(frozen=True)
class Row:
    """One point of the template: its ID and label, the answers there are by volume ID, and whether it lies in the
    template's scan.
    """

    pointId: str
    label: str
    answers: dict[str, Answer]
    inside: bool


class LandmarkMatcher:
    """template: volume node of the points; points: their list; targets: volume nodes to find them in.

    lists: volume ID -> answers. outside: IDs of points beyond the template's scan. effort: see `match_all`.
    reported(sentence): something the user should read. listAdded(list): there is one more.
    """

    def __init__(self, scene, store: MapStore) -> None:
        self.scene, self.store = scene, store
        self.reported, self.listAdded = Signal(), Signal()
        self.template = self.points = None
        self.targets: list = []
        self.effort = "standard"
        self.lists: dict[str, AnswerList] = {}
        self.outside: set[str] = set()

    def rows(self) -> list[Row]:
        """A row for each point of the template, in its order."""
        if self.points is None:
            return []
        known = {volumeId: each.answers for volumeId, each in self.lists.items()}
        return [
            Row(
                pointId,
                labelOf(self.points, pointId),
                {volumeId: answers[pointId] for volumeId, answers in known.items() if pointId in answers},
                pointId not in self.outside,
            )
            for pointId in definedIds(self.points)
        ]

    def link(self) -> None:
        """Find the lists of answers that the scene holds for the present points and targets."""
        self.lists, self.outside = {}, set()
        for target in self.targets if self.points is not None else ():
            found = AnswerList.find(self.scene, self.points, target)
            if found is not None:
                self._add(found, target)

    def listFor(self, volumeNode) -> AnswerList:
        """The answers in a target, made if there are none."""
        if volumeNode.GetID() not in self.lists:
            self._add(AnswerList.create(self.scene, self.points, volumeNode), volumeNode)
        return self.lists[volumeNode.GetID()]

    def follow(self) -> None:
        """Each list lies below the same parent transform as its volume."""
        for each in self.lists.values():
            each.follow()

    def tidy(self) -> None:
        """Answers to deleted points go, labels are taken over, a deleted answer counts as "not visible"."""
        makeIdsUnique(self.points)
        wanted = set(definedIds(self.points))
        self.follow()
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

    def matchMissing(self) -> None:
        """Match what has no answer, or one by other weights or of other voxels, where both maps are there."""
        ids = definedIds(self.points)
        templateMap = self._templateMap()
        if templateMap is None or not ids:
            return
        places, inside = self._places(templateMap, ids)
        self._tellOutside({pointId for pointId, there in zip(ids, inside, strict=True) if not there})
        groups: dict[tuple[int, ...], list] = {}
        for target in self._ready():
            source = madeFrom(templateMap, self.store.map(target))
            known = self.lists[target.GetID()].answers if target.GetID() in self.lists else {}
            missing = tuple(n for n in np.flatnonzero(inside) if _needsMatch(known.get(ids[n]), source))
            if missing:
                groups.setdefault(missing, []).append(target)
        for missing, targets in groups.items():  # mostly one group: a new point, all targets
            self._match([ids[n] for n in missing], places[list(missing)], targets, self.effort)

    def matchMoved(self, ids: Iterable[str], effort: str) -> None:
        """Points lie elsewhere than when they were matched. A user's own answers stay and are marked."""
        ids = [pointId for pointId in ids if worldOf(self.points, pointId) is not None]
        templateMap = self._templateMap()
        ready = self._ready() if templateMap is not None else []
        for each in self.lists.values():
            self._retract(each, ids, each.volumeNode in ready)
        if templateMap is None or not ids:
            return
        places, inside = self._places(templateMap, ids)
        self._tellOutside((self.outside - set(ids)) | {i for i, there in zip(ids, inside, strict=True) if not there})
        for n, pointId in enumerate(ids):
            if inside[n]:
                free = [t for t in ready if not self._isByHand(pointId, t)]
                self._match([pointId], places[n : n + 1], free, effort)
            else:
                for each in self.lists.values():
                    self._retract(each, [pointId], False)

    def forget(self, ids: Iterable[str], volumeNode=None, corrections: bool = False) -> None:
        """Drop answers to some points in one target, or in all; corrections: also those given by hand."""
        for each in self.lists.values():
            if volumeNode is None or each.volumeNode is volumeNode:
                answers = each.answers
                for key in set(ids) & answers.keys():
                    if corrections or not answers[key].byHand:
                        each.remove(answers.pop(key))
                each.keep(answers)

    def keepByHand(self, pointId: str, volumeNode, status: str, position: Sequence[float] | None) -> None:
        """The user's own answer. position: (3,) in the volume's own RAS mm; None: where the answer is now."""
        each = self.listFor(volumeNode)
        answers = each.answers
        new = replace(answers.get(pointId, Answer("", MOVED)), status=status, outdated=False)
        if position is None:
            position = fromNode(each.node, new.pointId) if new.pointId else (0.0, 0.0, 0.0)
        answers[pointId] = each.write(labelOf(self.points, pointId), position, new)
        each.keep(answers)

    def _match(self, ids: list[str], places: np.ndarray, targets: list, effort: str) -> None:
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

        if not targets:
            return
        templateMap = self._templateMap()
        maps = [self.store.map(target) for target in targets]
        try:
            found = self.store.engine.match(templateMap, places, maps, effort)
        except AnatomicalEmbeddingError as error:
            self.reported.emit(str(error))
            return
        for target, targetMap, matches in zip(targets, maps, found, strict=True):
            each, source = self.listFor(target), madeFrom(templateMap, targetMap)
            answers = each.answers
            with NodeModify(each.node):
                for n, pointId in enumerate(ids):
                    old = answers.get(pointId)
                    answer = replace(judgement(matches, n, source), pointId="" if old is None else old.pointId)
                    answers[pointId] = each.write(labelOf(self.points, pointId), matches.points_ras[n], answer)
            each.keep(answers)

    def _retract(self, each: AnswerList, ids: list[str], soon: bool) -> None:
        """What was known of points where they were. A user's own answers stay and are marked; others go, but for those
        that are written anew at once (soon).
        """
        answers = each.answers
        for key in set(ids) & answers.keys():
            answer = answers[key]
            if answer.byHand:
                answers[key] = replace(answer, outdated=True)
                each.show(answers[key])
            elif not soon:
                each.remove(answers.pop(key))
        each.keep(answers)

    def _add(self, each: AnswerList, volumeNode) -> None:
        makeIdsUnique(each.node)
        self.lists[volumeNode.GetID()] = each
        self.listAdded.emit(each)

    def _templateMap(self):
        return self.store.map(self.template)

    def _ready(self) -> list:
        return [target for target in self.targets if self.store.map(target) is not None]

    def _places(self, templateMap, ids: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """(n, 3) in the template's own RAS mm, (n,) whether they lie in its scan."""
        places = fromWorld(self.template, [worldOf(self.points, pointId) for pointId in ids])
        return places, templateMap.contains(places)

    def _isByHand(self, pointId: str, volumeNode) -> bool:
        each = self.lists.get(volumeNode.GetID())
        answer = None if each is None else each.answers.get(pointId)
        return answer is not None and answer.byHand

    def _tellOutside(self, outside: set[str]) -> None:
        new = [labelOf(self.points, pointId) for pointId in sorted(outside - self.outside)]
        self.outside = outside
        if new:
            self.reported.emit(f"{', '.join(new)}: outside {self.template.GetName()}; move the point into that scan.")


def madeFrom(templateMap, targetMap) -> str:
    """Which weights and which voxels an answer is from."""
    of = templateMap.provenance
    return f"{of.weights_hash[:12]}-{of.scan_hash[:12]}-{targetMap.provenance.scan_hash[:12]}"


def judgement(matches, n: int, source: str) -> Answer:
    """What matching says of its n-th answer; source: see `madeFrom`."""
    if matches.status is None:
        return Answer("", UNCERTAIN, madeFrom=source)
    status, error, chance = (each[n] for each in (matches.status, matches.expected_error_mm, matches.probability))
    return Answer("", str(status), float(error), float(chance), source)


def _needsMatch(answer: Answer | None, source: str) -> bool:
    return answer is None or (not answer.byHand and answer.madeFrom != source)
