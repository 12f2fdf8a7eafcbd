"""The vertebrae of one scan, and the correction of body coordinates that follows from them.

Neighbouring vertebrae look alike, so the coordinate of a vertebra may be wrong by the height of a vertebra. `fitting`
fits all vertebrae of a scan in their order. `Spine` contains the result. Each vertebra then gets the coordinate that
this vertebra has in the average body, as far as its level is certain.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from ..anatomy.names import VERTEBRAE
from .ends import ENDS
from .levels import Level, is_level_certain, two_levels

_BEHIND_MM = 30.0  # the full correction reaches this far behind the middle of the vertebral bodies
# radius of the full correction; standard deviation of its decrease outside this radius
_FULL_MM, _FADE_MM = 18.0, 10.0
_LARGEST_MM = 1e5  # largest number in the file of a spine
_END_FADE_MM = 20.0  # above the highest and below the lowest vertebra, the correction falls to 0 over this distance


@dataclass(frozen=True, eq=False)
class Spine:
    """The n vertebrae of a scan, head first.

    Args:
        names: levels such as "L3".
        centres_ras: (n, 3) RAS mm, middles of the vertebral bodies.
        bounds_s: (n, 2) RAS S mm of the lower and the upper boundary.
        whole: (n,) bool, whether the middle of the vertebra lies in the scan.
        chances: (n, 3) probability that the true level is one level nearer the head than `names` says, the level in
            `names`, or one level nearer the feet.
        shift_mm: (n,) mm, usual body coordinate S of each vertebra minus the coordinate that the network gives it.
        course: (m, 3) RAS mm, points along the middle of the spine, lowest first.
        course_shift_mm: (m, 2) mm along A and S, correction of the body coordinates at each point of `course`.
        anchors: landmarks in the scan from which the levels are counted: "sacrum", "lung apices", "skull base", "ribs".
            Empty if they contradict each other.
    """

    names: tuple[str, ...]
    centres_ras: np.ndarray
    bounds_s: np.ndarray
    whole: np.ndarray
    chances: np.ndarray
    shift_mm: np.ndarray
    course: np.ndarray
    course_shift_mm: np.ndarray
    anchors: tuple[str, ...] = ()

    @property
    def chance(self) -> np.ndarray:
        """(n,) chance that the level is right."""
        return self.chances[:, 1]

    @property
    def is_counted(self) -> bool:
        """Whether the levels are counted from an end of the spine.

        Otherwise they are counted from no place, or from the lowest ribs only, and some people have one pair of ribs
        more or fewer. Then no level is certain.
        """
        return not ENDS.keys().isdisjoint(self.anchors)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels of the n vertebrae."""
        certain = is_level_certain(self.chance) & self.is_counted
        levels = []
        for name, chances, is_certain in zip(self.names, self.chances, certain, strict=True):
            higher, chance, lower = chances
            # the upper one of the two likely levels
            upper = VERTEBRAE.index(name) - int(higher > lower)
            levels.append(Level(name, float(chance), two_levels(upper), bool(is_certain)))
        return tuple(levels)

    def level_at(self, s: float) -> Level | None:
        """Return the level of the vertebra at the height S = `s` mm; None if no vertebra of the scan lies there."""
        rows = self.rows_between(s, s)
        return self.levels[rows[0]] if len(rows) else None

    def rows_between(self, low: float, high: float) -> np.ndarray:
        """Return the indices of the vertebrae between two heights, RAS S mm, head first."""
        return np.flatnonzero((self.bounds_s[:, 0] <= high) & (low < self.bounds_s[:, 1]))

    def at_height(self, s: float) -> np.ndarray:
        """Return the middle of the spine (3,) RAS mm at height S = `s` mm."""
        return np.array([*self.middle_at(s), s])

    def middle_at(self, heights: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """Return R and A of the middle of the spine, RAS mm, at heights (p,), RAS S mm."""
        right, ahead, up = self.course.T
        return np.interp(heights, up, right), np.interp(heights, up, ahead)

    def shift_of(self, name: str) -> float:
        """Return `shift_mm` of a vertebra; for a vertebra outside the scan, `shift_mm` of the nearest vertebra."""
        number = VERTEBRAE.index(name)
        distance = [abs(VERTEBRAE.index(level) - number) for level in self.names]
        return float(self.shift_mm[np.argmin(distance)])

    def nearest(self, heights: np.ndarray) -> np.ndarray:
        """Return the index (p,) of the vertebra whose middle is nearest to each of the heights (p,), RAS S mm."""
        offset = heights[:, None] - self.bounds_s.mean(axis=1)
        return np.abs(offset).argmin(axis=1)

    def correction(self, points_ras: np.ndarray) -> np.ndarray:
        """Return the correction (p, 3), mm, of the network's body coordinates at points (p, 3) RAS mm."""
        r, a, s = points_ras.T
        right, front = self.middle_at(s)
        ahead = a - front
        # from the line of vertebral bodies and arches
        distance = np.hypot(r - right, np.maximum(ahead, np.maximum(-_BEHIND_MM - ahead, 0)))
        low = self.bounds_s.min()
        high = self.bounds_s.max()
        beyond = np.maximum(s - high, np.maximum(low - s, 0)) / _END_FADE_MM
        fade = np.exp(-np.square(np.maximum(distance - _FULL_MM, 0) / _FADE_MM) / 2)
        weight = fade * np.clip(1 - beyond, 0, 1)
        shift = [np.interp(s, self.course[:, 2], values) for values in self.course_shift_mm.T]
        return np.stack([np.zeros_like(s), *shift], axis=1) * weight[:, None]


def level_text(spine: Spine | None, s: float) -> str:
    """Return the level at a height of a scan: "L3", or "L3 or L4" if the level is not certain; "" for no vertebra.

    s: RAS S mm.
    """
    level = None if spine is None else spine.level_at(s)
    return "" if level is None else level.text


def spine_to_json(spine: Spine | None) -> dict[str, Any] | None:
    """Return a spine as values that can be written as JSON, rounded to 0.001 mm; None for None."""
    if spine is None:
        return None
    arrays = {field.name: np.asarray(getattr(spine, field.name)) for field in fields(spine)}
    return {
        name: (array.round(3) if array.dtype == np.float64 else array).tolist()
        for name, array in arrays.items()
    }


def spine_from_json(values: Mapping[str, Any] | None) -> Spine | None:
    """Make a spine from the values of `spine_to_json`. Raises KeyError, TypeError or ValueError for wrong values."""
    if values is None:
        return None
    names = tuple(values["names"])
    n = len(names)
    m = len(values["course"])
    shapes = {
        "centres_ras": (n, 3),
        "bounds_s": (n, 2),
        "whole": (n,),
        "chances": (n, 3),
        "shift_mm": (n,),
        "course": (m, 3),
        "course_shift_mm": (m, 2),
    }
    arrays = {
        name: np.array(values[name], bool if name == "whole" else np.float64) for name in shapes
    }
    has_shapes = all(arrays[name].shape == shape for name, shape in shapes.items())
    if not n or not has_shapes or not set(names) <= set(VERTEBRAE):
        raise ValueError("a spine cannot have this form")
    if not all((np.abs(array) < _LARGEST_MM).all() for array in arrays.values()):  # False for NaN
        raise ValueError("a spine cannot lie there")
    return Spine(names, anchors=tuple(map(str, values["anchors"])), **arrays)
