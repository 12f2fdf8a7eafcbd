"""The one rule for what an answer is called: matched, uncertain or absent."""

from __future__ import annotations

import numpy as np

from ..embedding.calibration import ABSENT, MATCHED, UNCERTAIN

_PRESENT = 0.85  # least probability that the point is in the scan, of a match
_WITHIN = 0.2  # least probability that the answer is within 10 mm, of a match
_MOST_MM = 20.0  # largest expected error of a match: half of the answers beyond it are wrong by more than that


def decide(present: np.ndarray, within: np.ndarray, expected_mm: np.ndarray) -> np.ndarray:
    """(n,) statuses by the probabilities that the point is in the scan and within 10 mm, and the expected error."""
    doubtful = (present < _PRESENT) | (within < _WITHIN) | (expected_mm > _MOST_MM)
    return np.where(present < 0.5, ABSENT, np.where(doubtful, UNCERTAIN, MATCHED))


def at_most_uncertain(status: np.ndarray, doubtful: np.ndarray) -> np.ndarray:
    """Statuses (n,), those of `doubtful` (n,) bool answers not matched."""
    return np.where(doubtful & (status == MATCHED), UNCERTAIN, status)
