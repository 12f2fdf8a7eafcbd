"""Compares the levels of points in two scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..anatomy.names import VERTEBRAE
from .ends import ENDS, above_ends, counted_alike
from .levels import candidates_at, is_level_certain
from .vertebrae import Spine, level_text

_NEAR_SPINE_MM = 60.0  # from the middle of the spine; such a place moves with the vertebrae


@dataclass(frozen=True, eq=False)
class PointLevels:
    """What a scan tells about the levels of n points.

    Args:
        above_ends_mm: (n, len(ENDS)) height of the points above each end of the spine, mm; NaN for an end that the scan
            does not show.
        chance: (n,) chance that the level of the spine at each point is right; 0 if the scan shows no end of the spine.
    """

    above_ends_mm: np.ndarray
    chance: np.ndarray

    @staticmethod
    def unknown(n: int) -> PointLevels:
        """Return the levels of n points about which nothing is known."""
        return PointLevels(np.full((n, len(ENDS)), np.nan), np.zeros(n))

    @staticmethod
    def join(parts: Sequence[PointLevels]) -> PointLevels:
        """Join the levels of several groups of points."""
        above = np.concatenate([part.above_ends_mm for part in parts])
        return PointLevels(above, np.concatenate([part.chance for part in parts]))

    def agree(self, answers: PointLevels) -> np.ndarray:
        """Return (n,) bool: whether the n points certainly have the same levels as their answers in another scan.

        They have if both scans show the point at the same height above the same end of the spine, or if the levels that
        are counted from the ends are certain in both scans.
        """
        alike = counted_alike(self.above_ends_mm, answers.above_ends_mm)
        return alike | is_level_certain(self.chance * answers.chance)


def read_levels(
    spine: Spine | None, ends: Mapping[str, float], points_ras: np.ndarray
) -> PointLevels:
    """Read the levels at points of a scan: their heights above the ends of the spine, and the chance of the vertebra
    at each height, which is 0 if no end of the spine is shown to count from.

    Args:
        spine: the spine of the scan, or None.
        ends: the ends that the scan shows, `ends.find_ends`.
        points_ras: (n, 3) RAS mm.
    """
    heights = points_ras[:, 2]
    chance = np.zeros(len(heights))
    if spine is not None and spine.is_counted:
        chance = spine.chance[spine.nearest(heights)]
    return PointLevels(above_ends(heights, ends), chance)


def read_candidates(
    spine: Spine | None, points_ras: np.ndarray, coordinates: np.ndarray
) -> np.ndarray:
    """Name the two likely levels at points near the spine: (n,) texts such as "L3 or L4".

    Args:
        spine: the spine of the scan, or None.
        points_ras: (n, 3) RAS mm.
        coordinates: (n, 3) body coordinates, mm; used if the scan has no spine.
    """
    if spine is None:
        return candidates_at(coordinates[:, 2])
    texts = np.array([level.candidates for level in spine.levels], str)
    return texts[spine.nearest(points_ras[:, 2])]


def differing_levels(
    source: Spine | None,
    point_ras: np.ndarray,
    target: Spine | None,
    answer_ras: np.ndarray,
    error_mm: float,
) -> tuple[str, str] | None:
    """Return the levels at a point of one scan and at its answer in another scan of the same patient, such as ("T12 or
    L1", "L2 or L3"), if they contradict each other; otherwise None.

    Organs lie lower after a deeper breath. So away from the spine the levels must differ by two vertebrae.

    Args:
        source, target: the spines of the two scans.
        point_ras, answer_ras: (3,) RAS mm.
        error_mm: expected error of the answer.
    """
    texts = level_text(source, point_ras[2]), level_text(target, answer_ras[2])
    if "" in texts:
        return None
    likely, possible = _numbers_near(source, point_ras[2], error_mm)
    target_likely, target_possible = _numbers_near(target, answer_ras[2], error_mm)
    if possible & target_possible:
        return None
    sideways_mm = np.hypot(*(point_ras - source.at_height(point_ras[2]))[:2])
    least = 1 if sideways_mm < _NEAR_SPINE_MM else 2  # vertebrae
    difference = min(abs(number - second) for number in likely for second in target_likely)
    return texts if difference >= least else None


def _numbers_near(spine: Spine, s: float, error_mm: float) -> tuple[set[int], set[int]]:
    """Return the numbers of the likely levels, and of all possible levels, less than `error_mm` from S = `s` mm.

    A number is an index in VERTEBRAE.
    """
    levels = [spine.levels[row] for row in spine.rows_between(s - error_mm, s + error_mm)]
    possible = {VERTEBRAE.index(name) for level in levels for name in level.possible}
    return {VERTEBRAE.index(level.vertebra) for level in levels}, possible
