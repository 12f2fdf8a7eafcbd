"""Second step after a click (see `LandmarkLogic`): find the template's points in the targets, with expected errors.

Each answer is stored under the control point ID of its template point. `AnswerLists` writes the answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.matching.status import MATCHED, UNCERTAIN
from AnatomicalEmbedding.registration import BY_REGISTRATION

from ..shared.maps.SceneRelations import SceneRelations
from ..shared.VolumeNodes import fromWorld, holds, isFilm
from .AnswerList import Answer
from .AnswerLists import AnswerLists, Correction
from .ControlPoints import definedIds, fromNode, labelOf, worldOf
from .Edges import edgesIn, hasEdges, setEdges
from .LandmarkSets import LandmarkSets, isFromSet

if TYPE_CHECKING:
    from AnatomicalEmbedding.matching.match import Matches


class LandmarkMatcher:
    """Finds the template's points in the targets. outside: IDs of the points that lie outside the template."""

    def __init__(self, relations: SceneRelations, answers: AnswerLists) -> None:
        self.store = relations.store
        self._relations = relations
        self._answers = answers
        self._sets = LandmarkSets(relations)
        self.outside: set[str] = set()
        self._refusals: list[str] = []

    def match(self, template, moved: str = "") -> list[str]:
        """Match points in all targets that have a map. Returns messages for the user.

        A point is matched in a target without an answer, or if the answer was made with other weights or voxels.
        It is matched again when a better relation of the two scans has become ready, and when the user has placed its
        answer in another target: this place is then one more example of the point.
        moved: ID of a new or moved point, or "". This point is matched again. The user's own answers to this point stay
        and are marked as outdated.
        """
        ids = definedIds(self._answers.points)
        if self.store.map(template) is None or not ids:
            self._answers.retract(moved)
            return []
        places = fromWorld(template, [worldOf(self._answers.points, pointId) for pointId in ids])
        inside = holds(template, places)
        sentences = self._noteOutside(template, {ids[n] for n in np.flatnonzero(~inside)})
        targets = [target for target in self._answers.targets if self.store.map(target) is not None]
        # answers that are overwritten below are not removed here: otherwise they would flicker in the views
        self._answers.retract(moved, keptFor=() if moved in self.outside else targets)
        self._relations.request(template, targets)
        cts = [node.GetName() for node in targets if isFilm(template) and not isFilm(node)]
        if cts:
            sentences.append(
                f"{', '.join(cts)}: points of a film are not found in a CT; make the CT the template."
            )
        targets = self._relations.reachable(template, targets)
        sentences += self._noteRefusals(template, targets)
        corrections = self._answers.corrections()
        placeOf = dict(zip(ids, places, strict=True))
        sources = {}
        # indices of the points without an answer -> targets; these are matched together
        groups: dict[tuple[int, ...], list] = {}
        for target in targets:
            sources[target] = self._sources(template, target, placeOf, corrections)
            isApart = self._relations.areApart(template, target)
            answers = self._answers.answersIn(target)
            missing = []
            for n in np.flatnonzero(inside):
                answer = answers.get(ids[n])
                source = sources[target][ids[n]]
                if not _isCurrent(answer, source, ids[n] == moved, isApart):
                    missing.append(n)
            if missing:
                groups.setdefault(tuple(missing), []).append(target)
        for missing, group in groups.items():
            missingIds = [ids[n] for n in missing]
            groupSources = {target: sources[target] for target in group}
            sentences += self._match(
                template, missingIds, places[list(missing)], groupSources, corrections
            )
        if hasEdges(self._answers.points):
            self._drawEdges(template, places[0])
        return sentences

    def _drawEdges(self, template, centre: np.ndarray) -> None:
        """Turn and resize the plane or box of each target as in the template, unless the answer is the user's own.

        Args:
            template: the scan of the plane or box.
            centre: (3,) its centre in the template, RAS mm.
        """
        from AnatomicalEmbedding.matching.local_affine import vectors_from_body, vectors_to_body

        if isFilm(template):
            return
        edges = edgesIn(template, self._answers.points)
        bodyEdges = vectors_to_body(self.store.map(template), centre, edges)
        for answerList in self._answers.lists.values():
            volume = answerList.volumeNode
            node = answerList.node
            embedding = self.store.map(volume)
            answers = answerList.answers
            if embedding is None or isFilm(volume):
                continue
            for pointId, answer in answers.items():
                isOwn = answer.byHand and answer.edges
                if isOwn or answerList.worldOf(answer) is None:
                    continue
                place = fromNode(node, answer.pointId)
                setEdges(node, vectors_from_body(embedding, place, bodyEdges))
                numbers = edgesIn(volume, node).round(3).ravel().tolist()
                answers[pointId] = replace(answer, edges=tuple(numbers))
            answerList.keep(answers)

    def _match(
        self,
        template,
        ids: list[str],
        places: np.ndarray,
        sources: Mapping[object, Mapping[str, str]],
        corrections: Mapping[str, Sequence[Correction]],
    ) -> list[str]:
        """Match points in targets and write the answers. sources: target -> result of `_sources`."""
        targets = list(sources)
        try:
            targetMatches = self._relations.match(template, places, targets)
            for n, target in enumerate(targets):
                targetMatches[n] = self._withExamples(
                    template, target, ids, targetMatches[n], corrections
                )
        except AnatomicalEmbeddingError as error:
            return [str(error)]
        for target, matches in zip(targets, targetMatches, strict=True):
            doubts = self._relations.doubts(template, places, target, matches)
            unitMm = self.store.map(target).unit_mm
            answers = []
            for n, pointId in enumerate(ids):
                answer = judgement(matches, n, sources[target][pointId], doubts[n])
                answers.append(replace(answer, unitMm=unitMm))
            self._answers.write(target, ids, matches.points_ras, answers)
        return []

    def _withExamples(
        self,
        template,
        target,
        ids: Sequence[str],
        matches: Matches,
        corrections: Mapping[str, Sequence[Correction]],
    ) -> Matches:
        """Combine the answers from the template with those from all other examples of the points.

        These are the user's corrections in other targets, and the landmark set of the point list, unless the template
        shows the target's patient.

        Args:
            template: the scan of the points.
            target: the scan of the answers.
            ids: IDs of the N points.
            matches: the N answers from the template.
            corrections: by the ID of the point.
        """
        from AnatomicalEmbedding.landmarks.combination import combine
        from AnatomicalEmbedding.matching.match import join_matches

        points = self._answers.points
        setAnswers = {}
        if self._relations.computed(template, target) is None:
            setAnswers = self._sets.examplesIn(points, target, ids)
        if not setAnswers and not corrections.keys() & set(ids):
            return matches
        rows = []
        unitMm = self.store.map(target).unit_mm
        for n, pointId in enumerate(ids):
            answers = [matches[[n]]]
            weights = [1.0]
            for correction in corrections.get(pointId, ()):
                if self._isExample(correction, target):
                    place = correction.place[None]
                    answers += self._relations.match(correction.volumeNode, place, [target])
                    weights.append(1.0)
            if pointId in setAnswers:
                setMatches, setWeights = setAnswers[pointId]
                answers.append(setMatches)
                weights += setWeights.tolist()
                weights[0] = 0.0 if isFromSet(points, pointId) else 1.0
            joined = join_matches([replace(answer, evidence=None) for answer in answers])
            if len(weights) > 1:
                joined = combine(joined, np.array(weights), unit_mm=unitMm)
            rows.append(joined)
        return join_matches(rows)

    def _isExample(self, correction: Correction, target) -> bool:
        """Return True if the place of a correction can be found in a target."""
        volume = correction.volumeNode
        return volume is not target and self._relations.relation(volume, target) is not None

    def _sources(
        self,
        template,
        target,
        places: Mapping[str, np.ndarray],
        corrections: Mapping[str, Sequence[Correction]],
    ) -> dict[str, str]:
        """Return point ID -> `madeFrom` of its answer in a target.

        The text begins with the user's corrections of the point in other targets, its landmark set and its place in the
        template. It is longer if the relation of the scans was computed in the background, or if they seem not to show
        the one patient that the user has named.

        Args:
            template: the scan of the points.
            target: the scan of the answers.
            places: ID of each point -> its place (3,) in the template.
            corrections: by the ID of the point.
        """
        source = madeFrom(self.store.map(template), self.store.map(target))
        relation = self._relations.relation(template, target)
        if relation.refusal:
            source = f"{source}-doubted"
        elif relation is self._relations.computed(template, target):
            source = f"{source}-{BY_REGISTRATION}"
        sources = {}
        for pointId, place in places.items():
            keys = ""
            for correction in corrections.get(pointId, ()):
                if self._isExample(correction, target):
                    scanHash = self.store.map(correction.volumeNode).provenance.scan_hash
                    keys += f"{scanHash[:12]} {np.round(correction.place, 1)}+"
            keys += self._sets.key(self._answers.points, pointId)
            sources[pointId] = f"{keys}{place.round(1)} {source}"
        return sources

    def _noteRefusals(self, template, targets: list) -> list[str]:
        """Return a sentence, once for each target, if the template and the target seem not to show the one patient that
        the user has named."""
        refusals = []
        for target in targets:
            why = self._relations.relation(template, target).refusal
            if why:
                refusals.append(f"{template.GetName()} and {target.GetName()}: {why}")
        new = [text for text in refusals if text not in self._refusals]
        self._refusals = refusals
        return [f"{text} The points are matched, and uncertain." for text in new]

    def _noteOutside(self, template, outside: set[str]) -> list[str]:
        """Store the IDs of all points outside the template. Returns [a sentence on new IDs], or [] without new IDs."""
        new = [labelOf(self._answers.points, pointId) for pointId in sorted(outside - self.outside)]
        self.outside = outside
        if not new:
            return []
        return [f"{', '.join(new)}: outside {template.GetName()}; move the point into this scan."]


def madeFrom(templateMap, targetMap) -> str:
    """Return a text that identifies the sources of an answer: the weights, and the voxels of both scans."""
    provenance = templateMap.provenance
    return f"{provenance.weights_hash[:12]}-{provenance.scan_hash[:12]}-{targetMap.provenance.scan_hash[:12]}"


def judgement(matches, n: int, source: str, doubt: str) -> Answer:
    """Return one match as an answer without a control point (pointId "").

    Args:
        matches: the matches.
        n: number of the match.
        source: result of `madeFrom`.
        doubt: what speaks against the match; such a match is at most uncertain.
    """
    if matches.status is None:
        return Answer("", UNCERTAIN, madeFrom=source)
    status = str(matches.status[n])
    if doubt and status == MATCHED:
        status = UNCERTAIN
    if status != UNCERTAIN:
        doubt = ""
    errorMm = float(matches.expected_error_mm[n])
    return Answer("", status, errorMm, float(matches.probability[n]), source, doubt=doubt)


def _isCurrent(answer: Answer | None, source: str, hasMoved: bool, isApart: bool) -> bool:
    """Return False if the point must be matched. While a correspondence is computed, its earlier answer stays."""
    if answer is None or answer.byHand:
        return answer is not None
    isSame = answer.madeFrom == source if isApart else answer.madeFrom.startswith(source)
    return isSame and not hasMoved
