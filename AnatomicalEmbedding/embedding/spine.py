"""The order of the spine in one scan, and the correction of body coordinates that follows from this order.

Neighbouring vertebrae look alike, so the coordinate of a vertebra may be wrong by the height of a vertebra. `spine_fit`
fits all vertebrae of a scan in their order. `Spine` contains the result. Each vertebra then gets the coordinate that
this vertebra has in the average body, as far as its level is certain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..anatomy.names import VERTEBRAE

# Usual middle of each vertebra in the body frame: A and S, mm. S was measured in maps by `ct-open`: in images drawn of
# 12 label maps with labelled vertebrae, and in 20 CTs with the spine that was fitted.
COURSE_MM = {
    "C1": (1, 657), "C2": (24, 643), "C3": (21, 626), "C4": (17, 609), "C5": (15, 593), "C6": (9, 576),
    "C7": (9, 566), "T1": (-4, 556), "T2": (-11, 535), "T3": (-23, 518), "T4": (-37, 499), "T5": (-43, 477),
    "T6": (-46, 452), "T7": (-37, 426), "T8": (-36, 397), "T9": (-30, 369), "T10": (-26, 341), "T11": (-21, 313),
    "T12": (-16, 291), "L1": (-10, 265), "L2": (-5, 234), "L3": (-5, 205), "L4": (-3, 170), "L5": (-7, 136),
    "S1": (-22, 106),
}  # fmt: skip
AHEAD_MM, HEIGHT_MM = np.array(list(COURSE_MM.values()), dtype=np.float64).T
_BEHIND_MM = 30.0  # the full correction reaches this far behind the middle of the vertebral bodies
_FULL_MM, _FADE_MM = 18.0, 10.0  # radius of the full correction; standard deviation of its decrease outside this radius
_LARGEST_MM = 1e5  # largest number in the file of a spine
_END_FADE_MM = 20.0  # above and below the vertebrae that were found, the correction falls to 0 over this distance


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

    def at_height(self, s: float) -> np.ndarray:
        """Return the middle of the spine (3,) RAS mm at height S = `s` mm."""
        return np.array([np.interp(s, self.course[:, 2], self.course[:, axis]) for axis in range(2)] + [s])

    def shift_of(self, name: str) -> float:
        """Return `shift_mm` of a vertebra; for a vertebra outside the scan, `shift_mm` of the nearest vertebra."""
        order = np.array([VERTEBRAE.index(each) for each in self.names])
        return float(self.shift_mm[np.abs(order - VERTEBRAE.index(name)).argmin()])

    def nearest(self, heights: np.ndarray) -> np.ndarray:
        """Return the index (p,) of the vertebra whose middle is nearest to each of the heights (p,), RAS S mm."""
        return np.abs(np.asarray(heights, np.float64)[:, None] - self.bounds_s.mean(axis=1)).argmin(axis=1)

    def correction(self, points_ras: np.ndarray) -> np.ndarray:
        """Return the correction (p, 3), mm, of the network's body coordinates at points (p, 3) RAS mm."""
        r, a, s = np.asarray(points_ras, dtype=np.float64).T
        course = self.course
        aside = r - np.interp(s, course[:, 2], course[:, 0])
        ahead = a - np.interp(s, course[:, 2], course[:, 1])
        away = np.hypot(aside, np.maximum(ahead, np.maximum(-_BEHIND_MM - ahead, 0)))
        low, high = self.bounds_s.min(), self.bounds_s.max()
        beyond = np.maximum(s - high, np.maximum(low - s, 0)) / _END_FADE_MM
        weight = np.exp(-np.square(np.maximum(away - _FULL_MM, 0) / _FADE_MM) / 2) * np.clip(1 - beyond, 0, 1)
        shift = [np.interp(s, course[:, 2], self.course_shift_mm[:, axis]) for axis in range(2)]
        return np.stack([np.zeros_like(s), *shift], axis=1) * weight[:, None]


def spine_to_json(spine: Spine | None) -> dict[str, Any] | None:
    """Return a spine as values that can be written as JSON, rounded to 0.001 mm; None for None."""
    if spine is None:
        return None
    values = {each.name: np.asarray(getattr(spine, each.name)) for each in fields(spine)}
    return {name: (of.round(3) if of.dtype == np.float64 else of).tolist() for name, of in values.items()}


def spine_from_json(values: Mapping[str, Any] | None) -> Spine | None:
    """Make a spine from the values of `spine_to_json`. Raises KeyError, TypeError or ValueError for wrong values."""
    if values is None:
        return None
    names, n, m = tuple(values["names"]), len(values["names"]), len(values["course"])
    shapes = {
        "centres_ras": (n, 3), "bounds_s": (n, 2), "whole": (n,), "chances": (n, 3), "shift_mm": (n,),
        "course": (m, 3), "course_shift_mm": (m, 2),
    }  # fmt: skip
    arrays = {name: np.array(values[name], dtype=bool if name == "whole" else np.float64) for name in shapes}
    if any(arrays[name].shape != shape for name, shape in shapes.items()) or not n or not set(names) <= set(VERTEBRAE):
        raise ValueError("a spine cannot have this form")
    if not all((np.abs(of) < _LARGEST_MM).all() for of in arrays.values()):  # False for NaN
        raise ValueError("a spine cannot lie there")
    return Spine(names, anchors=tuple(map(str, values["anchors"])), **arrays)
