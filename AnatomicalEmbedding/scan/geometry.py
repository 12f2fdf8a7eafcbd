"""Convert points and grids between RAS mm, LPS mm (DICOM, SimpleITK) and voxel indices i, j, k; resample grids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import SimpleITK as sitk


# LPS and RAS differ in the sign of x and y, so the same matrix converts in both directions.
LPS_FROM_RAS = np.diag((-1.0, -1.0, 1.0, 1.0))
RAS_FROM_LPS = LPS_FROM_RAS
# largest distance between the corners of two grids that count as the same grid
GRIDS_AGREE_MM = 0.5
_ROUNDING = 1e-3  # voxels; tolerance for points on the edge
AIR_HU = -1000.0  # by definition of the scale; outside of a scan there is air


def transform_points(matrix: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Apply a (4,4) affine to (N,3) points."""
    return np.asarray(points, np.float64) @ matrix[:3, :3].T + matrix[:3, 3]


def in_grid(ijk: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Return (...) bool: True where the continuous index i, j, k (..., 3) lies inside a grid of shape (k, j, i)."""
    inside = np.ones(ijk.shape[:-1], bool)
    # axis by axis, because np.all over an axis of length 3 is slow
    for axis, size in enumerate(shape[::-1]):
        inside &= (ijk[..., axis] >= -0.5 - _ROUNDING) & (ijk[..., axis] <= size - 0.5 + _ROUNDING)
    return inside


def box_corners(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the eight corners (8, 3) of a box from its lowest and its highest corner, (3,) each."""
    return np.array(list(product(*zip(low, high, strict=True))))


def corner_distance_mm(first: np.ndarray, second: np.ndarray, shape: Sequence[int]) -> float:
    """Return the largest distance, mm, between the same corners of two grids of one shape.

    Args:
        first, second: (4, 4) ijk_to_ras of the grids.
        shape: (k, j, i).
    """
    corners = box_corners(np.zeros(3), np.array(shape[::-1]) - 1)
    offsets = transform_points(first, corners) - transform_points(second, corners)
    return float(np.linalg.norm(offsets, axis=1).max())


def spacing_of(matrix: np.ndarray) -> np.ndarray:
    """Return the voxel size (3,), mm along i, j, k, of a grid. matrix: (4, 4) voxel i, j, k to mm, RAS or LPS."""
    return np.linalg.norm(matrix[:3, :3], axis=0)


def grid_matrix(
    origin_ras: np.ndarray | Sequence[float], spacing_mm: Iterable[float]
) -> np.ndarray:
    """Return the matrix (4, 4) from i, j, k to RAS mm of a grid whose axes lie along R, A, S.

    origin_ras: (3,) RAS mm of its first point. spacing_mm: (3,).
    """
    matrix = np.diag([*spacing_mm, 1.0])
    matrix[:3, 3] = origin_ras
    return matrix


def slice_axis(ijk_to_ras: np.ndarray) -> int:
    """Return the voxel axis nearest to S: 0, 1 or 2 for i, j or k. ijk_to_ras: (4, 4)."""
    return int(np.argmax(np.abs(ijk_to_ras[2, :3]) / spacing_of(ijk_to_ras)))


def mm_to_sides(ijk: np.ndarray, ijk_to_ras: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Measure mm (n, 3) from points to the nearer side of a grid along each of its axes; negative outside the grid.

    Args:
        ijk: (n, 3) continuous indices i, j, k of the points.
        ijk_to_ras: (4, 4) of the grid.
        shape: (k, j, i) of the grid.
    """
    # a voxel extends half a step to both sides of its index
    steps = np.minimum(ijk + 0.5, np.array(shape[::-1]) - 0.5 - ijk)
    return steps * spacing_of(ijk_to_ras)


def bounds_of(ijk_to_ras: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Return the lowest and highest corner (2,3), RAS mm, of the box around all voxels of a grid. shape: (k,j,i)."""
    corners = box_corners(np.full(3, -0.5), np.array(shape[::-1]) - 0.5)
    corners_ras = transform_points(ijk_to_ras, corners)
    return np.array((corners_ras.min(axis=0), corners_ras.max(axis=0)))


def slices_between(first: np.ndarray, end: np.ndarray) -> tuple[slice, slice, slice]:
    """Return the slices k, j, i from an index (3,) i, j, k to another, which is excluded."""
    i, j, k = (slice(int(a), int(b)) for a, b in zip(first, end, strict=True))
    return k, j, i


def mask_box(mask: np.ndarray) -> tuple[slice, ...]:
    """Return the slices of the smallest box that holds all True values of a mask, which must have at least one.

    The slices are in the order of the mask's axes.
    """
    slices = []
    for axis in range(mask.ndim):
        other_axes = tuple(set(range(mask.ndim)) - {axis})
        indices = np.flatnonzero(mask.any(axis=other_axes))
        slices.append(slice(int(indices[0]), int(indices[-1]) + 1))
    return tuple(slices)


def read_nearest(values: np.ndarray, ijk: np.ndarray) -> np.ndarray:
    """Return the values (n,) of the voxels nearest to continuous indices i, j, k (n, 3); 0 or False outside the grid.

    values: (k, j, i). An index that is NaN lies outside.
    """
    cells = np.rint(ijk)
    inside = ((cells >= 0) & (cells < values.shape[::-1])).all(axis=1)  # False for NaN
    nearest = np.zeros(len(cells), values.dtype)
    i, j, k = cells[inside].astype(int).T
    nearest[inside] = values[k, j, i]
    return nearest


def to_image(voxels: np.ndarray, ijk_to_ras: np.ndarray) -> sitk.Image:
    """Make a SimpleITK image (LPS) from a (k,j,i) array and its (4,4) ijk_to_ras."""
    import SimpleITK as sitk

    image = sitk.GetImageFromArray(voxels)
    _set_geometry(image, LPS_FROM_RAS @ ijk_to_ras)
    return image


def image_affine(image: sitk.Image | sitk.ImageFileReader) -> np.ndarray:
    """Return the (4,4) ijk_to_ras of an image, or of the header that a reader has read. A fourth axis is ignored."""
    spacing = image.GetSpacing()
    direction = np.reshape(image.GetDirection(), (len(spacing), len(spacing)))
    lps = np.eye(4)
    lps[:3, :3] = (direction * spacing)[:3, :3]
    lps[:3, 3] = image.GetOrigin()[:3]
    return RAS_FROM_LPS @ lps


def resample_upright(voxels: np.ndarray, ijk_to_ras: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Resample a sheared grid (from a tilted gantry) to the smallest perpendicular grid that covers the sheared grid.

    voxels: (k,j,i) HU; ijk_to_ras: (4,4) whose axes need not be perpendicular. The new k axis has the direction of the
    old k axis (the movement of the table). The new i axis stays as close to the old i axis as possible. Interpolation
    is linear, voxels outside the old grid become -1000 HU, spacing and dtype are kept. Returns (voxels, ijk_to_ras).
    """
    spacing = spacing_of(ijk_to_ras)
    old_i, old_j, new_k = (ijk_to_ras[:3, :3] / spacing).T
    # the part of the old i axis that is perpendicular to the k axis
    new_i = old_i - (old_i @ new_k) * new_k
    new_i /= np.linalg.norm(new_i)
    new_j = np.cross(new_k, new_i)
    new_j *= np.sign(new_j @ old_j)
    upright = np.eye(4)
    upright[:3, :3] = np.column_stack((new_i, new_j, new_k)) * spacing

    corners = box_corners(np.zeros(3), np.array(voxels.shape[::-1]) - 1)
    # Without the tolerance of 1e-6, a rounding error could add an empty layer of voxels.
    ijk = transform_points(np.linalg.inv(upright) @ ijk_to_ras, corners)
    low = np.floor(ijk.min(axis=0) + 1e-6)
    high = np.ceil(ijk.max(axis=0) - 1e-6)
    upright[:3, 3] = transform_points(upright, low[None])[0]

    return resample(voxels, ijk_to_ras, upright, (high - low + 1).astype(int)), upright


def resample(
    voxels: np.ndarray, ijk_to_ras: np.ndarray, new_ijk_to_ras: np.ndarray, size: np.ndarray
) -> np.ndarray:
    """Resample HU linearly to another grid; -1000 HU outside the old grid. The dtype is kept.

    Args:
        voxels: (k, j, i) HU.
        ijk_to_ras: (4, 4) of the old grid.
        new_ijk_to_ras: (4, 4) of the new grid.
        size: number of voxels (i, j, k) of the new grid.
    """
    import SimpleITK as sitk

    resampler = sitk.ResampleImageFilter()
    resampler.SetInterpolator(sitk.sitkLinear)
    resampler.SetDefaultPixelValue(AIR_HU)
    resampler.SetOutputPixelType(sitk.sitkFloat32)
    resampler.SetSize(size.tolist())
    _set_geometry(resampler, LPS_FROM_RAS @ new_ijk_to_ras, prefix="SetOutput")
    resampled = sitk.GetArrayFromImage(resampler.Execute(to_image(voxels, ijk_to_ras)))
    return np.rint(resampled).astype(voxels.dtype) if voxels.dtype.kind == "i" else resampled


def _set_geometry(
    target: sitk.Image | sitk.ResampleImageFilter, ijk_to_lps: np.ndarray, prefix: str = "Set"
) -> None:
    """Set origin, spacing and direction of an image or, if `prefix` is "SetOutput", of a resampler's output."""
    spacing = spacing_of(ijk_to_lps)
    getattr(target, prefix + "Origin")(ijk_to_lps[:3, 3].tolist())
    getattr(target, prefix + "Spacing")(spacing.tolist())
    getattr(target, prefix + "Direction")((ijk_to_lps[:3, :3] / spacing).ravel().tolist())


def rotations(angles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three (3, 3) rotation matrices: about x, y and z, by the three `angles` in radians."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(angles), np.sin(angles)
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return about_x, about_y, about_z
