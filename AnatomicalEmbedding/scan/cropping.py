"""Crop scans to boxes, with the original voxels or resampled; and put label maps of crops back on the whole scan."""

import math
from pathlib import Path

import numpy as np
import SimpleITK as sitk

from ..errors import VolumeError
from .geometry import (
    bounds_of,
    box_corners,
    grid_matrix,
    image_affine,
    resample,
    slices_between,
    transform_points,
)
from .volume import Volume

_MOST_VOXELS = 10**9  # 4 GB in memory; a long scan of the whole body has a quarter of this


def voxel_block(
    ijk_to_ras: np.ndarray, shape: tuple[int, int, int], box_ras: np.ndarray, name: str
) -> tuple[slice, slice, slice]:
    """Return the index slices (k, j, i) of all voxels that a box (2, 3) RAS mm touches, limited to the scan.

    In an oblique scan, the voxels are the smallest block around the box.

    Args:
        ijk_to_ras: (4, 4) voxel to RAS mm.
        shape: (k, j, i).
        box_ras: (2, 3) RAS mm.
        name: name of the scan, for the message.

    Raises VolumeError if the box lies outside the scan.
    """
    ijk = transform_points(np.linalg.inv(ijk_to_ras), box_corners(*box_ras))
    # a voxel extends 0.5 to both sides of its index; 1e-6 is the tolerance for rounding errors
    first = np.maximum(np.ceil(ijk.min(axis=0) - 0.5 + 1e-6), 0).astype(int)
    last = np.minimum(np.floor(ijk.max(axis=0) + 0.5 - 1e-6), np.array(shape[::-1]) - 1).astype(int)
    if (last < first).any():
        raise VolumeError(
            f"{name or 'the scan'}: the box lies outside this scan; choose another box or scan."
        )
    return slices_between(first, last + 1)


def crop_voxels(volume: Volume, box_ras: np.ndarray) -> Volume:
    """Return the voxels that a box (2, 3) RAS mm touches, unchanged and at their exact position.

    The box is limited to the scan. In an oblique scan, the voxels are the smallest block around the box. Raises
    VolumeError if the box lies outside the scan.
    """
    block = voxel_block(volume.ijk_to_ras, volume.shape, box_ras, volume.name)
    first = np.array([part.start for part in reversed(block)])
    ijk_to_ras = volume.ijk_to_ras.copy()
    ijk_to_ras[:3, 3] = transform_points(volume.ijk_to_ras, first[None])[0]
    return Volume(
        np.ascontiguousarray(volume.voxels[block]), ijk_to_ras, volume.name, "", volume.notes
    )


def crop_resampled(
    volume: Volume, box_ras: np.ndarray, spacing_mm: tuple[float, float, float]
) -> Volume:
    """Resample the scan in a box linearly to a grid parallel to the RAS axes; -1000 HU outside the scan.

    The grid starts at the box's lowest corner and ends with the last voxel that fits into the box.

    Args:
        volume: the scan.
        box_ras: (2, 3) RAS mm.
        spacing_mm: voxel size of the grid.

    Raises VolumeError if a spacing is not positive, or if the box is smaller than one voxel or has more than 10^9
    voxels.
    """
    spacing = np.asarray(spacing_mm, np.float64)
    if spacing.shape != (3,) or not (spacing > 0).all():
        raise VolumeError(
            f"spacing {spacing_mm}: is not a voxel size; give three sizes in mm, such as 1,1,2."
        )
    size = np.floor((box_ras[1] - box_ras[0]) / spacing + 1e-6)
    where = volume.name or "the scan"
    voxels = math.prod(size.tolist())
    if voxels > _MOST_VOXELS:
        raise VolumeError(
            f"{where}: the crop would have {voxels:.2g} voxels of {spacing_mm} mm, more than {_MOST_VOXELS:.0e}; "
            "give larger voxels."
        )
    if (size < 1).any():
        raise VolumeError(
            f"{where}: the box is smaller than one voxel of {spacing_mm} mm; give smaller voxels."
        )
    ijk_to_ras = grid_matrix(box_ras[0] + spacing / 2, spacing)
    voxels = resample(volume.voxels, volume.ijk_to_ras, ijk_to_ras, size.astype(int))
    return Volume(voxels, ijk_to_ras, volume.name, "", volume.notes)


def paste_back(labels: sitk.Image, volume: Volume, path: str | Path) -> sitk.Image:
    """Put the label map of a crop on the voxels of the whole scan; voxels outside the crop become 0.

    The result is exact if the crop was not resampled. Otherwise each voxel gets the nearest label.

    Args:
        labels: the label map of the crop.
        volume: the whole scan.
        path: file of the label map, for the message.

    Raises VolumeError if crop and scan do not overlap.
    """
    crop_bounds = bounds_of(image_affine(labels), labels.GetSize()[::-1])
    scan_bounds = volume.bounds_ras
    common_low = np.maximum(crop_bounds[0], scan_bounds[0])
    common_high = np.minimum(crop_bounds[1], scan_bounds[1])
    if (common_high <= common_low).any() or labels.GetNumberOfComponentsPerPixel() != 1:
        raise VolumeError(
            f"{path}: is not a label map of a part of {volume.name or 'the scan'}; give the label map of a crop."
        )
    nearest = sitk.sitkNearestNeighbor
    return sitk.Resample(
        labels, volume.to_sitk(), sitk.Transform(), nearest, 0.0, labels.GetPixelID()
    )
