"""Places of vertebrae, of discs and of the part of the spine that a scan shows, from `embedding.spine.Spine`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..anatomy.names import VERTEBRAE
from ..embedding.levels import NEXT_TO, has_next
from ..embedding.spine import Spine
from .grid_weights import Field, Grid

_BEHIND_MM = 16.0  # from the middle of a vertebra's body to its arch


def begins_at_end(spine: Spine, ends: Mapping[str, float]) -> bool:
    """Return whether the scan shows an end of the spine and the vertebra next to this end: then all levels are certain.

    ends: {name of an end that the scan shows, such as "sacrum": RAS S mm}.
    """
    heights = dict(zip(spine.names, spine.bounds_s.mean(axis=1), strict=True))
    return any(NEXT_TO[end] in heights and has_next(end, heights[NEXT_TO[end]], at) for end, at in ends.items())


@dataclass(frozen=True, eq=False)
class Level:
    """A vertebra or disc. share: fraction inside the scan, 0 to 1. point_ras: (3,) middle; None outside the scan.
    chance: chance that the level is right.
    """

    share: float
    point_ras: np.ndarray | None
    chance: float


def numbered_place(spine: Spine, name: str) -> Level | None:
    """Find the vertebra or disc `name`. Return None for other places, and for the first and the last of VERTEBRAE."""
    kind, first, *_ = *name.split("_"), ""
    if kind not in ("vertebrae", "disc") or first in VERTEBRAE[:1] + VERTEBRAE[-1:]:
        return None
    if first not in spine.names:
        return Level(0.0, None, 0.0)
    n = spine.names.index(first)
    low, high = spine.course[0, 2], spine.course[-1, 2]
    bottom, top = spine.bounds_s[n]
    if kind == "disc":
        held = low <= bottom <= high
        return Level(float(held), spine.at_height(bottom) if held else None, float(spine.chance[n]))
    share = (min(top, high) - max(bottom, low)) / (top - bottom)
    middle = spine.centres_ras[n] if spine.whole[n] else spine.at_height((max(bottom, low) + min(top, high)) / 2)
    return Level(float(share), middle, float(spine.chance[n]))


def between_bounds(grid: Grid, field: Field, spine: Spine, vertebra: str) -> Field:
    """Reduce the values of a vertebra's field above its upper boundary, and less strongly below its lower boundary.

    The processes of a vertebra reach below its lower boundary. For the vertebra directly above `spine`, values below
    its lower boundary become 0, except behind the spine. A vertebra neither in `spine` nor next to it gets zeros.
    """
    place = VERTEBRAE.index(vertebra)
    height, behind = grid.position(field, 2), 1.0
    if vertebra in spine.names:
        bottom, top = spine.bounds_s[spine.names.index(vertebra)]
    elif place == VERTEBRAE.index(spine.names[0]) - 1:
        bottom, top = spine.bounds_s[0, 1], np.inf
        middle = np.interp(height, spine.course[:, 2], spine.course[:, 1])
        behind = (height > bottom) | (grid.position(field, 1) < middle - _BEHIND_MM)
    elif place == VERTEBRAE.index(spine.names[-1]) + 1:
        bottom, top = -np.inf, spine.bounds_s[-1, 0]
    else:
        return grid.with_values(field, np.zeros_like(field.values))
    below, above = np.maximum(bottom - height, 0), np.maximum(height - top, 0)
    return grid.with_values(field, field.values * behind * np.exp(-((below / 8) ** 2) / 2 - (above / 4) ** 2 / 2))
