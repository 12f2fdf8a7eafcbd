"""The second step of a click: where the targets show points of the template, and how far each answer can be trusted.

Points are paired with answers by control point ID. The answers are written by `AnswerLists`.
"""

from __future__ import annotations

import numpy as np

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
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

    def match(self, template, effort: str, moved: str = "") -> list[str]:
        """Match points that have no answer, or one by other weights or of other voxels, in all targets with a map.

        moved: ID of a point that lies elsewhere now and is matched again; the user's own answers to it stay, and are
        marked as outdated.
        """
        ids, templateMap = definedIds(self._answers.points), self.store.map(template)
        if templateMap is None or not ids:
            self._answers.retract(moved)
            return []
        places = fromWorld(template, [worldOf(self._answers.points, pointId) for pointId in ids])
        inside = templateMap.contains(places)
        sentences = self._noteOutside(template, {ids[n] for n in np.flatnonzero(~inside)})
        targets = [target for target in self._answers.targets if self.store.map(target) is not None]
        # answers that are written anew at once stay drawn
        self._answers.retract(moved, keptFor=() if moved in self.outside else targets)
        groups: dict[tuple[int, ...], list] = {}
        for target in targets:
            source = madeFrom(templateMap, self.store.map(target))
            known = self._answers.answersIn(target)
            missing = tuple(
                n for n in np.flatnonzero(inside) if not _isCurrent(known.get(ids[n]), source, ids[n] == moved)
            )
            if missing:
                groups.setdefault(missing, []).append(target)
        for missing, group in groups.items():  # mostly one group: a new point, all targets
            sentences += self._match(template, [ids[n] for n in missing], places[list(missing)], group, effort)
        return sentences

    def _match(self, template, ids: list[str], places: np.ndarray, targets: list, effort: str) -> list[str]:
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

    def _noteOutside(self, template, outside: set[str]) -> list[str]:
        """Note the points outside the template's scan; a sentence names the new ones."""
        new = [labelOf(self._answers.points, pointId) for pointId in sorted(outside - self.outside)]
        self.outside = outside
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


def _isCurrent(answer: Answer | None, source: str, hasMoved: bool) -> bool:
    return answer is not None and (answer.byHand or (answer.madeFrom == source and not hasMoved))
