"""The structures that have a level in their names: vertebrae, discs and ribs."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..anatomy.names import VERTEBRAE
from .average import height_of
from .ends import ENDS, is_counted
from .levels import structure_candidates
from .vertebrae import Spine

# how far the vertebra at an end may lie from its usual place: the largest tolerance of ENDS
_NEIGHBOUR_MM = 20.0
_NUMBERED = re.compile(
    r"(?:vertebrae?|disc)_([ctls]\d+)(?:_.*)?|rib_(?:left_|right_)?(\d+)(?:_left|_right)?",
    re.IGNORECASE,
)


def level_of(structure: str) -> str | None:
    """Return the level in the name of a vertebra, rib or disc, or None. For a disc: the vertebra above it."""
    match = _NUMBERED.fullmatch(structure)
    if match is None:
        return None
    level = match[1].upper() if match[1] else f"T{match[2]}"
    return level if level in VERTEBRAE else None


def doubtful_levels(
    structure: str,
    s: float,
    body_height: float,
    ends: Mapping[str, float],
    spine: Spine | None = None,
) -> str:
    """Return the two possible levels of a vertebra, disc or rib, such as "L3 or L4".

    Returns "" if the level is certain, or if the structure has no level.

    Args:
        structure: name of the structure.
        s: S of its middle in the scan, RAS mm.
        body_height: body coordinate S of its middle, mm.
        ends: the ends of the spine that the scan shows, `ends.find_ends`.
        spine: if given, all levels are certain if it begins at an end. Otherwise, a structure at its usual distance
            from an end has a certain level.
    """
    level = level_of(structure)
    if level is None:
        return ""
    is_certain = is_counted(level, s, ends) if spine is None else begins_at_end(spine, ends)
    if is_certain:
        return ""
    return structure_candidates(structure, level, body_height)


def begins_at_end(spine: Spine, ends: Mapping[str, float]) -> bool:
    """Return whether the scan shows an end of the spine and the vertebra next to this end: then all levels are certain.

    ends: {name of an end that the scan shows, such as "sacrum": RAS S mm}.
    """
    middles = dict(zip(spine.names, spine.bounds_s.mean(axis=1), strict=True))
    for name, end_s in ends.items():
        end = ENDS[name]
        distance = middles.get(end.neighbour, np.inf) - end_s
        if abs(distance - (height_of(end.neighbour) - end.height_mm)) < _NEIGHBOUR_MM:
            return True
    return False


class SpinePlace(NamedTuple):
    """Where a vertebra or disc is in a scan.

    Args:
        share: fraction inside the scan, 0 to 1.
        point_ras: (3,) middle; None outside the scan.
        chance: chance that the level is right.
    """

    share: float
    point_ras: np.ndarray | None
    chance: float


def spine_place(spine: Spine | None, structure: str) -> SpinePlace | None:
    """Find a vertebra or disc. Return None without a spine, for other structures, and at the first and last VERTEBRAE,
    which have only one boundary.

    structure: such as "vertebrae_L3" or "disc_L3_L4", which lies below L3.
    """
    kind, level, *_ = (structure + "_").split("_")  # level is "" for a name of one word
    if spine is None or kind not in ("vertebrae", "disc"):
        return None
    if level in (VERTEBRAE[0], VERTEBRAE[-1]):
        return None
    if level not in spine.names:
        return SpinePlace(0.0, None, 0.0)
    row = spine.names.index(level)
    chance = float(spine.chance[row])
    low = spine.course[0, 2]
    high = spine.course[-1, 2]
    bottom, top = spine.bounds_s[row]
    if kind == "disc":
        is_inside = low <= bottom <= high
        return SpinePlace(float(is_inside), spine.at_height(bottom) if is_inside else None, chance)
    shown_bottom = max(bottom, low)
    shown_top = min(top, high)
    middle = spine.centres_ras[row]
    if not spine.whole[row]:  # the middle of the part that the scan shows
        middle = spine.at_height((shown_bottom + shown_top) / 2)
    return SpinePlace(float((shown_top - shown_bottom) / (top - bottom)), middle, chance)
