"""Places of lesions in other studies, proposed by matching. Only this file of the folder reads maps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..errors import AnatomicalEmbeddingError
from ..matching.status import UNCERTAIN
from .lesions import Axis, Finding, Guess, Measurement, Study
from .record import FollowUp, Proposal

if TYPE_CHECKING:
    from ..embedding.map import EmbeddingMap
    from ..matching.match import Matches

_NEAR_BODY_MM = 12.0  # a lesion of the skin may lie this far outside the body's cells
_STRETCH = 1.6  # a local affine that stretches more is implausible
# Turns are accurate to 2 or 3 degrees. A small one would only tilt an axis out of its slice; a very large one is
# implausible between two scans of a patient.
_TURN_DEG = (8.0, 60.0)


@dataclass(frozen=True)
class Places:
    """proposals: study -> lesion -> its place. reasons: study -> lesion -> why it has none, in a sentence."""

    proposals: Mapping[str, Mapping[str, Proposal]] = field(default_factory=dict)
    reasons: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def put_into(self, record: FollowUp) -> FollowUp:
        """The record with the places proposed; reviewed findings stay."""
        for study, proposals in self.proposals.items():
            record = record.propose(study, proposals)
        return record


def find_places(
    record: FollowUp, studies: Iterable[str], maps: Mapping[str, EmbeddingMap], effort: str = "standard"
) -> Places:
    """The places of lesions in studies where they are not reviewed, all in one call.

    A lesion is carried over, with its axes, from the study nearest in time in which a person saw it and that has a map.
    maps: by study key. effort: see `matching.match.match_all`.
    Raises AnatomicalEmbeddingError for a study that is not in the record or has no map, MapError for maps of different
    weights.
    """
    studies = list(dict.fromkeys(studies))
    check_prepared(record, studies, maps)
    wanted: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))  # source -> target -> lesions
    proposals: dict[str, dict[str, Proposal]] = {key: {} for key in studies}
    reasons: dict[str, dict[str, str]] = {key: {} for key in studies}
    for key in studies:
        for lesion in record.lesions:
            known = lesion.findings.get(key)
            if known is not None and known.reviewed:
                continue
            source = _nearest_source(record, lesion.findings, key, maps)
            if source is None:
                reasons[key][lesion.id] = f"{lesion.id}: was not seen in another prepared study."
            else:
                wanted[source][key].append(lesion.id)
    for source, targets in wanted.items():
        found, unread = _carry(record, source, targets, maps, effort)
        for key in targets:
            proposals[key] |= found[key]
            reasons[key] |= {each: why for each, why in unread.items() if each in targets[key]}
    return Places(proposals, reasons)


def check_prepared(record: FollowUp, studies: Iterable[str], maps: Mapping[str, EmbeddingMap]) -> None:
    """Raise AnatomicalEmbeddingError for a study that is not in the record or has no map."""
    for key in studies:
        label = record.study(key).label
        if key not in maps:
            raise AnatomicalEmbeddingError(f"{label}: is not prepared yet; embed this scan first.")


def carry_points(
    source: EmbeddingMap, points_ras: np.ndarray, target: EmbeddingMap, effort: str = "standard"
) -> tuple[Matches, np.ndarray]:
    """Matches of those of n points (n, 3) that lie on the source's body, and which these are, (n,) bool."""
    from ..matching.match import match

    readable = _on_body(source, points_ras)
    return match(source, points_ras[readable], target, effort), readable


def outside_patient(lesion_id: str, study: str) -> str:
    """The reason for a lesion outside the patient, which cannot be matched."""
    return f"{lesion_id}: its place in {study} is outside the patient; correct it there, and try again."


def _nearest_source(
    record: FollowUp, findings: Mapping[str, Finding], key: str, maps: Mapping[str, EmbeddingMap]
) -> str | None:
    """The study with a map, nearest in time, in which a person saw the lesion; of two, the earlier."""
    target = record.study(key)
    seen = [s for s in record.studies if s.key in maps and s.key in findings and findings[s.key].visible]
    dated = all(study.date is not None for study in (target, *seen))

    def away(study: Study) -> float:
        if dated:
            return abs((study.date - target.date).days)
        return abs(record.studies.index(study) - record.studies.index(target))

    return min(seen, key=away).key if seen else None


def _carry(
    record: FollowUp, source: str, targets: Mapping[str, list[str]], maps: Mapping[str, EmbeddingMap], effort: str
) -> tuple[dict[str, dict[str, Proposal]], dict[str, str]]:
    """Lesions of one study into others: proposals by target and lesion, and why some cannot be carried at all."""
    from ..matching.match import match_all

    names = [each.id for each in record.lesions if any(each.id in wanted for wanted in targets.values())]
    points = np.array([record.finding(name, source).point_ras for name in names])
    readable = _on_body(maps[source], points)
    label = record.study(source).label
    unread = {name: outside_patient(name, label) for name, ok in zip(names, readable, strict=True) if not ok}
    names = [name for name in names if name not in unread]
    points = points[readable]
    found: dict[str, dict[str, Proposal]] = {key: {} for key in targets}
    if not names:
        return found, unread
    matched = match_all(maps[source], points, [maps[key] for key in targets], effort)
    for key, matches in zip(targets, matched, strict=True):
        turns = local_turns(maps[source], points, maps[key], matches.points_ras)
        for n, name in enumerate(names):
            if name in targets[key]:
                place = matches.points_ras[n]
                size = _carried_size(record.finding(name, source).size, points[n], place, turns[n])
                found[key][name] = Proposal(tuple(place.tolist()), guess_of(matches, n, source), size)
    return found, unread


def guess_of(matches: Matches, number: int, source: str) -> Guess:
    """The guess of one match; "uncertain" for weights without calibration."""
    if matches.status is None:
        return Guess(UNCERTAIN, source)
    return Guess(
        str(matches.status[number]),
        source,
        float(matches.expected_error_mm[number]),
        float(matches.probability[number]),
    )


def _on_body(embedding: EmbeddingMap, points_ras: np.ndarray) -> np.ndarray:
    """(n,) bool: are the places in the scan and on or near the body?"""
    from ..scan.geometry import transform_points

    cells = transform_points(embedding.ras_to_cell, points_ras)
    body = embedding.body_index.numpy()
    inside = embedding.contains(points_ras)
    if not len(body):
        return np.zeros(len(points_ras), bool)
    for n in np.flatnonzero(inside):
        beyond = np.maximum(np.abs(body - cells[n]) - 0.5, 0) * embedding.cell_mm
        inside[n] = np.square(beyond).sum(1).min() <= _NEAR_BODY_MM**2
    return inside


def local_turns(
    source: EmbeddingMap, points_ras: np.ndarray, target: EmbeddingMap, places_ras: np.ndarray
) -> np.ndarray:
    """(n, 3, 3) rotations from the source's axes at points (n, 3) to the target's at the places found for them.

    The identity where a turn is within the maps' error. Lesions keep their size: the stretch of the local affine is
    that of the body, not of the lesion.
    """
    count = len(points_ras)
    turns = np.repeat(np.eye(3)[None], count, axis=0)
    if source.coordinate is None or target.coordinate is None or not count:
        return turns
    slopes, supported = zip(*(_slopes(*pair) for pair in ((source, points_ras), (target, places_ras))), strict=True)
    for n in np.flatnonzero(supported[0] & supported[1]):
        if min(np.linalg.det(slopes[0][n]), np.linalg.det(slopes[1][n])) <= 0:
            continue
        u, stretch, v = np.linalg.svd(np.linalg.solve(slopes[1][n], slopes[0][n]))
        turn = u @ v
        degrees = np.rad2deg(np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1)))
        if stretch.max() < _STRETCH and stretch.min() > 1 / _STRETCH and _TURN_DEG[0] < degrees < _TURN_DEG[1]:
            turns[n] = turn
    return turns


def _slopes(embedding: EmbeddingMap, points_ras: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, 3, 3) change of the coordinate per mm along R, A, S, and (n,) whether it is supported."""
    import torch

    from ..matching.coordinates import fit_around
    from ..matching.target_batch import TargetRows
    from ..scan.geometry import transform_points

    cells = torch.from_numpy(transform_points(embedding.ras_to_cell, points_ras))
    fit = fit_around(TargetRows((embedding,), (len(cells),)), cells)
    return fit.slope.numpy(), fit.supported.numpy()


def _carried_size(size: Measurement, point: np.ndarray, place: np.ndarray, turn: np.ndarray) -> Measurement:
    """Axes around the lesion's new place, unconfirmed. Volumes are not carried over."""

    def carried(axis: Axis | None) -> Axis | None:
        if axis is None:
            return None
        one, other = (place + turn @ (np.array(end) - point) for end in axis)
        return tuple(one.tolist()), tuple(other.tolist())

    return Measurement(carried(size.long_axis), carried(size.short_axis))
