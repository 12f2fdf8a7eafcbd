"""The one rule for the status of an answer. Every program asks it here and shows its word unchanged.

* matched: the scan shows the point, and the expected error is at most 15 mm.
* uncertain: perhaps the scan does not show the point, or the expected error is larger, or the level of the spine is
  not certain.
* absent: the scan does not show the point.
"""

from __future__ import annotations

import numpy as np

MATCHED, UNCERTAIN, ABSENT = "matched", "uncertain", "absent"
MATCHED_MM = 15.0  # largest expected error of a match
_SHOWN = 0.85  # least probability that the scan shows the point, of a match
_PERHAPS_SHOWN = 0.5  # below it the answer is absent


def decide(present: np.ndarray | float, expected_mm: np.ndarray | float) -> np.ndarray:
    """(n,) statuses by the probabilities (n,) that the scan shows the point and the expected errors (n,) in mm."""
    sure = (np.asarray(present) >= _SHOWN) & (np.asarray(expected_mm) <= MATCHED_MM)
    return np.where(np.asarray(present) < _PERHAPS_SHOWN, ABSENT, np.where(sure, MATCHED, UNCERTAIN))


def at_most_uncertain(status: np.ndarray, doubtful: np.ndarray) -> np.ndarray:
    """Statuses (n,) in which no answer that is `doubtful` (n,) bool is matched."""
    return np.where(doubtful & (status == MATCHED), UNCERTAIN, status)
