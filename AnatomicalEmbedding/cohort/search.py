"""Find one place in all scans of a cohort: by a point or a box in one scan, or by words.

First, the body coordinates of the place are compared with the body coordinates of all maps. If no cell of a scan is
near the place, the place is absent in this scan. The other scans are matched with coordinates alone. The best answers
are then refined, that is, matched again with descriptors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..embedding.cache import MapCache
from ..embedding.inference import volume_hash
from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError, MapError, ShareCallback
from ..matching.match import Matches, match_query
from ..matching.query import Query
from ..matching.status import ABSENT, MATCHED, UNCERTAIN, decide
from ..registration import BY_REGISTRATION
from ..relations.one_patient import MappedScan
from ..relations.relate import relate
from ..scan.sources import distinct_names
from ..scan.volume import Volume
from ..structures.locating import Example, Located, locate
from ..words import (
    INSIDE,
    OUTSIDE,
    Mention,
    Place,
    PlaceFinder,
    load_terms,
    not_understood,
    parse_query,
    shipped_atlas,
)
from ..words.derived_places import qualify
from ..words.presence import frame_fields
from .index import Hit, Index
from .manifest import Row
from .store import Store

_REFINED = 50  # default number of refined answers: matched with descriptors, or, for words, found in the scan itself
_FAR_MM = 60.0  # in the body frame: if the nearest cell of a scan is farther, the place is absent
_NEAR_MM = 30.0  # the same limit for answers that are not refined
_NEAR_WORDS_MM = 25.0  # the same limit for answers by words that are not refined
# matching with coordinates reads cells up to this distance from the cell where it starts
_FIT_REACH_MM = 84.0
_BLOCK_REACH_MM = 132.0  # the same distance for matching with descriptors
_BATCH_SCANS = 100  # scans matched at a time
_ABSENT_PROBABILITY = 0.01  # stated where no cell of the scan is near the place; by hand
_INSIDE_SHARE = 0.3  # a point lies in the place if its value in the atlas exceeds this share of the largest value
_FRAME_POINTS = 6  # points of a place in the atlas with which all scans are compared first
_RANK = {MATCHED: 0, UNCERTAIN: 1, ABSENT: 2}


@dataclass(frozen=True, eq=False)
class CohortAnswer:
    """One place in one scan.

    Args:
        status: "matched", "uncertain" or "absent".
        probability: for a point: chance that the scan shows the point and the answer is within 10 mm of it. For words:
            chance that `point_ras` is in the place. For a box: fraction of the box inside the scan. None if unknown.
        expected_error_mm: None if absent or without a calibration. point_ras: (3,) RAS mm; None if absent.
        similarity: similarity of the answer to the point in the example scan, 0 to 1; None for words.
    """

    row: Row
    status: str
    probability: float | None
    expected_error_mm: float | None
    point_ras: np.ndarray | None
    similarity: float | None = None

    @property
    def text(self) -> str:
        """Status and probability as a text."""
        if self.probability is None or self.status == ABSENT:
            return self.status
        unit = "" if self.similarity is None else " within 10 mm"
        return f"{self.status}, {self.probability:.0%}{unit}"


class Search:
    """Finds places in the maps that a store contains when the object is made. Reusing one object saves time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.index = Index(store)
        if not self.index.scans:
            raise AnatomicalEmbeddingError(
                f"{store.folder}: has no embedded scan yet; run `anatemb cohort run` first."
            )

    @cached_property
    def names(self) -> dict[int, str]:
        """A short, unique name of each embedded scan, by row id."""
        rows = [row for row, _ in self.index.scans.values()]
        names = distinct_names([row.scan for row in rows])
        return {row.id: name for row, name in zip(rows, names, strict=True)}

    def map_of(self, row: Row) -> EmbeddingMap:
        """Load the whole map of an embedded scan. Raises MapError if the map file is missing or damaged."""
        embedding = EmbeddingMap.load(self.store.map_path(row.scan_hash))
        return replace(embedding, provenance=replace(embedding.provenance, scan=row.scan))

    def point(
        self, query: Query, refined: int = _REFINED, step: ShareCallback = lambda share: None
    ) -> list[CohortAnswer]:
        """Search every scan for the point of a query. Scans with the highest probability come first.

        Args:
            query: the point.
            refined: how many answers to match with descriptors. All other answers come from coordinates alone and have
                no probability.
            step: called with the share of the work that is done, 0 to 1.

        Raises:
            MapError: the query comes from other weights.
        """
        if query.weights_hash != self.store.manifest.weights_hash:
            raise MapError(
                "the example scan was embedded with other weights than the cohort; use the same weights."
            )
        hits = list(self.index.nearest(query.coordinates.numpy()))
        near_hits = [hit for hit in hits if hit.distance_mm <= _FAR_MM]
        answers = [_absent(hit.row) for hit in hits if hit.distance_mm > _FAR_MM]
        first = self._match(query, near_hits, "coordinates", lambda share: None)
        pairs = sorted(zip(near_hits, first, strict=True), key=lambda pair: _order(pair[1]))
        # the best of the first answers are matched again with descriptors, if the query has any
        count = 0 if query.blocks is None else refined
        better = self._match(query, [hit for hit, _ in pairs[:count]], "standard", step)
        for hit, answer in pairs[count:]:
            answers.append(answer if hit.distance_mm <= _NEAR_MM else _absent(hit.row))
        return sorted([*better, *answers], key=_order)

    def registered(
        self,
        results: Sequence[CohortAnswer],
        example: MappedScan,
        point_ras: np.ndarray,
        cache: MapCache | None = None,
        refined: int = _REFINED,
    ) -> list[CohortAnswer]:
        """Replace answers in other scans of the example's patient: the two scans are registered, not matched.

        The Patient IDs are read from the DICOM files, since the store contains none. If a scan cannot be read, has
        changed, or does not show the patient of the example, its answer stays.

        Args:
            results: of `point` for the point of the example.
            example: the example scan.
            point_ras: (3,) RAS mm of the example.
            cache: where registrations are kept.
            refined: how many answers may be replaced.
        """
        answers = list(results)
        patient_id = example.volume.patient_id
        if not patient_id:
            return answers
        for number, answer in enumerate(answers[:refined]):
            row = answer.row
            is_example = row.scan_hash == example.map.provenance.scan_hash
            if is_example or row.source.patient_id != patient_id:
                continue
            volume = self.read_volume(row)
            if volume is None:
                continue
            relation = relate(example, MappedScan(volume, self.map_of(row)), cache=cache)
            if relation.found_by == BY_REGISTRATION:
                answers[number] = _match_answer(row, relation.points(point_ras[None]))
        return sorted(answers, key=_order)

    def _match(
        self, query: Query, hits: Sequence[Hit], effort: str, step: ShareCallback
    ) -> list[CohortAnswer]:
        """Match the point of `query` in the scans of `hits`, in batches, so that few maps are in memory at a time."""
        answers = []
        for start in range(0, len(hits), _BATCH_SCANS):
            maps = [self._map_near(hit, effort) for hit in hits[start : start + _BATCH_SCANS]]
            answers += match_query(query, maps, effort)
            step(len(answers) / len(hits))
        return [_match_answer(hit.row, answer) for hit, answer in zip(hits, answers, strict=True)]

    def _map_near(self, hit: Hit, effort: str) -> EmbeddingMap:
        """Return the part of a scan's map around a hit; for the effort "coordinates", without descriptors."""
        if effort == "coordinates":
            return hit.cells.map_near(hit.cell, _FIT_REACH_MM)
        return hit.cells.map_near(
            hit.cell, _BLOCK_REACH_MM, self.store.map_path(hit.facts["scan_hash"])
        )

    def box(
        self, example: Example, refined: int = _REFINED, step: ShareCallback = lambda share: None
    ) -> list[CohortAnswer]:
        """Search every scan for the box of an example. Scans with the highest probability come first.

        Args:
            example: the example.
            refined: in how many scans the whole box is located; in others, only the centre of the box is found.
            step: called with the share of the work that is done, 0 to 1.
        """
        query = example.query
        centre = Query(
            query.weights_hash, query.coordinates[6:].mean(0, keepdim=True), query.sizes[6:7]
        )
        answers = self.point(centre, refined=0)
        candidates = [n for n, answer in enumerate(answers) if answer.status != ABSENT][:refined]
        for number, candidate in enumerate(candidates, start=1):
            row = answers[candidate].row
            answers[candidate] = _box_answer(
                row, locate({"box": [example]}, self.map_of(row))["box"]
            )
            step(number / len(candidates))
        return sorted(answers, key=_order)

    def words(
        self, mention: Mention, refined: int = _REFINED, step: ShareCallback = lambda share: None
    ) -> list[CohortAnswer]:
        """Search every scan for a place in words. The scans that most probably show the place come first.

        Returns one answer, a point, for each scan. The expected error of an answer is not calibrated: it is the
        probability that the point lies outside the place, times the mean distance from the point to the region that the
        place probably fills.

        Args:
            mention: the parsed words; the first place that they name is searched for.
            refined: how many scans to read and to search with `PlaceFinder`. In all other scans, and in scans that can
                no longer be read, the answer is the cell nearest to the middle of the place, with status "uncertain".
                If no cell lies near the place, the status is "absent".
            step: called with the share of the work that is done, 0 to 1.
        """
        atlas = shipped_atlas(self.store.manifest.weights_hash)
        points, middle = _points_in_frame(mention.places[0], mention, atlas)
        hits = list(self.index.nearest(points))
        answers = [_absent(hit.row) for hit in hits if hit.distance_mm > _FAR_MM]
        near_hits = [hit for hit in hits if hit.distance_mm <= _FAR_MM]
        middles = {hit.row.id: hit for hit in self.index.nearest(middle)}
        near_hits.sort(key=lambda hit: middles[hit.row.id].distance_mm)
        for number, hit in enumerate(near_hits, start=1):
            volume = self.read_volume(hit.row) if number <= refined else None
            if volume is None:
                answers.append(_cell_answer(hit, middles[hit.row.id]))
                continue
            finder = PlaceFinder(self.map_of(hit.row), volume, atlas)
            place = finder.place(mention.places[0], mention.qualifier)
            answers.append(_words_answer(hit.row, place))
            step(number / min(len(near_hits), refined))  # of the scans that are read
        return sorted(answers, key=_order)

    def read_volume(self, row: Row) -> Volume | None:
        """Return the scan of a manifest row; None if the scan cannot be read or has changed since it was embedded."""
        try:
            volume = row.source.read()
        except AnatomicalEmbeddingError:
            return None
        return volume if volume_hash(volume) == row.scan_hash else None


def one_mention(words: str) -> Mention:
    """Parse words that name one place. Raises AnatomicalEmbeddingError if they name no place or several places."""
    mentions = []
    for part in parse_query(words):
        if not part.mentions:
            raise AnatomicalEmbeddingError(not_understood(part.text))
        mentions += part.mentions
    if not mentions:
        raise AnatomicalEmbeddingError(not_understood(words))
    titles = [load_terms()[name].title for mention in mentions for name in mention.places]
    if len(titles) > 1:
        raise AnatomicalEmbeddingError(
            f"{words!r}: names {len(titles)} places ({', '.join(titles[:6])}); name one."
        )
    return mentions[0]


def _points_in_frame(name: str, mention: Mention, atlas: object) -> tuple[np.ndarray, np.ndarray]:
    """Return points (m, 3) of the place `name` and the most central of these points (3,), in mm of the body frame.

    If `mention` has a qualifier ("upper part of", "above"), the points lie in the part or space of the qualifier.
    """
    frame = frame_fields(atlas)
    field = frame.field(name)
    if mention.qualifier is not None:
        field = qualify(frame.grid, field, mention.qualifier, load_terms()[name].side)
    least = _INSIDE_SHARE * max(float(field.values.max()), 1e-6)
    cells = np.argwhere(field.values > least)[:, ::-1]  # i, j, k
    if not len(cells):
        raise AnatomicalEmbeddingError(
            f"{load_terms()[name].title}: the atlas has no place of this name; give an example scan with --like."
        )
    points = frame.grid.origin + frame.grid.step * (cells + field.first)
    middle = points[np.linalg.norm(points - frame.grid.mean(field), axis=1).argmin()]
    stride = math.ceil(len(points) / _FRAME_POINTS)  # so that there are at most _FRAME_POINTS
    return np.concatenate([points[::stride], middle[None]]), middle


def _box_answer(row: Row, located: Located) -> CohortAnswer:
    """Return the answer for a box that was located in the scan of a manifest row."""
    if located.status == "absent":
        return _absent(row)
    error_mm = float(np.sqrt(np.square(located.sigma_mm).mean()))
    status = str(decide(located.present, error_mm))
    middle_ras = located.in_scan(located.box_ras).mean(axis=0)
    return CohortAnswer(row, status, located.present, error_mm, middle_ras)


def _cell_answer(hit: Hit, middle: Hit) -> CohortAnswer:
    """Return the answer for words in a scan that is not read.

    Args:
        hit: the cell of the scan that is nearest to the place.
        middle: the cell of the scan that is nearest to the middle of the place.
    """
    if hit.distance_mm > _NEAR_WORDS_MM:
        return _absent(hit.row)
    point_ras = (hit.cells.cell_to_ras @ [*middle.cell, 1])[:3]
    return CohortAnswer(hit.row, UNCERTAIN, None, None, point_ras)


def _absent(
    row: Row, probability: float = _ABSENT_PROBABILITY, similarity: float | None = None
) -> CohortAnswer:
    return CohortAnswer(row, ABSENT, probability, None, None, similarity)


def _match_answer(row: Row, answer: Matches) -> CohortAnswer:
    """Convert the match of one point. Without calibration, it has no status: it is then uncertain."""
    similarity = float(answer.score[0])
    if answer.status is None:
        return CohortAnswer(row, UNCERTAIN, None, None, answer.points_ras[0], similarity)
    status = str(answer.status[0])
    probability = float(answer.probability[0])
    if status == ABSENT:
        return _absent(row, probability, similarity)
    error_mm = float(answer.expected_error_mm[0])
    return CohortAnswer(row, status, probability, error_mm, answer.points_ras[0], similarity)


def _words_answer(row: Row, place: Place) -> CohortAnswer:
    """Convert the place of words in one scan. Only a place inside the scan can be more than uncertain."""
    if place.status == OUTSIDE or place.point_ras is None:
        return _absent(row, max(1 - float(place.probability), _ABSENT_PROBABILITY))
    error = _error_mm(place)
    status = str(decide(1.0, error)) if place.status == INSIDE else UNCERTAIN
    return CohortAnswer(row, status, float(place.probability), error, np.asarray(place.point_ras))


def _error_mm(place: Place) -> float:
    """Estimate the error of the point `place.point_ras`, mm: the chance that the point is wrong, times the mean
    distance from the point to the cells of `place.region`."""
    away = [place.grid.position(place.region, axis) - place.point_ras[axis] for axis in range(3)]
    distance = np.sqrt(sum(np.square(offsets) for offsets in away))
    weight = np.square(place.region.values)
    return float(
        (1 - place.probability) * (distance * weight).sum() / max(float(weight.sum()), 1e-9)
    )


def _order(answer: CohortAnswer) -> tuple[float, float]:
    """Return a sort key: matched answers first, then by falling probability or, without one, similarity."""
    chance = answer.probability
    if chance is None:
        chance = answer.similarity or 0
    return _RANK[answer.status], -chance
