"""The ends of the spine that a scan shows, from which its vertebrae can be counted.

The top of the sacrum, the lung apices and the skull base are called **ends**. A level is certain if the scan shows an
end at most three vertebrae away. A **world height** is the S coordinate of a place in the scan, in mm. A body height,
in contrast, is a height in the average body.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .average import height_of


class End(NamedTuple):
    """An end of the spine in the average body.

    Args:
        height_mm: body height.
        neighbour: the vertebra at the end.
        tolerance_mm: two heights above the end that differ by less are the same: a little more than half a vertebra.
        above: the vertebra above the boundary that is fitted to the end.
        boundary_mm: height of this boundary above the end, and its standard error `error_mm`: measured in label images.
    """

    height_mm: float
    neighbour: str
    tolerance_mm: float
    above: str
    boundary_mm: float
    error_mm: float


ENDS = {
    "sacrum": End(131.0, "L5", 20.0, "L5", -14.0, 8.0),
    "lung apices": End(563.0, "T1", 13.0, "C7", 6.0, 12.0),
    "skull base": End(648.0, "C2", 10.0, "C2", -21.0, 7.0),
}
_TOLERANCE_MM = np.array([end.tolerance_mm for end in ENDS.values()])
_LUNGS, _BRAIN = ("lung_left", "lung_right"), ("brain", "brainstem")
_LEAST_SACRUM_MM = 35.0  # least height of the sacrum's box; a lower box may be the last lumbar vertebra, not a sacrum
_WITHIN_MM = 5.0  # an organ that ends closer to the scan's border than this may be cut
_BELOW_BRAIN_MM = 30.0  # least height of the part below the brain that the scan must show
# the lung apices count as shown only if the scan's top has a larger body height
_APICES_FROM_MM = 540.0
_FARTHEST_MM = 100.0  # largest distance from an end: the height of three vertebrae


def find_ends(
    organ_boxes: Mapping[str, np.ndarray], bounds_s: tuple[float, float], top_height_mm: float
) -> dict[str, float]:
    """Find the ends of the spine in a scan. Returns end -> S in RAS mm.

    Args:
        organ_boxes: organ -> (2, 3) lowest and highest corner, RAS mm.
        bounds_s: lower and upper end of the scan, RAS S mm.
        top_height_mm: body height of the scan's upper end; -inf if it is not known.
    """
    bottom, top = bounds_s
    ends = {}
    if "sacrum" in organ_boxes:
        sacrum_bottom, sacrum_top = organ_boxes["sacrum"][:, 2]
        if sacrum_top - sacrum_bottom >= _LEAST_SACRUM_MM and sacrum_top < top - 2 * _WITHIN_MM:
            ends["sacrum"] = float(sacrum_top)
    # S of the tops of the lungs, and of the bottoms of brain and brainstem
    apices = [float(organ_boxes[name][1, 2]) for name in _LUNGS if name in organ_boxes]
    if apices and max(apices) < top - _WITHIN_MM and top_height_mm > _APICES_FROM_MM:
        ends["lung apices"] = float(np.mean(apices))
    bases = [float(organ_boxes[name][0, 2]) for name in _BRAIN if name in organ_boxes]
    if bases and min(bases) > bottom + _BELOW_BRAIN_MM:
        ends["skull base"] = min(bases)
    return ends


def above_ends(heights: np.ndarray, ends: Mapping[str, float]) -> np.ndarray:
    """Measure how far world heights (n,) lie above top of sacrum, lung apices and skull base. Returns (n, 3) mm.

    ends: result of `find_ends`. If the scan does not show an end, the end's column is NaN.
    """
    return heights[:, None] - [ends.get(name, np.nan) for name in ENDS]


def counted_alike(heights: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return (n,) bool: whether both scans show a point at the same height above or below the same end of the spine.

    heights, answers: results of `above_ends` for n points in the first and in the second scan. Only ends less than
    100 mm from the point in the first scan are used. Heights are the same if they differ by at most about half a
    vertebra.
    """
    # False for NaN
    alike = (np.abs(heights) < _FARTHEST_MM) & (np.abs(answers - heights) < _TOLERANCE_MM)
    return alike.any(axis=1)


def is_counted(level: str, height: float, ends: Mapping[str, float]) -> bool:
    """Whether a vertebra has its usual distance from a nearby end of the spine.

    Args:
        level: its level.
        height: S of its middle, mm.
        ends: the ends that the scan shows, `find_ends`.
    """
    usual = np.array([[height_of(level) - end.height_mm for end in ENDS.values()]])
    return bool(counted_alike(usual, above_ends(np.array([height]), ends))[0])
