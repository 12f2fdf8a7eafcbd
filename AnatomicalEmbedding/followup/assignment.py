"""Compare the lesions of two studies that were marked separately: which are the same, new or gone?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import AnatomicalEmbeddingError, require
from ..matching.status import ABSENT
from .lesions import OUTSIDE, Lesion
from .proposing import carry_points, outside_patient
from .record import FollowUp
from .status import DISAPPEARED, NEW

if TYPE_CHECKING:
    from ..embedding.map import EmbeddingMap

_UNCALIBRATED_ERROR_MM = 6.0  # assumed matching error of weights without calibration
_LEAST_ERROR_MM = 1.0  # errors of matches count as this at least; by hand
_MIDDLE_ERROR = 0.6  # how far a mark may lie from the middle of the lesion, as a fraction of the lesion's radius
_ALONE_PRICE = 2.0  # price of two lesions without partner, one in each study; a pair at its expected distance costs 1
# added to the price of a pair for each of its lesions whose match has the status absent
_ABSENT_PRICE = 1.0
_FORBIDDEN_PRICE = 1e6  # larger than the prices of all pairs together
_SIZE_PRICE = 0.25  # added to the price of a pair if the radii differ by a factor of e (2.7)
_UNMEASURED_MM = 7.0  # assumed radius of a lesion that was not measured


@dataclass(frozen=True, eq=False)
class Listed:
    """The n lesions of one study, with their matches in the other study.

    ids: lesion ids. A lesion that is known in both studies has the same id in both studies. points_ras: (n, 3) RAS mm.
    radius_mm: (n,) radii of the lesions. carried_ras: (n, 3) RAS mm, the matches of `points_ras` in the other study.
    error_mm: (n,) expected errors of the matches, above 0. absent: (n,) bool, whether the match has the status absent.
    """

    ids: list[str]
    points_ras: np.ndarray
    radius_mm: np.ndarray
    carried_ras: np.ndarray
    error_mm: np.ndarray
    absent: np.ndarray


@dataclass(frozen=True)
class Assignment:
    """Relations between the lesions of an earlier and a later study.

    same: pairs of ids of the same lesion: (id in the earlier study, id in the later study).
    earlier: the earlier lesions without a partner: id -> DISAPPEARED, or OUTSIDE (its place is not in the later scan).
    later: the later lesions without a partner: id -> NEW, or OUTSIDE (its place is not in the earlier scan).
    distances: for each pair of `same`: two distances between the lesions, mm: the distance after matching, and the
        distance to expect from the matching error and the lesion sizes.

    Two more fields are set only by `assign_in_record`. apart: pairs kept out of `same`, because a person reviewed both
    lesions of the pair in one study. unread: id -> why the lesion could not be matched.
    """

    same: tuple[tuple[str, str], ...]
    earlier: Mapping[str, str]
    later: Mapping[str, str]
    distances: Mapping[tuple[str, str], tuple[float, float]]
    apart: tuple[tuple[str, str], ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)

    def put_into(self, record: FollowUp) -> FollowUp:
        """Return a copy of `record` that states which lesions of this assignment are the same.

        Raises AnatomicalEmbeddingError if a lesion of this assignment is not in `record`."""
        for earlier_id, later_id in self.same:
            record = record.unite(earlier_id, later_id)
        return record


def assign_lesions(earlier: Listed, later: Listed) -> Assignment:
    """Pair the lesions of two lists by their matches in both directions. Lesions with the same id always form a pair.

    The price of a pair is its distance divided by the expected distance, plus prices for a change of size and for
    matches with the status absent. A lesion without partner has a price too. Linear assignment minimises the sum of all
    prices. Whether a lesion has split or merged is for a person to say.
    """
    pairs = _pairs(earlier, later)
    gone = sorted(set(range(len(earlier.ids))) - {i for i, _ in pairs})
    new = sorted(set(range(len(later.ids))) - {j for _, j in pairs})
    id_pairs = {
        (i, j): (earlier.ids[i], later.ids[j]) for i, j in pairs if earlier.ids[i] != later.ids[j]
    }
    distance, expected = _distances(earlier, later)
    return Assignment(
        tuple(id_pairs.values()),
        {earlier.ids[i]: OUTSIDE if earlier.absent[i] else DISAPPEARED for i in gone},
        {later.ids[j]: OUTSIDE if later.absent[j] else NEW for j in new},
        {ids: (float(distance[index]), float(expected[index])) for index, ids in id_pairs.items()},
    )


def _pairs(earlier: Listed, later: Listed) -> list[tuple[int, int]]:
    """Return pairs (index in `earlier`, index in `later`), with the smallest sum of prices; see `assign_lesions`.

    A lesion can stay alone: each list is extended by one partner for each lesion of the other list. Two such partners
    form a pair without a price.
    """
    optimize = require("scipy.optimize", "scipy", "pairing lesions needs", "followup")
    count = len(earlier.ids)
    later_count = len(later.ids)
    price = np.zeros((count + later_count, count + later_count))
    distance, expected = _distances(earlier, later)
    radii = [np.log(np.maximum(lesions.radius_mm, 1.0)) for lesions in (earlier, later)]
    change = np.abs(radii[0][:, None] - radii[1][None])
    absent = earlier.absent[:, None] + later.absent[None].astype(float)
    price[:count, :later_count] = (
        distance / expected + _SIZE_PRICE * change + _ABSENT_PRICE * absent
    )
    for i, name in enumerate(earlier.ids):
        if name in later.ids:
            j = later.ids.index(name)
            price[i, :later_count] = _FORBIDDEN_PRICE
            price[:count, j] = _FORBIDDEN_PRICE
            price[i, j] = -_FORBIDDEN_PRICE
    price[:count, later_count:] = _ALONE_PRICE / 2
    price[count:, :later_count] = _ALONE_PRICE / 2
    rows, columns = optimize.linear_sum_assignment(price)
    return [
        (int(i), int(j))
        for i, j in zip(rows, columns, strict=True)
        if i < count and j < later_count
    ]


def _distances(earlier: Listed, later: Listed) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays (n, m), mm, for n earlier and m later lesions: the measured distance of each pair of lesions,
    and the distance to be expected if both are the same lesion."""
    forth = np.linalg.norm(earlier.carried_ras[:, None] - later.points_ras[None], axis=2)
    backward = np.linalg.norm(later.carried_ras[None] - earlier.points_ras[:, None], axis=2)
    earlier_error = earlier.error_mm[:, None]
    later_error = later.error_mm[None]
    # the direction with the smaller matching error has the larger weight
    weight = later_error**2 / (earlier_error**2 + later_error**2)
    distance = weight * forth + (1 - weight) * backward
    size = np.maximum(earlier.radius_mm[:, None], later.radius_mm[None])
    return distance, np.hypot(np.minimum(earlier_error, later_error), _MIDDLE_ERROR * size)


# -- lesions of a record ----------------------------------------------------------------------------------------------


def assign_in_record(
    record: FollowUp,
    earlier: str,
    later: str,
    maps: Mapping[str, EmbeddingMap],
    effort: str = "standard",
) -> Assignment:
    """Pair lesions that were seen in only one of two studies. `Assignment.put_into` writes the result into a record.

    A lesion that is known in both studies is not changed.

    Args:
        earlier, later: study keys.
        maps: the maps of both studies, by study key.
        effort: see `matching.match.match_all`.
    """
    unread: dict[str, str] = {}
    assignment = assign_lesions(
        _listed(record, earlier, later, maps, effort, unread),
        _listed(record, later, earlier, maps, effort, unread),
    )
    united = record
    separate = []
    for pair in assignment.same:
        try:
            united = united.unite(*pair)
        except AnatomicalEmbeddingError:
            separate.append(pair)
    return replace(
        assignment,
        same=tuple(pair for pair in assignment.same if pair not in separate),
        apart=tuple(separate),
        unread=unread,
    )


def _listed(
    record: FollowUp,
    key: str,
    other_key: str,
    maps: Mapping[str, EmbeddingMap],
    effort: str,
    unread: dict[str, str],
) -> Listed:
    """Match the lesions that a person saw in study `key` and may still find in `other_key`. If a lesion's point lies
    outside the patient, the lesion is left out, and `unread` gets the reason under the lesion's id."""
    lesions = [lesion for lesion in record.lesions if _is_open(lesion, key, other_key)]
    points = np.array([lesion.findings[key].point_ras for lesion in lesions]).reshape(-1, 3)
    lengths = [lesion.findings[key].size.long_mm for lesion in lesions]
    radii = np.array(
        [_UNMEASURED_MM if length is None else max(length / 2, 1.0) for length in lengths]
    )
    (matches,), on_body = carry_points(maps[key], points, [maps[other_key]], effort)
    label = record.study(key).label
    for lesion, is_readable in zip(lesions, on_body, strict=True):
        if not is_readable:
            unread[lesion.id] = outside_patient(lesion.id, label)
    names = [lesion.id for lesion, is_readable in zip(lesions, on_body, strict=True) if is_readable]
    absent = np.zeros(len(names), bool)
    error_mm = np.full(len(names), _UNCALIBRATED_ERROR_MM)
    if matches.status is not None:
        absent = matches.status == ABSENT
    if matches.expected_error_mm is not None:
        error_mm = np.nan_to_num(matches.expected_error_mm, nan=_UNCALIBRATED_ERROR_MM)
    error_mm = np.maximum(error_mm, _LEAST_ERROR_MM)
    return Listed(names, points[on_body], radii[on_body], matches.points_ras, error_mm, absent)


def _is_open(lesion: Lesion, key: str, other_key: str) -> bool:
    """Return True if a person saw the lesion in the study `key`, and no person has entered for `other_key` that
    the lesion is not visible, outside or merged."""
    finding = lesion.findings.get(key)
    other_finding = lesion.findings.get(other_key)
    return (
        finding is not None
        and finding.visible
        and (other_finding is None or other_finding.visible or not other_finding.reviewed)
    )
