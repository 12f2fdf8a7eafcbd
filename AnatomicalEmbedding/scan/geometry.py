"""Points and grids in patient space: RAS mm, voxel indices i, j, k, and LPS of DICOM and SimpleITK."""

from itertools import product

import numpy as np

# LPS and RAS differ in the sign of x and y, in both directions.
LPS_FROM_RAS = np.diag((-1.0, -1.0, 1.0, 1.0))
RAS_FROM_LPS = LPS_FROM_RAS
_ROUNDING = 1e-3  # of a voxel, tolerance for points on the edge


def transform_points(matrix: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Apply a (4,4) affine to (N,3) points."""
    return np.asarray(points, dtype=np.float64) @ matrix[:3, :3].T + matrix[:3, 3]


def in_grid(ijk: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """(N,) bool: does a continuous index i, j, k (N, 3) lie within the outer edges of a grid of shape k, j, i?"""
    last = np.array(shape[::-1]) - 0.5
    return ((ijk >= -0.5 - _ROUNDING) & (ijk <= last + _ROUNDING)).all(axis=-1)


def bounds_of(ijk_to_ras: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """(2,3): lowest and highest RAS mm of the outer edges of a grid's voxels; shape: (k,j,i)."""
    high = np.array(shape[::-1]) - 0.5
    corners = np.array(list(product(*((-0.5, h) for h in high))))
    corners_ras = transform_points(ijk_to_ras, corners)
    return np.array((corners_ras.min(axis=0), corners_ras.max(axis=0)))
