"""Match lesions of one study in other studies, and propose the places that are found. A person must review them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import PointsError
from ..matching.status import UNCERTAIN
from ..scan.geometry import transform_points
from .lesions import PROPOSED, Finding, Guess, Lesion, Measurement
from .record import FollowUp

if TYPE_CHECKING:
    from ..embedding.map import EmbeddingMap
    from ..matching.match import Matches
    from ..registration.correspondence import Correspondence
    from ..registration.patient_scans import Refusal

_NEAR_BODY_MM = 12.0  # a lesion of the skin may lie outside the body cells, but at most this far from the nearest one


def find_places(
    record: FollowUp,
    studies: Iterable[str],
    maps: Mapping[str, EmbeddingMap],
    effort: str = "standard",
    correspondence: Callable[[str, str], Correspondence | Refusal | None] = lambda source, target: None,
) -> tuple[FollowUp, dict[str, dict[str, str]]]:
    """Propose the place of each lesion in the given studies, except where a person has reviewed the lesion.

    The place is found from a study that has a map and in which a person saw the lesion. If there are several such
    studies, the nearest in time is used. If there is no such study, the lesion's kept query is matched. A
    correspondence carries both ends of each axis of that study. Otherwise, the axes move with the place.

    Args:
        studies: keys of the studies to search.
        maps: by study key, the maps of these studies and of the studies in which a person saw lesions.
        effort: how many steps matching uses, such as "fast" or "standard".
        correspondence: returns the correspondence from one study to another, given their keys; None or a Refusal to
            match the lesions, see `registration.patient_scans.answers`.

    Returns:
        The record with the proposals and the queries that `keep_queries` added; and the reasons for missing proposals:
        study key -> lesion id -> sentence.

    Raises:
        AnatomicalEmbeddingError: a study is not in the record.
        MapError: the maps were made with different weights.
    """
    from ..registration.patient_scans import Refusal, answers

    record = keep_queries(record, maps)
    reasons: dict[str, dict[str, str]] = {key: {} for key in studies}
    wanted: dict[str, list[tuple[str, str]]] = defaultdict(list)  # key of the source -> (key of the target, lesion id)
    for key in reasons:
        for lesion in record.lesions:
            known = lesion.findings.get(key)
            if known is not None and known.reviewed:
                continue
            source = _nearest_source(record, lesion.findings, key, maps)
            if source is not None:
                wanted[source].append((key, lesion.id))
                continue
            try:
                record = record.propose(key, {lesion.id: _from_query(record, lesion, key, maps[key], effort)})
            except PointsError as error:
                reasons[key][lesion.id] = f"{lesion.id}: {error}"
    for source, pairs in wanted.items():
        targets, names = (list(dict.fromkeys(values)) for values in zip(*pairs, strict=True))
        points = np.array([record.finding(name, source).point_ras for name in names])
        readable = _on_body(maps[source], points)
        fields = [correspondence(source, key) for key in targets]
        found = answers(maps[source], points[readable], [maps[key] for key in targets], fields, effort)
        carriers = [None if isinstance(field, Refusal) else field for field in fields]
        row = {name: n for n, name in enumerate(np.array(names)[readable])}
        for key, name in pairs:
            if name in row:
                n, seen = targets.index(key), record.finding(name, source)
                size = _carried(seen.size, carriers[n], maps[source])
                record = record.propose(key, {name: _proposal(seen, found[n], row[name], source, size)})
            else:
                reasons[key][name] = outside_patient(name, record.study(source).label)
    return record, reasons


def keep_queries(record: FollowUp, maps: Mapping[str, EmbeddingMap]) -> FollowUp:
    """Store the query of each place that a person has seen in a study with a map, unless these weights made it before.

    With its query, a lesion can be proposed in another study when the scan of this study is not loaded.
    """
    from ..matching.query import query_to_text, read_query

    for key, embedding in maps.items():
        for lesion in record.lesions:
            found = lesion.findings.get(key)
            if found is None or not found.visible or found.query.startswith(embedding.provenance.weights_hash):
                continue
            point = np.array([found.point_ras])
            if _on_body(embedding, point)[0]:
                record = record.keep_query(lesion.id, key, query_to_text(read_query(embedding, point)))
    return record


def carry_points(
    source: EmbeddingMap, points_ras: np.ndarray, targets: Iterable[EmbeddingMap], effort: str = "standard"
) -> tuple[list[Matches], np.ndarray]:
    """Match points of one study in other studies. Points that do not lie on the patient's body are not matched.

    Args:
        points_ras: (n, 3) RAS mm in the source.

    Returns:
        For each target, the matches of the points on the body; and (n,) bool: whether each point lies on the body.
    """
    from ..matching.match import match_all

    on_body = _on_body(source, points_ras)
    return match_all(source, points_ras[on_body], list(targets), effort), on_body


def outside_patient(lesion_id: str, study: str) -> str:
    """Return the sentence for a lesion that cannot be matched, because it was marked outside the patient."""
    return f"{lesion_id}: its place in {study} is outside the patient; correct this place."


def _nearest_source(record: FollowUp, findings: Mapping[str, Finding], key: str, usable: Container[str]) -> str | None:
    """Return the key of the study from which a lesion is found in the study `key`; None if there is no such study.

    A person must have seen the lesion in the returned study, and its key must be in `usable`. Of several studies, the
    nearest in time to `key` is returned; of two equally near studies, the earlier. findings: the findings of the
    lesion, by study key.
    """
    seen = [s for s in record.studies if s.key in usable and s.key in findings and findings[s.key].visible]
    compared = (record.study(key), *seen)
    dated = all(study.date is not None for study in compared)
    time = {s.key: s.date.toordinal() if dated else record.studies.index(s) for s in compared}
    return min(seen, key=lambda study: abs(time[study.key] - time[key])).key if seen else None


def _from_query(record: FollowUp, lesion: Lesion, key: str, target: EmbeddingMap, effort: str) -> Finding:
    """Propose a lesion in the study `key` by its kept query. target: the map of this study.

    Raises PointsError if no query was made with the target's weights, or if the query is damaged.
    """
    from ..embedding.tensor_files import DAMAGED
    from ..matching.match import match_query
    from ..matching.query import query_from_text

    weights = target.provenance.weights_hash
    kept = {each for each, found in lesion.findings.items() if found.query.startswith(weights)}
    source = _nearest_source(record, lesion.findings, key, kept)
    if source is None:
        raise PointsError("is marked in no other loaded study; mark it in a study.")
    seen = lesion.findings[source]
    try:
        (matches,) = match_query(query_from_text(seen.query), [target], "standard" if effort == "thorough" else effort)
    except DAMAGED:
        raise PointsError(f"its kept query is damaged; load the scan of {record.study(source).label}.") from None
    return _proposal(seen, matches, 0, source)


def _proposal(seen: Finding, matches: Matches, number: int, source: str, size: Measurement | None = None) -> Finding:
    """Propose the place of match `number`. seen: the finding in the study `source`.

    size: its axes in the other study; None to move the axes of `seen` with the place.
    """
    guess = Guess(UNCERTAIN, source)  # if the weights have no calibration
    if matches.status is not None:
        error, probability = float(matches.expected_error_mm[number]), float(matches.probability[number])
        guess = Guess(str(matches.status[number]), source, error, probability)
    place: Any = tuple(matches.points_ras[number].tolist())
    size = size or seen.size.moved(seen.point_ras, place)
    return Finding(PROPOSED, place, guess, Measurement(size.long_axis, size.short_axis))


def _carried(size: Measurement, field: Correspondence | None, source: EmbeddingMap) -> Measurement | None:
    """Carry both ends of each axis to the other study. None without a correspondence, or if an end lies outside."""
    ends = np.array(list(size.axes.values())).reshape(-1, 3)
    if field is None or not source.contains(ends).all():
        return None
    carried = field.points(ends).points_ras.reshape(-1, 2, 3).tolist()
    axes: Any = {f"{kind}_axis": tuple(map(tuple, axis)) for kind, axis in zip(size.axes, carried, strict=True)}
    return replace(size, **axes)


def _on_body(embedding: EmbeddingMap, points_ras: np.ndarray) -> np.ndarray:
    """Return (n,) bool: whether each point (n, 3), RAS mm, lies in the scan and at most 12 mm from a body cell."""
    cells = transform_points(embedding.ras_to_cell, points_ras)
    body = embedding.body_index.numpy()
    inside = embedding.contains(points_ras)
    if not len(body):
        return np.zeros(len(points_ras), bool)
    for n in np.flatnonzero(inside):
        beyond = np.maximum(np.abs(body - cells[n]) - 0.5, 0) * embedding.cell_mm
        inside[n] = np.square(beyond).sum(1).min() <= _NEAR_BODY_MM**2
    return inside
