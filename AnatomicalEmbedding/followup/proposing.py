"""Match lesions of one study in other studies, and propose the places that are found. A person must review them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..matching.status import UNCERTAIN
from ..scan.geometry import transform_points
from .lesions import PROPOSED, Finding, Guess, Measurement
from .record import FollowUp

if TYPE_CHECKING:
    from ..embedding.map import EmbeddingMap
    from ..matching.match import Matches

_NEAR_BODY_MM = 12.0  # a lesion of the skin may lie outside the body cells, but at most this far from the nearest one


def find_places(
    record: FollowUp, studies: Iterable[str], maps: Mapping[str, EmbeddingMap], effort: str = "standard"
) -> tuple[FollowUp, dict[str, dict[str, str]]]:
    """Propose the place of each lesion in the given studies, except where a person has reviewed the lesion.

    The place is matched from a study that has a map and in which a person saw the lesion. If there are several such
    studies, the nearest in time is used. The axes in that study are copied to the new place.

    Args:
        studies: keys of the studies to search.
        maps: by study key, the maps of these studies and of the studies in which a person saw lesions.
        effort: how many steps matching uses, such as "fast" or "standard".

    Returns:
        The record with the proposals; and the reasons for missing proposals: study key -> lesion id -> sentence.

    Raises:
        AnatomicalEmbeddingError: a study is not in the record.
        MapError: the maps were made with different weights.
    """
    reasons: dict[str, dict[str, str]] = {key: {} for key in studies}
    wanted: dict[str, list[tuple[str, str]]] = defaultdict(list)  # key of the source -> (key of the target, lesion id)
    for key in reasons:
        for lesion in record.lesions:
            known = lesion.findings.get(key)
            if known is not None and known.reviewed:
                continue
            source = _nearest_source(record, lesion.findings, key, maps)
            if source is None:
                reasons[key][lesion.id] = f"{lesion.id}: is marked in no other loaded study; mark it in a study."
            else:
                wanted[source].append((key, lesion.id))
    for source, pairs in wanted.items():
        targets, names = (list(dict.fromkeys(values)) for values in zip(*pairs, strict=True))
        points = np.array([record.finding(name, source).point_ras for name in names])
        matched, readable = carry_points(maps[source], points, [maps[key] for key in targets], effort)
        row = {name: n for n, name in enumerate(np.array(names)[readable])}
        for key, name in pairs:
            if name in row:
                seen, matches = record.finding(name, source), matched[targets.index(key)]
                record = record.propose(key, {name: _proposal(seen, matches, row[name], source)})
            else:
                reasons[key][name] = outside_patient(name, record.study(source).label)
    return record, reasons


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


def _nearest_source(
    record: FollowUp, findings: Mapping[str, Finding], key: str, maps: Mapping[str, EmbeddingMap]
) -> str | None:
    """Return the key of the study from which a lesion is matched in the study `key`; None if there is no such study.

    A person must have seen the lesion in the returned study, and the study must have a map. Of several studies, the
    nearest in time to `key` is returned; of two equally near studies, the earlier. findings: the findings of the
    lesion, by study key.
    """
    seen = [s for s in record.studies if s.key in maps and s.key in findings and findings[s.key].visible]
    compared = (record.study(key), *seen)
    dated = all(study.date is not None for study in compared)
    time = {s.key: s.date.toordinal() if dated else record.studies.index(s) for s in compared}
    return min(seen, key=lambda study: abs(time[study.key] - time[key])).key if seen else None


def _proposal(seen: Finding, matches: Matches, number: int, source: str) -> Finding:
    guess = Guess(UNCERTAIN, source)  # if the weights have no calibration
    if matches.status is not None:
        error, probability = float(matches.expected_error_mm[number]), float(matches.probability[number])
        guess = Guess(str(matches.status[number]), source, error, probability)
    place: Any = tuple(matches.points_ras[number].tolist())
    moved = seen.size.moved(seen.point_ras, place)
    return Finding(PROPOSED, place, guess, Measurement(moved.long_axis, moved.short_axis))


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
