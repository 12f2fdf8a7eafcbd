"""Fits a rigid or affine transform to a grid of matches over the body (SAM-affine of SAME, Liu 2021).

Uncertain matches are left out, so the scans may show different parts of the body. A match at the spine whose vertebra
is uncertain can be kept for its place in the axial plane. The matches are weighted by
their depth below the skin. Otherwise the many points in the body wall would have more weight than the organs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import SimpleITK as sitk

from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError
from ..fields.spline import Lattice
from ..matching.match import SAME_TISSUE, Matches, match
from ..scan.geometry import transform_points
from . import AFFINE, RIGID

# spacings of the grid; the first one that gives enough points is used
_STEPS_MM = (24.0, 16.0, 12.0)
_ENOUGH = 300  # points of the grid; by hand, not tuned
# matches; by hand: some times the 3 and 4 that determine the fit
_FEWEST = {RIGID: 8, AFFINE: 16}
_ROUNDS = 20  # of the robust fit; by hand
_HUBER = 2.0  # a match with an error above this multiple of the median error gets less weight
_DOUBT = 4.0  # points must be spread over this multiple of the error to determine a scale
_LEAST_DOUBT_MM = 1e-4  # least value of this spread, for points in one plane without error
# These limits are wider than those of `matching.status`: many points with errors of 2 cm still give a good fit.
_LEAST_PRESENT, _LEAST_PROBABILITY, _LARGEST_ERROR_MM = 0.85, 0.2, 20.0
_LEAST_SCORE = 0.5  # least score of a match that is used; only for weights without calibration


@dataclass(frozen=True, eq=False)
class GridMatches:
    """Matches of a grid of points in the fixed scan's body.

    Args:
        lattice: the grid.
        index: (n, 3) i, j, k of the matched points in the lattice.
        fixed_ras, moving_ras: (n, 3) RAS mm of the points, and of their matches in the moving scan.
        weight: (n,) weight of each match; a reliable match has a high weight.
        depth_mm: (n,) depth of each point below the skin.
        tried: number of points before uncertain matches were left out.
        alike: share of the matches whose tissue is as similar as in two scans of one patient, 0 to 1.
        height_known: (n,) False for a match that may lie at the wrong vertebra. The fit uses only its place in the
            axial plane. True: all heights are known.
    """

    lattice: Lattice
    index: np.ndarray
    fixed_ras: np.ndarray
    moving_ras: np.ndarray
    weight: np.ndarray
    depth_mm: np.ndarray
    tried: int
    alike: float = 0.0
    height_known: np.ndarray | bool = True


def match_grid(
    fixed: EmbeddingMap,
    moving: EmbeddingMap,
    steps_mm: Sequence[float] = _STEPS_MM,
    uncertain_levels: bool = False,
) -> GridMatches:
    """Match a grid of points in the fixed scan's body with the moving scan.

    Args:
        fixed, moving: maps of the two scans.
        steps_mm: spacings of the grid; the first one that gives enough points is used.
        uncertain_levels: True to keep matches at the spine that have two possible levels.

    Raises MapError if the maps were made with different weights, or if a scan shows no body.
    """
    fixed.check_body()
    for step in steps_mm:
        lattice, in_body = _grid(fixed, step)
        if in_body.sum() >= _ENOUGH:
            break
    points = lattice.points_ras()[in_body.ravel()]
    index = np.argwhere(in_body)[:, ::-1]
    i, j, k = np.rint(transform_points(fixed.ras_to_cell, points)).astype(int).T
    depth_mm = _depth_mm(fixed)[k, j, i]
    matches = match(fixed, points, moving)
    chosen, trust = _trust(matches)
    height_known = np.full(len(points), True) if matches.status is None else matches.levels == ""
    sure = chosen & height_known  # at the right vertebra, or away from the spine
    alike = float((matches.score[sure] >= SAME_TISSUE).sum()) / max(int(sure.sum()), 1)
    if not uncertain_levels:
        chosen = sure
    return GridMatches(
        lattice,
        index[chosen],
        points[chosen],
        matches.points_ras[chosen],
        trust[chosen],
        depth_mm[chosen],
        len(points),
        alike,
        height_known[chosen],
    )


def _trust(matches: Matches) -> tuple[np.ndarray, np.ndarray]:
    """Choose the matches that the fit uses, (n,) bool. Also returns the weight of every match, (n,)."""
    if matches.status is None:  # weights without calibration
        return matches.score >= _LEAST_SCORE, matches.score
    sure = (matches.present >= _LEAST_PRESENT) & (matches.probability >= _LEAST_PROBABILITY)
    sure &= matches.expected_error_mm <= _LARGEST_ERROR_MM
    return sure, matches.score**2 / np.maximum(matches.expected_error_mm, 1.0)


def fit_affine(matches: GridMatches, kind: str = AFFINE) -> np.ndarray:
    """Fit a (4, 4) matrix from RAS mm of the fixed scan to RAS mm of the moving scan. kind: "rigid" or "affine".

    The height of a match of uncertain level is taken from the fit before. So it moves the fit only in the axial plane.

    Raises AnatomicalEmbeddingError if there are too few matches.
    """
    height_known = np.broadcast_to(matches.height_known, len(matches.fixed_ras))
    if height_known.sum() < _FEWEST[kind]:
        raise AnatomicalEmbeddingError(
            f"only {height_known.sum()} of {matches.tried} points of the fixed scan were found in the moving scan; "
            "choose two scans that have more of the body in common."
        )
    columns = matches.fixed_ras, matches.moving_ras, matches.depth_mm
    fit = _rigid(*(column[height_known] for column in columns))
    goal = matches.moving_ras.copy()
    for _ in range(_ROUNDS):
        moved = transform_points(fit, matches.fixed_ras)
        goal[~height_known, 2] = moved[~height_known, 2]
        error = np.linalg.norm(moved - goal, axis=1)
        trust = np.minimum(1.0, _HUBER * np.median(error) / np.maximum(error, 1e-6))
        weight = matches.depth_mm * trust
        if kind == RIGID:
            fit = _rigid(matches.fixed_ras, goal, weight)
        else:
            doubt_mm = _DOUBT * np.sqrt(np.average(error**2, weights=weight))
            fit = _affine(matches.fixed_ras, goal, weight, doubt_mm)
    return fit


def _grid(fixed: EmbeddingMap, step_mm: float) -> tuple[Lattice, np.ndarray]:
    """Return a lattice over the body, and (k, j, i) bool, whether each of its points lies in the body and the scan."""
    low, high = fixed.body_bounds_ras
    lattice = Lattice.within(low, high, step_mm)
    points = lattice.points_ras()
    in_body = fixed.in_body(points) & fixed.contains(points)
    return lattice, in_body.reshape(lattice.shape)


def _depth_mm(fixed: EmbeddingMap) -> np.ndarray:
    """Measure the distance, (k, j, i) mm, of each body cell from the nearest cell outside the body or the scan."""
    mask = sitk.GetImageFromArray(np.pad(fixed.body.numpy().astype(np.uint8), 1))
    mask.SetSpacing(fixed.cell_mm.tolist())
    distance = sitk.SignedMaurerDistanceMap(
        mask, insideIsPositive=True, squaredDistance=False, useImageSpacing=True
    )
    depth = sitk.GetArrayFromImage(distance)[1:-1, 1:-1, 1:-1]  # without the padding
    # the outermost cells of the mask have the distance 0; their centres lie half a cell deep
    return np.maximum(depth, 0.0) + fixed.cell_mm.min() / 2


def _affine(
    source: np.ndarray, target: np.ndarray, weight: np.ndarray, doubt_mm: float
) -> np.ndarray:
    """Fit an affine transform by least squares, with a prior that keeps it near a rotation.

    The prior is needed because points that lie close together along an axis determine no scale along this axis. If the
    standard deviation of the points along an axis is `doubt_mm`, points and prior have the same weight there.
    """
    middles, spread = _moments(source, target, weight)
    _, source_spread = _moments(source, source, weight)
    # the least-squares solution is spread @ inv(source_spread); the prior is that of a rotation
    prior = max(doubt_mm, _LEAST_DOUBT_MM) ** 2
    goal = spread + prior * _turn(spread)
    return _about(middles, goal @ np.linalg.inv(source_spread + prior * np.eye(3)))


def _rigid(source: np.ndarray, target: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Fit a rotation and a shift of points (n, 3) by weighted least squares. Returns a (4, 4) matrix."""
    middles, spread = _moments(source, target, weight)
    return _about(middles, _turn(spread))


def _moments(
    source: np.ndarray, target: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted means of source and target, (2, 3); and the (3, 3) covariance of target (rows) and source."""
    weight = weight / weight.sum()
    source_middle = weight @ source
    target_middle = weight @ target
    weighted = (target - target_middle) * weight[:, None]
    return np.stack([source_middle, target_middle]), weighted.T @ (source - source_middle)


def _turn(spread: np.ndarray) -> np.ndarray:
    """Return the least-squares rotation of source to target (Kabsch 1976). spread: covariance from `_moments`."""
    u, _, vt = np.linalg.svd(spread)
    # the sign prevents a reflection
    return u @ np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))]) @ vt


def _about(middles: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Make the (4, 4) matrix that has the linear part `linear`, (3, 3), and maps middles[0] to middles[1]."""
    fit = np.eye(4)
    fit[:3, :3] = linear
    fit[:3, 3] = middles[1] - linear @ middles[0]
    return fit
