"""Decides at which places the level of the spine (the number of the vertebra) is certain.

Neighbouring vertebrae look alike, and organs lie up to one level higher or lower in one patient than in another. So an
answer by coordinate or appearance may be one level off. In this file, the top of the sacrum, the lung apices and the
skull base are called **ends**: from an end, vertebrae can be counted. A level is certain if the scan shows an end at
most three vertebrae away. A **world height** is the S coordinate of a place in the scan, in mm. A body height, in
contrast, is a height in the average body.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from ..scan.geometry import bounds_of
from .coverage import END_MM, height_at
from .map import EmbeddingMap
from .spine import AHEAD_MM, COURSE_MM, HEIGHT_MM

_NAMES = list(COURSE_MM)
# The ends from which vertebrae can be counted, and their usual body heights, mm.
ENDS_MM = {"sacrum": 131.0, "lung apices": 563.0, "skull base": 648.0}
NEXT_TO = {"sacrum": "L5", "lung apices": "T1", "skull base": "C2"}  # the vertebra at each end
_LUNGS, _BRAIN = ("lung_left", "lung_right"), ("brain", "brainstem")
_LEAST_SACRUM_MM = 35.0  # least height of the sacrum's box; a lower box may be the last lumbar vertebra, not a sacrum
_WITHIN_MM = 5.0  # an organ that ends closer to the scan's border than this may be cut
_BELOW_BRAIN_MM = 30.0  # least height of the part below the brain that the scan must show
_APICES_FROM_MM = 540.0  # the lung apices count as shown only if the scan's top has a larger body height
_BEHIND_MM = 45.0  # from the middle of a vertebral body back to its spinous process
_NEAR_MM = 60.0  # distance from the line of vertebral bodies and spinous processes; about 4 cm from bone
_FARTHEST_MM = 100.0  # largest distance from an end: the height of three vertebrae
_AGREE_MM = np.array([20.0, 13.0, 10.0])  # tolerance at each end of ENDS_MM: a little more than half a vertebra
_NUMBERED = re.compile(
    r"(?:vertebrae?|disc)_([ctls]\d+)(?:_.*)?|rib_(?:left_|right_)?(\d+)(?:_left|_right)?", re.IGNORECASE
)


def spine_ends(embedding: EmbeddingMap) -> dict[str, float]:
    """Find the ends of the spine (top of sacrum, lung apices, skull base) in a scan. Returns end -> S in RAS mm."""
    boxes = embedding.organ_boxes
    if not embedding.provenance.metric or not boxes:
        return {}
    low, high = bounds_of(embedding.scan_to_ras, embedding.scan_shape)[:, 2]
    ends = {}
    if (sacrum := boxes.get("sacrum")) is not None:
        bottom, top = sacrum[:, 2]
        if top - bottom >= _LEAST_SACRUM_MM and top < high - 2 * _WITHIN_MM:
            ends["sacrum"] = float(top)
    tops = [float(boxes[name][1, 2]) for name in _LUNGS if name in boxes]
    if tops and max(tops) < high - _WITHIN_MM and _height_of_top(embedding, high) > _APICES_FROM_MM:
        ends["lung apices"] = float(np.mean(tops))
    bottoms = [float(boxes[name][0, 2]) for name in _BRAIN if name in boxes]
    if bottoms and min(bottoms) > low + _BELOW_BRAIN_MM:
        ends["skull base"] = min(bottoms)
    return ends


def _height_of_top(embedding: EmbeddingMap, high: float) -> float:
    """Estimate the body height, mm, of the top of a scan, RAS S = `high` mm; -inf if no body cell is near the top."""
    index, body = embedding.body_cells
    heights = embedding.cell_to_ras[2, 3] + embedding.cell_mm[2] * index[:, 2].numpy()
    return height_at(high, heights, body[:, 2].numpy()) if (heights > high - END_MM).any() else -np.inf


def near_spine(coordinates: np.ndarray) -> np.ndarray:
    """Return (n,) bool: whether each place (n, 3), mm in the body frame, lies within 4 cm of the bones of the spine."""
    x, y, z = np.asarray(coordinates, dtype=np.float64).T
    middle = np.interp(z, HEIGHT_MM[::-1], AHEAD_MM[::-1])
    away = np.maximum(y - middle, np.maximum(middle - _BEHIND_MM - y, 0))
    beyond = np.maximum(z - HEIGHT_MM[0], np.maximum(HEIGHT_MM[-1] - z, 0))
    return np.sqrt(x**2 + away**2 + beyond**2) < _NEAR_MM


def above_ends(heights: np.ndarray, ends: Mapping[str, float]) -> np.ndarray:
    """Measure how far world heights (n,) lie above top of sacrum, lung apices and skull base. Returns (n, 3) mm.

    ends: result of `spine_ends`. If the scan does not show an end, the end's column is NaN.
    """
    return np.asarray(heights, dtype=np.float64)[:, None] - [ends.get(name, np.nan) for name in ENDS_MM]


def counted_alike(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return (n,) bool: whether both scans show a point at the same height above or below the same end of the spine.

    one, other: results of `above_ends` for n points in the first and in the second scan. Only ends less than 100 mm
    from the point in the first scan are used. Heights are the same if they differ by at most about half a vertebra.
    """
    near = (np.abs(one) < _FARTHEST_MM) & (np.abs(other - one) < _AGREE_MM)  # comparisons with NaN are False
    return near.any(axis=1)


def has_next(end: str, height: float, at: float) -> bool:
    """Whether a vertebra at S = `height` mm can be the vertebra next to an end of the spine at S = `at` mm."""
    return abs(height - at - (COURSE_MM[NEXT_TO[end]][1] - ENDS_MM[end])) < _AGREE_MM.max()


def level_chances(embedding: EmbeddingMap, points_ras: np.ndarray) -> np.ndarray:
    """Return (n,) chance that the level of the spine at points (n, 3) RAS mm is right.

    0 if the scan shows no end of the spine: then vertebrae are counted from no place, or from the lowest ribs only, and
    some people have one pair of ribs more or fewer.
    """
    spine = embedding.spine
    if spine is None or not set(spine.anchors) & set(ENDS_MM):
        return np.zeros(len(points_ras))
    return spine.chance[spine.nearest(points_ras[:, 2])]


def levels_near(embedding: EmbeddingMap, points_ras: np.ndarray, coordinates: np.ndarray) -> np.ndarray:
    """Name the two likely levels at points (n, 3) RAS mm near the spine: (n,) texts such as "L3 or L4".

    coordinates: (n, 3) body coordinates, mm; used if the scan has no spine.
    """
    spine = embedding.spine
    if spine is None:
        return levels_at(coordinates[:, 2])
    at = spine.nearest(points_ras[:, 2])
    first = np.array([_NAMES.index(name) for name in spine.names])[at] - (spine.chances[at, 0] > spine.chances[at, 2])
    return np.array([f"{_NAMES[n]} or {_NAMES[n + 1]}" for n in first.clip(0, len(_NAMES) - 2)], dtype=str)


def levels_at(heights: np.ndarray) -> np.ndarray:
    """For each body height (n,), name the vertebrae above and below this height: (n,) texts such as "L3 or L4"."""
    below = np.clip(np.searchsorted(-HEIGHT_MM, -np.asarray(heights, dtype=np.float64)), 1, len(_NAMES) - 1)
    return np.array([f"{_NAMES[n - 1]} or {_NAMES[n]}" for n in below], dtype=str)


def level_of(structure: str) -> str | None:
    """Return the level in the name of a vertebra, rib or disc, or None. For a disc: the vertebra above it."""
    found = _NUMBERED.fullmatch(structure)
    level = None if found is None else found[1].upper() if found[1] else f"T{found[2]}"
    return level if level in COURSE_MM else None


def is_counted(level: str, height: float, ends: Mapping[str, float]) -> bool:
    """Whether a vertebra (middle at S = `height` mm) has its usual distance from a nearby end of the spine."""
    usual = np.array([[COURSE_MM[level][1] - at for at in ENDS_MM.values()]])
    return bool(counted_alike(usual, above_ends(np.array([height]), ends))[0])


def doubtful_level(structure: str, level: str, body_height: float) -> str:
    """Name the two possible levels of a numbered structure whose level is not certain.

    body_height: height of the found place in the body frame, mm. If this height is lower than usual for `level`,
    the second level is the level below it in the body (L4 for L3); if not, the level above it (L2 for L3).

    Returns:
        "L3 or L4"; for ribs "rib 11 or 12". For a rib 12 found too low, "rib 12 or a process of L1".
    """
    n = _NAMES.index(level)
    other = _NAMES[min(max(n + (1 if body_height < COURSE_MM[level][1] else -1), 0), len(_NAMES) - 1)]
    if not structure.startswith("rib"):
        return f"{level} or {other}"
    if other == "L1":
        return "rib 12 or a process of L1"
    return f"rib {level[1:]} or {other[1:]}" if other[0] == "T" else f"rib {level[1:]} or 2"
