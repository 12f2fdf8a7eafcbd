"""The one rule for the status of an answer. Every program asks it here and shows its word unchanged.

* matched: the scan shows the point, and the expected error is at most 15 mm.
* uncertain: perhaps the scan does not show the point, or the expected error is larger, or the level of the spine is
  not certain.
* absent: the scan does not show the point.

A place that words name is inside the scan, partly in it, outside it, or uncertain: perhaps it is not there at all.
"""

from __future__ import annotations

import numpy as np

MATCHED, UNCERTAIN, ABSENT = "matched", "uncertain", "absent"
MATCHED_MM = 15.0  # largest expected error of a match
_SHOWN = 0.85  # least probability that the scan shows the point, of a match
_PERHAPS_SHOWN = 0.5  # below it the answer is absent

INSIDE, PARTLY, OUTSIDE = "inside", "partly", "outside"
_INSIDE_SHARE, _OUTSIDE_SHARE = 0.85, 0.03  # of a place that lies in the scan
_SEEN, _SEEN_UNCOUNTED = 0.8, 0.5  # chance of a cell that shows a place although hardly any of it lies in the scan
CERTAIN_BY_RULE = 0.3  # least chance of a place by a rule of its own; below it the place is uncertain
CERTAIN_SEX = 0.5  # least chance of a place of one sex

WHOLE, CUT = "whole", "cut"
NEAR_ERRORS = 1.5  # likely errors from the scan's edge within which a side of a box may lie beyond it
_LOOSE = 0.4  # likely error of a side, in the box's smallest size, from which a box may miss its structure
_MOSTLY_SHOWN = 0.5  # share of a structure in the scan; below it the box is cut


def decide(present: np.ndarray | float, expected_mm: np.ndarray | float) -> np.ndarray:
    """(n,) statuses by the probabilities (n,) that the scan shows the point and the expected errors (n,) in mm."""
    sure = (np.asarray(present) >= _SHOWN) & (np.asarray(expected_mm) <= MATCHED_MM)
    return np.where(np.asarray(present) < _PERHAPS_SHOWN, ABSENT, np.where(sure, MATCHED, UNCERTAIN))


def at_most_uncertain(status: np.ndarray, doubtful: np.ndarray) -> np.ndarray:
    """Statuses (n,) in which no answer that is `doubtful` (n,) bool is matched."""
    return np.where(doubtful & (status == MATCHED), UNCERTAIN, status)


def decide_place(share: float, largest: float, counted: bool) -> str:
    """Whether a place that words name is INSIDE, PARTLY in or OUTSIDE the scan.

    Args:
        share: of the place that lies in the scan, 0..1.
        largest: chance of the cell that shows the place most surely, 0..1.
        counted: the share comes from the levels of the spine that the scan shows.
    """
    if share <= _OUTSIDE_SHARE and largest < (_SEEN_UNCOUNTED if counted else _SEEN):
        return OUTSIDE
    return INSIDE if share >= _INSIDE_SHARE else PARTLY


def decide_box(present: float, cut: bool, perhaps_cut: bool, error_share: float, doubtful_level: bool) -> str:
    """Whether the box of a structure is WHOLE, CUT by the scan's edge, UNCERTAIN or ABSENT.

    Args:
        present: share of the structure in the scan, 0..1.
        cut: a side lies beyond the scan's edge. perhaps_cut: it lies within NEAR_ERRORS of it.
        error_share: largest likely error of a side, as a share of the box's smallest size.
        doubtful_level: perhaps it is the box of the next vertebra or rib.
    """
    if present == 0:
        return ABSENT
    if not doubtful_level and (cut or present < _MOSTLY_SHOWN):
        return CUT
    return UNCERTAIN if doubtful_level or perhaps_cut or error_share > _LOOSE else WHOLE
