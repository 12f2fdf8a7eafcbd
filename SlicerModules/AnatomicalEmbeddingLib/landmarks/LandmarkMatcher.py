"""The second step of a click: where the targets show points of the template, and how far each answer can be trusted.

Points are paired with answers by control point ID. The answers are written by `AnswerLists`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from AnatomicalEmbedding.matching.status import UNCERTAIN

from ..shared.maps.MapStore import MapStore
from ..shared.VolumeNodes import fromWorld
from .AnswerList import Answer
from .AnswerLists import AnswerLists
from .ControlPoints import definedIds, labelOf, worldOf


class LandmarkMatcher:
    """outside: IDs of points that lie beyond the template's scan. Methods return sentences for the user."""

    def __init__(self, store: MapStore, answers: AnswerLists) -> None:
        self.store, self._answers = store, answers
        self.outside: set[str] = set()

    def matchMissing(self, template, effort: str) -> list[str]:
        """Match points that have no answer, or one by other weights or of other voxels, in all targets with a map."""
        points = self._answers.points
        ids, templateMap = definedIds(points), self.store.map(template)
        if templateMap is None or not ids:
            return []
        places, inside = self._placesIn(template, ids)
        sentences = self._noteOutside(template, ids, inside, set())
        groups: dict[tuple[int, ...], list] = {}
        for target in self._targetsWithMap():
            source = madeFrom(templateMap, self.store.map(target))
            known = self._answers.answersIn(target)
            missing = tuple(n for n in np.flatnonzero(inside) if _isMissing(known.get(ids[n]), source))
            if missing:
                groups.setdefault(missing, []).append(target)
        for missing, targets in groups.items():  # mostly one group: a new point, all targets
            sentences += self._match(template, [ids[n] for n in missing], places[list(missing)], targets, effort)
        return sentences

    def matchMoved(self, template, ids: Iterable[str], effort: str) -> list[str]:
        """Match points again that lie elsewhere now. The user's own answers stay, and are marked as outdated."""
        ids = [pointId for pointId in ids if worldOf(self._answers.points, pointId) is not None]
        templateMap = self.store.map(template)
        targets = self._targetsWithMap() if templateMap is not None else []
        self._answers.retract(ids, keptFor=targets)  # answers that are written anew at once stay drawn
        if templateMap is None or not ids:
            return []
        places, inside = self._placesIn(template, ids)
        sentences = self._noteOutside(template, ids, inside, self.outside - set(ids))
        for n, pointId in enumerate(ids):
            if inside[n]:
                free = [target for target in targets if not self._isByHand(pointId, target)]
                sentences += self._match(template, [pointId], places[n : n + 1], free, effort)
            else:
                self._answers.retract([pointId])
        return sentences

    def _match(self, template, ids: list[str], places: np.ndarray, targets: list, effort: str) -> list[str]:
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

        if not targets:
            return []
        templateMap, maps = self.store.map(template), [self.store.map(target) for target in targets]
        try:
            found = self.store.engine.match(templateMap, places, maps, effort)
        except AnatomicalEmbeddingError as error:
            return [str(error)]
        for target, targetMap, matches in zip(targets, maps, found, strict=True):
            source = madeFrom(templateMap, targetMap)
            answers = [judgement(matches, n, source) for n in range(len(ids))]
            self._answers.write(target, ids, matches.points_ras, answers)
        return []

    def _targetsWithMap(self) -> list:
        return [target for target in self._answers.targets if self.store.map(target) is not None]

    def _placesIn(self, template, ids: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """(n, 3) in the template's own RAS mm; (n,) bool, whether its scan holds them."""
        places = fromWorld(template, [worldOf(self._answers.points, pointId) for pointId in ids])
        return places, self.store.map(template).contains(places)

    def _isByHand(self, pointId: str, target) -> bool:
        answer = self._answers.answersIn(target).get(pointId)
        return answer is not None and answer.byHand

    def _noteOutside(self, template, ids: list[str], inside: np.ndarray, others: set[str]) -> list[str]:
        """Note the points outside the template's scan; a sentence names the new ones."""
        before, self.outside = (
            self.outside,
            others | {i for i, isInside in zip(ids, inside, strict=True) if not isInside},
        )
        new = [labelOf(self._answers.points, pointId) for pointId in sorted(self.outside - before)]
        return [f"{', '.join(new)}: outside {template.GetName()}; move the point into that scan."] if new else []


def madeFrom(templateMap, targetMap) -> str:
    """A key of the weights and the voxels that an answer was made from."""
    of = templateMap.provenance
    return f"{of.weights_hash[:12]}-{of.scan_hash[:12]}-{targetMap.provenance.scan_hash[:12]}"


def judgement(matches, n: int, source: str) -> Answer:
    """The n-th match as an answer without a point. source: see `madeFrom`."""
    if matches.status is None:
        return Answer("", UNCERTAIN, madeFrom=source)
    status, error, chance = (each[n] for each in (matches.status, matches.expected_error_mm, matches.probability))
    return Answer("", str(status), float(error), float(chance), source)


def _isMissing(answer: Answer | None, source: str) -> bool:
    return answer is None or (not answer.byHand and answer.madeFrom != source)
