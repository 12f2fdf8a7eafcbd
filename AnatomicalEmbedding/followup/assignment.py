"""Compare the lesions of two studies that were marked separately: which are the same, new or gone?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import AnatomicalEmbeddingError, require
from ..matching.status import ABSENT
from .doubts import on_body
from .lesions import OUTSIDE
from .proposing import outside_patient
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
    distance, expected = _distances(earlier, later)
    pairs = _pairs(_prices(earlier, later, distance / expected))
    distances = {}
    for i, j in pairs:
        ids = earlier.ids[i], later.ids[j]
        if ids[0] != ids[1]:
            distances[ids] = float(distance[i, j]), float(expected[i, j])
    return Assignment(
        tuple(distances),
        _alone(earlier, {i for i, _ in pairs}, DISAPPEARED),
        _alone(later, {j for _, j in pairs}, NEW),
        distances,
    )


def _alone(lesions: Listed, paired: set[int], status: str) -> dict[str, str]:
    """Return the lesions without partner: id -> `status`, or OUTSIDE if the match has the status absent.

    paired: indices of the lesions with a partner.
    """
    alone = {}
    for n, lesion_id in enumerate(lesions.ids):
        if n not in paired:
            alone[lesion_id] = OUTSIDE if lesions.absent[n] else status
    return alone


def _prices(earlier: Listed, later: Listed, relative_distance: np.ndarray) -> np.ndarray:
    """Return the price of each pair of n earlier and m later lesions, (n, m); see `assign_lesions`.

    relative_distance: (n, m) distances of the pairs, divided by the expected distances.
    """
    log_radius = np.log(np.maximum(earlier.radius_mm, 1.0))
    later_log_radius = np.log(np.maximum(later.radius_mm, 1.0))
    change = np.abs(log_radius[:, None] - later_log_radius)
    absent = earlier.absent[:, None] + later.absent.astype(float)  # 0, 1 or 2 lesions
    price = relative_distance + _SIZE_PRICE * change + _ABSENT_PRICE * absent
    # a lesion that is known in both studies forms a pair with itself, at a price that no other sum can undercut
    for i, name in enumerate(earlier.ids):
        if name in later.ids:
            j = later.ids.index(name)
            price[i] = _FORBIDDEN_PRICE
            price[:, j] = _FORBIDDEN_PRICE
            price[i, j] = -_FORBIDDEN_PRICE
    return price


def _pairs(price: np.ndarray) -> list[tuple[int, int]]:
    """Return pairs (index of the earlier lesion, index of the later lesion) with the smallest sum of prices.

    A lesion can stay alone: each list is extended by one partner for each lesion of the other list. Two such partners
    form a pair without a price.

    price: (n, m), for each pair of n earlier and m later lesions.
    """
    optimize = require("scipy.optimize", "scipy", "pairing lesions needs", "followup")
    count, later_count = price.shape
    extended = np.zeros((count + later_count, count + later_count))
    extended[:count, :later_count] = price
    extended[:count, later_count:] = _ALONE_PRICE / 2  # an earlier lesion alone
    extended[count:, :later_count] = _ALONE_PRICE / 2  # a later lesion alone
    rows, columns = optimize.linear_sum_assignment(extended)
    is_pair = (rows < count) & (columns < later_count)
    return list(zip(rows[is_pair].tolist(), columns[is_pair].tolist(), strict=True))


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
    unread: dict[str, str] = {}  # filled by `_listed`
    assignment = assign_lesions(
        _listed(record, earlier, later, maps, effort, unread),
        _listed(record, later, earlier, maps, effort, unread),
    )
    united = record
    same = []
    apart = []
    for pair in assignment.same:
        try:
            united = united.unite(*pair)
            same.append(pair)
        except AnatomicalEmbeddingError:
            apart.append(pair)
    return replace(assignment, same=tuple(same), apart=tuple(apart), unread=unread)


def _listed(
    record: FollowUp,
    key: str,
    other_key: str,
    maps: Mapping[str, EmbeddingMap],
    effort: str,
    unread: dict[str, str],
) -> Listed:
    """Match the lesions that a person saw in study `key` and may still find in `other_key`: there, nobody entered that
    the lesion is not visible, outside or merged. If a lesion's point lies outside the patient, the lesion is left out,
    and `unread` gets the reason under the lesion's id."""
    from ..matching.match import match_all

    ids = []
    points = []
    radii = []
    for lesion in record.lesions:
        is_open = other_key in lesion.visible or other_key not in lesion.reviewed
        if key not in lesion.visible or not is_open:
            continue
        finding = lesion.findings[key]
        if not on_body(maps[key], np.array([finding.point_ras]))[0]:
            unread[lesion.id] = outside_patient(lesion.id, record.study(key).label)
            continue
        length_mm = finding.size.long_mm
        ids.append(lesion.id)
        points.append(finding.point_ras)
        radii.append(_UNMEASURED_MM if length_mm is None else max(length_mm / 2, 1.0))
    points_ras = np.array(points).reshape(-1, 3)
    (matches,) = match_all(maps[key], points_ras, [maps[other_key]], effort)
    absent = np.zeros(len(ids), bool)
    error_mm = np.full(len(ids), _UNCALIBRATED_ERROR_MM)
    if matches.status is not None:
        absent = matches.status == ABSENT
    if matches.expected_error_mm is not None:
        error_mm = np.nan_to_num(matches.expected_error_mm, nan=_UNCALIBRATED_ERROR_MM)
    error_mm = np.maximum(error_mm, _LEAST_ERROR_MM)
    return Listed(ids, points_ras, np.array(radii), matches.points_ras, error_mm, absent)
