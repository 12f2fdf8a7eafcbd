"""The working grid: resamples a scan for the network. Training and inference use the same functions.

The grid lies along R, A, S and has the spacing with which the network was trained. It starts at a point of the **world
lattice**, whose spacing is the network's total stride. This is needed because shifting the input of a strided network
by one voxel changes its output. The map of a scan therefore does not depend on how the header describes the scan (axis
order, flips, oblique axes).
"""

import math
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import torch
import torch.nn.functional as F

from ..fields.spline import Lattice
from ..scan.geometry import AIR_HU, grid_matrix, mask_box, slices_between, spacing_of
from ..scan.volume import Volume

# CT numbers and their grey values (0 to 255), linear in between; by hand: most levels for lung and soft tissue
_KNOTS_HU = (-1000, -800, -400, -100, 100, 400, 1300)
_KNOTS = (0.0, 25.5, 127.5, 158.1, 183.6, 204.0, 255.0)
_SLAB = 32  # layers of an oblique scan that are interpolated at a time, which bounds the memory of their points
_PLANES = 16  # planes of blocks of an aligned scan that are averaged at a time
# a scan is axis-aligned if its axes deviate by less than this over the whole grid
_ALIGNED_VOXELS = 0.05


@dataclass(frozen=True)
class WorkingGrid:
    """A scan resampled for the network.

    hu: float32 tensor (k, j, i) in HU, axes towards S, A, R; -1000 outside the scan.
    origin_ras: (3,) RAS mm of the centre of voxel (0, 0, 0).
    spacing_mm: (x, y, z) mm.
    scan_box: slices (k, j, i) of the part of the grid that lies in the scan's box; the rest is padding.
    """

    hu: torch.Tensor
    origin_ras: np.ndarray
    spacing_mm: tuple[float, float, float]
    scan_box: tuple[slice, slice, slice] = (slice(None), slice(None), slice(None))

    @property
    def grid_to_ras(self) -> np.ndarray:
        """(4, 4) matrix from (i, j, k, 1) of this grid to RAS mm."""
        return grid_matrix(self.origin_ras, self.spacing_mm)

    @property
    def lattice(self) -> Lattice:
        """The lattice of the voxel centres."""
        k, j, i = self.hu.shape
        return Lattice(tuple(self.origin_ras.tolist()), self.spacing_mm, (i, j, k))


def grey_values_of(hu: torch.Tensor) -> torch.Tensor:
    """Convert HU to grey values (uint8, 0 to 255). Matching compares the grey values of two scans."""
    whole = hu.round().clamp(_KNOTS_HU[0], _KNOTS_HU[-1]).long() - _KNOTS_HU[0]
    table = np.interp(np.arange(_KNOTS_HU[0], _KNOTS_HU[-1] + 1), _KNOTS_HU, _KNOTS)
    return torch.from_numpy(np.rint(table).astype(np.uint8))[whole]


def canonical_axes(volume: Volume) -> tuple[np.ndarray, np.ndarray]:
    """Reorder and flip the voxel axes so that k, j, i point most nearly to S, A, R. Voxels are not copied.

    A scan whose i runs to the left and whose j runs to the back, as in most CTs, is flipped along i and j.

    Returns a view of the voxels and its ijk_to_ras.
    """
    direction = volume.ijk_to_ras[:3, :3] / np.asarray(volume.spacing)
    axes = _axes_along_world(direction)
    # the axes of an array are k, j, i: voxel axis n is array axis 2 - n
    voxels = volume.voxels.transpose([2 - axis for axis in reversed(axes)])
    new_to_old = np.zeros((4, 4))  # voxel index i, j, k of the result -> of the scan
    new_to_old[3, 3] = 1
    for world, axis in enumerate(axes):
        new_to_old[axis, world] = 1
        if direction[world, axis] < 0:
            voxels = np.flip(voxels, 2 - world)
            new_to_old[axis, world] = -1
            new_to_old[axis, 3] = volume.shape[2 - axis] - 1
    return voxels, volume.ijk_to_ras @ new_to_old


def _axes_along_world(direction: np.ndarray) -> tuple[int, ...]:
    """Return which of the voxel axes i, j, k (0, 1, 2) runs along R, A and S. direction: (3, 3), unit columns."""
    strength = np.abs(direction)
    return max(permutations(range(3)), key=lambda axes: strength[range(3), axes].sum())


def resample(
    volume: Volume, spacing_mm: tuple[float, float, float], lattice: int, step: int
) -> WorkingGrid:
    """Resample a scan to a working grid that covers the scan.

    If the scan's voxels are smaller than the grid's, groups of voxels (bins) are averaged first, which avoids aliasing.
    Then values are interpolated linearly.

    Args:
        volume: the scan.
        spacing_mm: voxel size of the grid along R, A, S.
        lattice: along each axis, the grid starts at a RAS coordinate that is a multiple of `lattice` times
            `spacing_mm`.
        step: its sizes are multiples of this number of voxels.
    """
    array, ijk_to_ras = canonical_axes(volume)
    spacing = np.asarray(spacing_mm)
    low, high = volume.bounds_ras
    start = np.floor(low / (spacing * lattice) + 1e-6) * spacing * lattice
    size_ijk = np.maximum(np.ceil((high - start) / (spacing * step) - 1e-6), 1).astype(int) * step
    origin = start + spacing / 2
    bins = np.floor(spacing / spacing_of(ijk_to_ras) + 0.05).astype(int)
    bins = np.clip(bins, 1, array.shape[::-1])
    grid_to_bins = np.linalg.inv(_bins_to_ras(ijk_to_ras, bins)) @ grid_matrix(origin, spacing_mm)
    # deviation over the whole grid, in bins
    tilt = np.abs(grid_to_bins[:3, :3] * (1 - np.eye(3))) * size_ijk
    sample = _sample_aligned if tilt.max() < _ALIGNED_VOXELS else _sample_oblique
    hu = sample(array, bins, grid_to_bins, size_ijk)
    # the grid's first and last voxel in the scan's box, along i, j, k
    first = np.maximum(np.ceil((low - origin) / spacing - 1e-6), 0).astype(int)
    last = np.minimum(np.floor((high - origin) / spacing + 1e-6).astype(int), size_ijk - 1)
    return WorkingGrid(hu, origin, spacing_mm, slices_between(first, last + 1))


def _bins_to_ras(ijk_to_ras: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """Return the matrix (4, 4) from bins i, j, k to RAS mm. bins: (3,) voxels of a bin along i, j, k."""
    matrix = ijk_to_ras @ np.diag([*bins, 1.0])
    matrix[:3, 3] += ijk_to_ras[:3, :3] @ ((bins - 1) / 2)  # the middle of the first bin
    return matrix


def crop(
    grid: WorkingGrid, inside: np.ndarray, lattice: int, step: int
) -> tuple[WorkingGrid, np.ndarray]:
    """Crop a working grid and its mask to the box of the mask. Returns both.

    Args:
        grid: the working grid.
        inside: bool (k, j, i), the mask, with at least one voxel.
        lattice: the box is extended to start at a multiple of this number of voxels; itself a multiple of `step`.
        step: the sizes of the box become multiples of this number of voxels; those of the grid are.
    """
    slices = []
    for part in mask_box(inside):
        first = part.start // lattice * lattice
        slices.append(slice(first, math.ceil(part.stop / step) * step))
    box = tuple(slices)
    start_ijk = np.array([part.start for part in reversed(box)])
    origin = grid.origin_ras + start_ijk * np.asarray(grid.spacing_mm)
    cropped = WorkingGrid(grid.hu[box].contiguous(), origin, grid.spacing_mm)
    return cropped, np.ascontiguousarray(inside[box])


def _sample_aligned(
    array: np.ndarray, bins: np.ndarray, grid_to_bins: np.ndarray, size_ijk: np.ndarray
) -> torch.Tensor:
    """Resample a scan with axes parallel to the grid: average blocks of voxels (bins), then interpolate by axis.

    Args:
        array: (k, j, i) HU.
        bins: (3,) voxels of a bin along i, j, k.
        grid_to_bins: (4, 4) i, j, k of the grid -> i, j, k of the bins.
        size_ijk: (3,) size of the grid.

    Returns:
        (k, j, i) HU on the grid; -1000 outside the scan.
    """
    matrices = []
    for axis in range(3):
        places = grid_to_bins[axis, axis] * np.arange(size_ijk[axis]) + grid_to_bins[axis, 3]
        matrices.append(axis_matrix(array.shape[2 - axis] // int(bins[axis]), places))
    along_i, along_j, along_k = matrices
    bin_layers = int(bins[2])  # layers of voxels in a bin
    count = along_k.shape[1]  # of layers of bins
    planes = torch.empty(count, along_j.shape[0], along_i.shape[0])
    for k in range(0, count, _PLANES):
        sums = _sum_of_bins(array[k * bin_layers : (k + _PLANES) * bin_layers], bins)
        # zeros outside the scan then are air
        above_air = torch.from_numpy(sums).float() / int(bins.prod()) - AIR_HU
        planes[k : k + _PLANES] = along_j @ (above_air @ along_i.T)
    return torch.tensordot(along_k, planes, dims=1).add_(AIR_HU)


def _sum_of_bins(array: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """Return the sum of each bin of an array (k, j, i). An incomplete bin at the array's end is left out.

    bins: (3,) voxels of a bin along i, j, k.
    """
    # reading a flipped array takes twice as long; the sums are the same without the flip
    flipped = [axis for axis, step in enumerate(array.strides) if step < 0]
    whole = np.array(array.shape) // bins[::-1] * bins[::-1]
    array = np.flip(array[: whole[0], : whole[1], : whole[2]], flipped)
    kind = np.result_type(array.dtype, np.int32)
    for axis, count in enumerate(reversed(bins.tolist())):
        along = np.moveaxis(array, axis, 0)
        if count > 1:
            array = np.moveaxis(np.add(along[::count], along[1::count], dtype=kind), 0, axis)
        for n in range(2, count):
            array += np.moveaxis(along[n::count], 0, axis)
    return np.ascontiguousarray(np.flip(array, flipped))


def axis_matrix(size: int, position: np.ndarray) -> torch.Tensor:
    """Make the matrix (n, size) that interpolates a row of `size` values linearly at `position` (n,); zero outside."""
    lower = np.floor(position).astype(int)
    fraction = position - lower
    matrix = np.zeros((len(position), size))
    for index, weight in ((lower, 1 - fraction), (lower + 1, fraction)):
        inside = (index >= 0) & (index < size)
        matrix[np.flatnonzero(inside), index[inside]] += weight[inside]
    return torch.from_numpy(matrix).float()


def _sample_oblique(
    array: np.ndarray, bins: np.ndarray, grid_to_bins: np.ndarray, size_ijk: np.ndarray
) -> torch.Tensor:
    """Resample a scan with oblique axes to the grid: average blocks of voxels (bins), then interpolate linearly.

    Arguments and result are those of `_sample_aligned`.
    """
    sums = torch.from_numpy(_sum_of_bins(array, bins)).float()
    # not in place: without bins, the sums are the voxels of the scan itself
    source = sums.div(int(bins.prod())).sub_(AIR_HU)
    to_source = _normalising(np.array(source.shape[::-1])) @ grid_to_bins
    grid = torch.empty(size_ijk[::-1].tolist())
    for k in range(0, len(grid), _SLAB):
        part = grid[k : k + _SLAB]
        shift = np.eye(4)
        shift[2, 3] = k
        # from the coordinates of `affine_grid` in this slab to those of `grid_sample` in `source`
        theta = to_source @ shift @ np.linalg.inv(_normalising(np.array(part.shape[::-1])))
        points = F.affine_grid(
            torch.from_numpy(theta[None, :3]).float(), [1, 1, *part.shape], align_corners=False
        )
        part.copy_(F.grid_sample(source[None, None], points, align_corners=False)[0, 0])
    return grid.add_(AIR_HU)


def _normalising(size_ijk: np.ndarray) -> np.ndarray:
    """Return the matrix (4, 4) from voxels i, j, k to grid_sample's coordinates: -1 and 1 at the grid's outer edges."""
    return grid_matrix(1 / size_ijk - 1, 2 / size_ijk)
