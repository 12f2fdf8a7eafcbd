"""The rules for the status of an answer. All parts of the program use these rules and show the status unchanged.

* matched: the scan shows the point, and the expected error is at most 10 mm (10 units, for scans of another kind).
* uncertain: the scan may not show the point, the expected error is larger, or the level of the spine is uncertain.
* absent: the scan does not show the point.

A place that the user describes in words is inside the scan, partly in the scan, outside the scan, or uncertain.
"""

import math

import numpy as np

MATCHED, UNCERTAIN, ABSENT = "matched", "uncertain", "absent"
MATCHED_MM = 10.0  # largest expected error of a "matched" answer
SHOWN = 0.85  # least probability, for "matched", that the scan shows the point
_PERHAPS_SHOWN = 0.5  # with a lower probability the answer is absent

INSIDE, PARTLY, OUTSIDE = "inside", "partly", "outside"
# share of a place in the scan: least for INSIDE, largest for OUTSIDE
_INSIDE_SHARE, _OUTSIDE_SHARE = 0.85, 0.03
# A place with a share of at most _OUTSIDE_SHARE is still PARTLY in the scan if a cell shows the place with at least
# this probability: the second value if `counted` is True (see `decide_place`), else the first value.
_SEEN, _SEEN_IF_COUNTED = 0.8, 0.5
CERTAIN_PLACE = 0.5  # a place that the scan shows is uncertain below this probability

WHOLE, CUT = "whole", "cut"
# a side closer to the scan's edge than this many likely errors may lie beyond the edge
NEAR_ERRORS = 1.5
# If the likely error of a side, divided by the smallest size of the box, is above this, the box may miss its structure.
_LOOSE = 0.4
_MOSTLY_SHOWN = 0.5  # if a smaller share of a structure is in the scan, its box is cut


def decide(present: np.ndarray | float, expected_mm: np.ndarray | float) -> np.ndarray:
    """Decide statuses (n,). present: (n,) chance that the scan shows the point. expected_mm: (n,) expected error."""
    sure = (np.asarray(present) >= SHOWN) & (np.asarray(expected_mm) <= MATCHED_MM)
    return np.where(
        np.asarray(present) < _PERHAPS_SHOWN, ABSENT, np.where(sure, MATCHED, UNCERTAIN)
    )


def decimals(unit_mm: float) -> int:
    """Return how many digits after the point an error in mm is printed with. unit_mm: unit of the maps; 1 for CTs."""
    return max(0, math.ceil(-math.log10(unit_mm)))


def at_most_uncertain(status: np.ndarray, doubtful: np.ndarray | bool) -> np.ndarray:
    """Change "matched" to "uncertain" where `doubtful`, (n,) or one for all, is True. Returns the statuses (n,)."""
    return np.where(doubtful & (status == MATCHED), UNCERTAIN, status)


def decide_place(share: float, largest: float, counted: bool) -> str:
    """Decide whether a place described in words is INSIDE, PARTLY in or OUTSIDE the scan.

    Args:
        share: fraction of the place that lies in the scan, 0..1.
        largest: highest probability, over all cells of the scan, that the cell shows the place, 0..1.
        counted: whether `share` was computed from the levels of the spine that the scan shows.
    """
    if share <= _OUTSIDE_SHARE and largest < (_SEEN_IF_COUNTED if counted else _SEEN):
        return OUTSIDE
    return INSIDE if share >= _INSIDE_SHARE else PARTLY


def decide_box(
    present: float, cut: bool, perhaps_cut: bool, error_share: float, doubtful_level: bool
) -> str:
    """Decide whether the box of a structure is WHOLE, CUT by the scan's edge, UNCERTAIN or ABSENT.

    Args:
        present: fraction of the structure in the scan, 0..1.
        cut: whether a side lies beyond the scan's edge.
        perhaps_cut: whether a side is closer to the scan's edge than NEAR_ERRORS times the likely error of this side.
        error_share: largest likely error of a side, divided by the smallest dimension of the box.
        doubtful_level: whether this may be the box of the next vertebra or rib.
    """
    if present == 0:
        return ABSENT
    if not doubtful_level and (cut or present < _MOSTLY_SHOWN):
        return CUT
    return UNCERTAIN if doubtful_level or perhaps_cut or error_share > _LOOSE else WHOLE
