"""Combines the answers of several examples of one landmark in a scan."""

from math import erf, log, sqrt

import numpy as np

from ..matching.match import Matches
from ..matching.status import at_most_uncertain, decide

# Median error of a combined answer: sqrt(_OWN e^2 / k + _COMMON e^2 + _SPREAD s^2) mm, with the expected error e of one
# answer, the number k of examples and the spread s of their answers; errors are log-normal with the deviation _SIGMA.
# Fitted to the shares of answers within 10 and 20 mm with ct-open, 1 to 10 examples a landmark. 47 heads and necks
# count as much as 16 chests.
_OWN, _COMMON, _SPREAD, _SIGMA = 0.61, 0.23, 0.05, 0.72
# Median error, relative to e, and deviation of the answer of one example. Fitted to the same scans; with each source of
# scans left out, probabilities are off by 0.05, those of `match` by 0.08.
_SINGLE, _SINGLE_SIGMA = 0.78, 0.9
_LEAST_MM = 1.0  # smallest expected error of one answer: no answer outweighs all others
_HIGHEST = 0.99  # highest probability that is stated


def combine(
    matches: Matches, weights: np.ndarray, error_factor: float = 1.0, unit_mm: float = 1.0
) -> Matches:
    """Combine the answers of k examples of one landmark in one scan.

    Answers are averaged with weights 1 / expected error squared.

    Args:
        matches: k answers, one of each example.
        weights: (k,) 0 for examples that have no say, else 1. At least one is 1.
        error_factor: true errors of this landmark relative to the stated ones, see `landmark_set.Landmark`.
        unit_mm: unit of the maps.

    Returns:
        One answer, without evidence. Without a calibration, it has only a place and a score.
    """
    matches = matches[np.flatnonzero(weights)]
    count = len(matches)
    errors_mm = np.ones(count)
    if matches.expected_error_mm is not None:
        errors_mm = np.maximum(matches.expected_error_mm, _LEAST_MM * unit_mm)
    share = errors_mm**-2.0
    single_mm = sqrt(1 / np.mean(share))
    share /= share.sum()
    place = share @ matches.points_ras
    score = share @ matches.score
    if matches.status is None:
        return Matches(place[None], np.array([score]))
    median_mm = error_factor * _SINGLE * single_mm
    if count > 1:
        squares = np.square(matches.points_ras - place).sum(axis=1)
        spread_mm = sqrt(share @ squares * count / (count - 1))
        square = (_OWN / count + _COMMON) * single_mm**2 + _SPREAD * spread_mm**2
        median_mm = error_factor * sqrt(square)
    sigma = _deviation(count)
    expected_mm = median_mm * np.exp(sigma**2 / 2)
    present = share @ matches.present
    status = decide(present, expected_mm / unit_mm)
    doubtful = matches.levels != ""
    levels = ""
    if share @ doubtful > 0.5:
        levels = matches.levels[doubtful][0]
        status = at_most_uncertain(status, True)
    columns = {
        "score": score,
        "status": status,
        "expected_error_mm": expected_mm,
        "probability": present * _share_within(10.0 * unit_mm, median_mm, sigma),
        "probability_20": present * _share_within(20.0 * unit_mm, median_mm, sigma),
        "present": present,
        "levels": levels,
    }
    return Matches(place[None], **{name: np.array([value]) for name, value in columns.items()})


def median_error_mm(expected_mm: float, count: int) -> float:
    """Return the median error, mm, that belongs to the expected (mean) error of a combined answer.

    Args:
        expected_mm: expected error.
        count: number of examples that have a say.
    """
    return expected_mm / float(np.exp(_deviation(count) ** 2 / 2))


def _deviation(count: int) -> float:
    return _SINGLE_SIGMA if count == 1 else _SIGMA


def _share_within(distance_mm: float, median_mm: float, sigma: float) -> float:
    share = 0.5 * (1 + erf(log(distance_mm / median_mm) / (sigma * sqrt(2))))
    return float(np.clip(share, 1 - _HIGHEST, _HIGHEST))
