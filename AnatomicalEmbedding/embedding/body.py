"""Finds the mask of the patient's body in a scan, without air, table and blankets."""

from dataclasses import replace

import numpy as np
import SimpleITK as sitk
import torch
import torch.nn.functional as F

from ..errors import ProgressCallback, VolumeError
from ..scan.geometry import AIR_HU
from ..scan.volume import Volume
from .working_grid import WorkingGrid, crop, resample

# the mask is computed on in-plane voxels of at least this size, to average out noise
_MASK_MM = 3.0
_TISSUE_HU = -350.0  # between lung and fat
_LUNG_HU = -970.0  # mean density above which a region is lung, not outside air
# if a larger share of the scan's side faces shows body, the sides cut through the patient
_CUT_SHARE = 0.25
_OPENING_MM = 8.0  # thinner sheets (table tops, blankets) are removed
_SMALL_PART = 0.03  # least size of a separate part, as a share of the largest; keeps arms and legs, removes cushions


def patient_on_grid(
    volume: Volume,
    spacing_mm: tuple[float, float, float],
    lattice: int,
    size_step: int,
    step: ProgressCallback = lambda share, text: None,
) -> tuple[WorkingGrid, np.ndarray]:
    """Make the network's input from a scan.

    Returns the working grid and the body mask (k, j, i), both cropped to the body's box. Outside the body, the grid is
    air.

    Args:
        volume: the scan.
        spacing_mm: voxel size of the grid along R, A, S.
        lattice: the grid starts at a multiple of this number of voxels.
        size_step: its sizes are multiples of this number of voxels.
        step: called with (fraction of the work done, text of the step).

    Raises:
        VolumeError: the scan shows no patient.
    """
    step(0.0, "resampling")
    grid = resample(volume, spacing_mm, lattice, size_step)
    step(0.55, "finding the body")
    body = body_on_grid(grid)
    if not body.any():
        raise no_patient(volume)
    grid, body = crop(grid, body, lattice, size_step)
    return replace(grid, hu=torch.where(torch.from_numpy(body), grid.hu, AIR_HU)), body


def no_patient(volume: Volume) -> VolumeError:
    """Make the error for a scan that shows no patient."""
    return VolumeError(f"{volume.where}: no patient was found in this scan; check the file.")


def body_mask(hu: np.ndarray, spacing_mm: tuple[float, float, float]) -> np.ndarray:
    """Find the mask (k, j, i) of the patient. The mask contains lungs and bowel gas, but not the table.

    hu: float or int array (k, j, i) with axial slices along k and voxels of 3 to 6 mm, so that noise is averaged out.
    If the sides of the scan cut through a lung, that lung is recognised by its density, and the mask contains it.
    """
    tissue = hu > _TISSUE_HU
    reach = max(1, round(_OPENING_MM / 2 / min(spacing_mm[:2])))
    opened = _dilate(_erode(tissue, reach), reach)
    trunk = _large_parts(opened)
    # the opening (shrinking, then growing) rounded the corners: restore them
    trunk = _dilate(trunk, reach) & tissue
    closed = _erode(_dilate(trunk, reach), reach)
    body = _fill_slices(closed)
    return _add_open_lungs(np.asarray(hu), body)


def body_on_grid(grid: WorkingGrid) -> np.ndarray:
    """Find the mask (k, j, i) of the patient on a working grid. Small voxels are first averaged in 2 x 2 x 2 blocks."""
    mask = np.zeros(tuple(grid.hu.shape), bool)
    box = grid.scan_box
    part = grid.hu[box]
    if min(grid.spacing_mm) >= _MASK_MM:
        mask[box] = body_mask(part.numpy(), grid.spacing_mm)
        return mask
    coarse = F.avg_pool3d(part[None], 2, ceil_mode=True)[0].numpy()
    x, y, z = grid.spacing_mm
    body = body_mask(coarse, (2 * x, 2 * y, 2 * z))
    for axis in range(3):
        body = body.repeat(2, axis)
    k, j, i = part.shape
    mask[box] = body[:k, :j, :i]
    return mask


def _components(mask: np.ndarray) -> np.ndarray:
    """Return the number of the connected part to which each voxel of a mask belongs, from 1; 0 outside the mask."""
    image = sitk.GetImageFromArray(mask.astype(np.uint8))
    return sitk.GetArrayFromImage(sitk.ConnectedComponent(image))


def _large_parts(mask: np.ndarray) -> np.ndarray:
    """Return the mask without its small separate parts."""
    parts = _components(mask)
    sizes = np.bincount(parts.ravel())
    sizes[0] = 0
    is_large = sizes >= max(_SMALL_PART * sizes.max(), 1)
    return is_large[parts]


def _erode(mask: np.ndarray, reach: int) -> np.ndarray:
    """Shrink a mask (k, j, i) by `reach` voxels along i and j."""
    return ~_dilate(~mask, reach)


def _dilate(mask: np.ndarray, reach: int) -> np.ndarray:
    """Grow a mask (k, j, i) by `reach` voxels along i and j, but not along k, because the table is long along k."""
    for axis in (1, 2):
        grown = mask.copy()
        along = np.moveaxis(grown, axis, 0)
        before = np.moveaxis(mask, axis, 0)
        for n in range(1, reach + 1):
            along[n:] |= before[:-n]
            along[:-n] |= before[n:]
        mask = grown
    return mask


def _fill_slices(body: np.ndarray) -> np.ndarray:
    """Return the mask `body` (k, j, i) with enclosed regions of each axial slice, such as lungs, set to True."""
    # All slices form one picture, each with a frame of air. A region that does not touch a frame is enclosed.
    framed = np.pad(~body, ((0, 0), (1, 1), (1, 1)), constant_values=True)
    picture = framed.reshape(-1, framed.shape[2])
    regions = _components(picture).reshape(framed.shape)
    return regions[:, 1:-1, 1:-1] != regions[0, 0, 0]


def _add_open_lungs(hu: np.ndarray, body: np.ndarray) -> np.ndarray:
    """Return the mask `body` (k, j, i) plus the lungs that the body wall does not enclose at the scan's border."""
    sides = np.concatenate([body[:, [0, -1], :].ravel(), body[:, :, [0, -1]].ravel()])
    if sides.mean() < _CUT_SHARE:
        return body  # air surrounds the patient: no lung touches the border
    result = body.copy()
    for k in np.flatnonzero(~body.all(axis=(1, 2))):
        regions = _components(~body[k])
        voxels = np.bincount(regions.ravel())
        total_hu = np.bincount(regions.ravel(), weights=hu[k].ravel())
        is_lung = total_hu / np.maximum(voxels, 1) > _LUNG_HU
        is_lung[0] = False  # region 0 is the body
        result[k] |= is_lung[regions]
    return result
