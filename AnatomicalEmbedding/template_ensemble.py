"""Several templates for one target: the same points placed in several scans, their answers taken together.

Goncharov 2024, section 2.3, averages few-shot answers; the geometric median does so without being led astray by one
template that fails, and answers that are expected to be exact count more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .calibration import ABSENT, MATCHED, UNCERTAIN
from .embedding import EmbeddingMap, as_points
from .errors import PointsError
from .matching import Matches, match_points

_ROUNDS = 30
_LEAST_MM = 1.0  # expected error; below it no answer counts more


def match_from_templates(
    templates: Sequence[tuple[EmbeddingMap, np.ndarray]], target: EmbeddingMap, effort: str = "standard"
) -> Matches:
    """Find points placed in several templates, each as (map, (N, 3) RAS mm), in one target.

    The answer is the geometric median of the templates' answers, weighted by the inverse of their expected errors.
    Score, expected error and probabilities are the means over the templates, which is cautious: together they are more
    exact than one alone. A point is matched, or absent, where most templates say so; else uncertain.
    Raises PointsError for no template or different numbers of points, and as `matching.match_targets`.
    """
    if not templates:
        raise PointsError("no template was given; give at least one map with its points.")
    counts = {len(as_points(points)) for _, points in templates}
    if len(counts) > 1:
        raise PointsError(f"templates hold {sorted(counts)} points; give the same points, in the same order, in each.")
    found = [match_points(template, points, target, effort) for template, points in templates]
    places = np.stack([matches.points_ras for matches in found], axis=1)
    score = np.mean([matches.score for matches in found], axis=0)
    if any(matches.status is None for matches in found):
        return Matches(_medians(places, np.ones(places.shape[:2])), score)
    expected = np.stack([matches.expected_error_mm for matches in found], axis=1)
    said = np.stack([matches.status for matches in found], axis=1)
    agreed = {status: (said == status).sum(axis=1) * 2 > len(found) for status in (MATCHED, ABSENT)}
    status = np.where(agreed[MATCHED], MATCHED, np.where(agreed[ABSENT], ABSENT, UNCERTAIN))
    return Matches(
        _medians(places, 1 / np.maximum(expected, _LEAST_MM)),
        score,
        status,
        expected.mean(axis=1),
        np.mean([matches.probability for matches in found], axis=0),
        np.mean([matches.probability_20 for matches in found], axis=0),
    )


def _medians(places: np.ndarray, weights: np.ndarray) -> np.ndarray:
    medians = [geometric_median(points, weight) for points, weight in zip(places, weights, strict=True)]
    return np.array(medians).reshape(-1, 3)


def geometric_median(points: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """The place (3,) with the least weighted sum of distances to points (n, 3) (Weiszfeld 1937).

    weight: (n,), or None for equal ones. NaN rows do not count.
    """
    known = np.isfinite(points).all(axis=1)
    points, weight = points[known], np.ones(int(known.sum())) if weight is None else weight[known]
    if not len(points):
        return np.full(3, np.nan)
    middle = weight @ points / weight.sum()
    for _ in range(_ROUNDS):
        pull = weight / np.maximum(np.linalg.norm(points - middle, axis=1), 1e-3)
        middle = pull @ points / pull.sum()
    return middle
