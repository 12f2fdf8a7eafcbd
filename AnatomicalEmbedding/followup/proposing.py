"""Match lesions of one study in other studies, and propose the places that are found. A person must review them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import PointsError
from ..matching.status import MATCHED, UNCERTAIN
from ..registration import BY_REGISTRATION
from .doubts import doubt_of, on_body
from .lesions import PROPOSED, Finding, Guess, Lesion, Measurement, Study
from .record import FollowUp

if TYPE_CHECKING:
    from ..embedding.map import EmbeddingMap
    from ..matching.match import Matches
    from ..relations.relation import Relation


def find_places(
    record: FollowUp,
    studies: Iterable[str],
    maps: Mapping[str, EmbeddingMap],
    effort: str = "standard",
    relation_of: Callable[[str, str], Relation] | None = None,
) -> tuple[FollowUp, dict[str, dict[str, str]]]:
    """Propose the place of each lesion in the given studies, except where a person has reviewed the lesion.

    Where a person has seen the lesion but measured it only in other studies, the axes of the nearest of them in time
    are offered.

    The place is found from a study that has a map and in which a person saw the lesion. If there are several such
    studies, the nearest in time is used. If there is no such study, the lesion's kept query is matched. A
    registration carries both ends of each axis of that study. Otherwise, the axes move with the place.

    Args:
        studies: keys of the studies to search.
        maps: by study key, the maps of these studies and of the studies in which a person saw lesions.
        effort: how many steps matching uses, such as "fast" or "standard".
        relation_of: returns the relation of one study to another, given their keys; default: by their maps.

    Returns:
        The record with the proposals and the queries that `keep_queries` added; and the reasons for missing proposals:
        study key -> lesion id -> sentence.

    Raises:
        AnatomicalEmbeddingError: a study is not in the record.
        MapError: the maps were made with different weights.
    """
    from ..relations.relation import MapRelation

    def by_maps(source: str, target: str) -> Relation:
        return MapRelation(maps[source], maps[target], effort)

    relate = relation_of or by_maps
    record = keep_queries(record, maps)
    reasons: dict[str, dict[str, str]] = {key: {} for key in studies}
    # key of the source -> (key of the target, lesion id)
    pairs_by_source: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for key in reasons:
        for lesion in record.lesions:
            if key in lesion.reviewed:
                continue
            source = _nearest_source(record, lesion, key, maps)
            if source is not None:
                pairs_by_source[source].append((key, lesion.id))
                continue
            try:
                proposal = _from_query(record, lesion, key, maps[key], effort)
            except PointsError as error:
                reasons[key][lesion.id] = f"{lesion.id}: {error}"
            else:
                record = record.propose(key, {lesion.id: proposal})
    for source, pairs in pairs_by_source.items():
        proposals = _from_study(record, source, pairs, maps, relate)
        for key, lesion_id in pairs:
            if lesion_id in proposals[key]:
                record = record.propose(key, {lesion_id: proposals[key][lesion_id]})
            else:
                label = record.study(source).label
                reasons[key][lesion_id] = outside_patient(lesion_id, label)
    for key in reasons:
        record = _with_offered_sizes(record, key, maps, relate)
    return record, reasons


def _from_study(
    record: FollowUp,
    source: str,
    pairs: Sequence[tuple[str, str]],
    maps: Mapping[str, EmbeddingMap],
    relate: Callable[[str, str], Relation],
) -> dict[str, dict[str, Finding]]:
    """Match lesions of the study `source` in other studies, all at once. pairs: (key of the other study, lesion id).

    Returns, by the key of the other study and by lesion id, the proposals. Lesions that were marked outside the patient
    have none.
    """
    from ..relations.relation import matches_in_all

    proposals: dict[str, dict[str, Finding]] = {key: {} for key, _ in pairs}
    ids = list(dict.fromkeys(lesion_id for _, lesion_id in pairs))
    points = np.array([record.finding(lesion_id, source).point_ras for lesion_id in ids])
    readable = on_body(maps[source], points)
    relations = [relate(source, key) for key in proposals]
    answers = matches_in_all(relations, points[readable])
    for key, relation, matches in zip(proposals, relations, answers, strict=True):
        for row, n in enumerate(np.flatnonzero(readable)):
            if (key, ids[n]) not in pairs:
                continue
            match = matches[[row]]
            doubt = doubt_of(match, points[n], maps[source], maps[key], relation)
            finding = record.finding(ids[n], source)
            size = _carried(finding, match.points_ras[0], relation, maps[source])
            proposals[key][ids[n]] = _proposal(match, source, doubt, size)
    return proposals


def _with_offered_sizes(
    record: FollowUp,
    key: str,
    maps: Mapping[str, EmbeddingMap],
    relate: Callable[[str, str], Relation],
) -> FollowUp:
    """Copy axes into each finding of the study `key` in which a person saw the lesion but did not measure it."""
    for lesion in record.lesions:
        finding = lesion.visible.get(key)
        if finding is None or finding.size.confirmed:
            continue
        measured = set()
        for study, study_finding in lesion.findings.items():
            if study_finding.size.confirmed and study_finding.size.axes:
                measured.add(study)
        source = _nearest_source(record, lesion, key, measured)
        if source is not None:
            relation = relate(source, key) if source in maps else None
            size = _carried(lesion.findings[source], finding.point_ras, relation, maps.get(source))
            record = record.offer_size(lesion.id, key, size)
    return record


def keep_queries(record: FollowUp, maps: Mapping[str, EmbeddingMap]) -> FollowUp:
    """Store the query of each place that a person has seen in a study with a map, unless these weights made it before.

    With its query, a lesion can be proposed in another study when the scan of this study is not loaded.
    """
    from ..matching.query import query_to_text, read_query

    for key, embedding in maps.items():
        for lesion in record.lesions:
            finding = lesion.visible.get(key)
            # the text of a query begins with the hash of its weights
            if finding is None or finding.query.startswith(embedding.provenance.weights_hash):
                continue
            point = np.array([finding.point_ras])
            if on_body(embedding, point)[0]:
                query = query_to_text(read_query(embedding, point))
                record = record.keep_query(lesion.id, key, query)
    return record


def outside_patient(lesion_id: str, study: str) -> str:
    """Return the sentence for a lesion that cannot be matched, because it was marked outside the patient."""
    return f"{lesion_id}: its place in {study} is outside the patient; correct this place."


def _nearest_source(
    record: FollowUp, lesion: Lesion, key: str, usable: Container[str]
) -> str | None:
    """Return the key of the study from which a lesion is found in the study `key`; None if there is no such study.

    A person must have seen the lesion in the returned study, and its key must be in `usable`. Of several studies, the
    nearest in time to `key` is returned; of two equally near studies, the earlier.
    """
    target = record.study(key)
    sources = [s for s in record.studies if s.key in usable and s.key in lesion.visible]
    is_dated = all(study.date is not None for study in (target, *sources))

    def interval(study: Study) -> int:
        """Return the days between the study and the target; without all dates, the steps in the record's order."""
        if is_dated:
            return abs((study.date - target.date).days)
        return abs(record.studies.index(study) - record.studies.index(target))

    # the first of equally near studies is the earlier
    nearest = min(sources, key=interval, default=None)
    return None if nearest is None else nearest.key


def _from_query(
    record: FollowUp, lesion: Lesion, key: str, target: EmbeddingMap, effort: str
) -> Finding:
    """Propose a lesion in the study `key` by its kept query. target: the map of this study.

    Raises PointsError if no query was made with the target's weights, or if the query is damaged.
    """
    from ..embedding.tensor_files import DAMAGED
    from ..matching.match import match_query
    from ..matching.query import query_from_text

    weights = target.provenance.weights_hash
    usable = {study for study, item in lesion.findings.items() if item.query.startswith(weights)}
    source = _nearest_source(record, lesion, key, usable)
    if source is None:
        raise PointsError("is marked in no other loaded study; mark it in a study.")
    source_finding = lesion.findings[source]
    try:
        (matches,) = match_query(query_from_text(source_finding.query), [target], effort)
    except DAMAGED:
        raise PointsError(
            f"its kept query is damaged; load the scan of {record.study(source).label}."
        ) from None
    doubt = doubt_of(matches, np.array(source_finding.point_ras), None, target, None)
    size = _carried(source_finding, matches.points_ras[0], None, None)
    return _proposal(matches, source, doubt, size)


def _proposal(matches: Matches, source: str, doubt: str, size: Measurement) -> Finding:
    """Propose the place of a match. source: key of the study. doubt: from `doubt_of`. size: from `_carried`."""
    place: Any = tuple(matches.points_ras[0].tolist())
    if matches.status is None:  # the weights have no calibration
        return Finding(PROPOSED, place, Guess(UNCERTAIN, source, doubt=doubt), size)
    error_mm = float(matches.expected_error_mm[0])
    probability = float(matches.probability[0])
    status = str(matches.status[0])
    if doubt and status == MATCHED:
        status = UNCERTAIN
    if status != UNCERTAIN:
        doubt = ""
    return Finding(PROPOSED, place, Guess(status, source, error_mm, probability, doubt), size)


def _carried(
    finding: Finding, place: Any, relation: Relation | None, source: EmbeddingMap | None
) -> Measurement:
    """Carry the axes of a lesion to its place in another study.

    Args:
        finding: the lesion in the study in which it was seen.
        place: (3,) RAS mm in the other study.
        relation: a registration carries both ends of each axis. Without it, or if an end lies outside the source, the
            axes move with the place.
        source: map of the study in which the lesion was seen; None if there is no relation.
    """
    size = Measurement(finding.size.long_axis, finding.size.short_axis)
    points: list[Any] = [finding.point_ras]  # then both ends of each axis
    for axis in size.axes.values():
        points.extend(axis)
    is_registered = relation is not None and relation.found_by == BY_REGISTRATION
    if not is_registered or not source.contains(np.array(points)).all():
        return size.moved(finding.point_ras, place)
    middle, *ends = map(tuple, relation.points(np.array(points)).points_ras.tolist())
    axes: dict[str, Any] = {}  # the fields long_axis and short_axis
    for n, kind in enumerate(size.axes):
        axes[f"{kind}_axis"] = ends[2 * n], ends[2 * n + 1]
    # the registered place and `place` may differ; the axes belong to `place`
    return Measurement(**axes).moved(middle, place)
