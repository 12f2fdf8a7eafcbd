"""The one place where a scan becomes network input: the working grid.

Training and inference both come through here, so that they see the same resampling. The grid is axis-aligned in
RAS, has the spacing the network was trained with, and is anchored to a **world lattice** whose pitch is the
network's total stride. A strided network is not shift-equivariant; anchoring makes the map of a scan independent
of how its header happens to be written (axis order, flips, oblique encodings of the same space).
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

from .volume import Volume

AIR_HU = -1000.0


@dataclass(frozen=True)
class WorkingGrid:
    """A scan resampled for the network.

    hu: float32 tensor (k, j, i), axes towards S, A, R; -1000 outside the scan.
    origin_ras: (3,) RAS mm of the centre of voxel (0, 0, 0).
    spacing_mm: (x, y, z) mm.
    """

    hu: torch.Tensor
    origin_ras: np.ndarray
    spacing_mm: tuple[float, float, float]

    @property
    def grid_to_ras(self) -> np.ndarray:
        """4x4, from (i, j, k, 1) on this grid to RAS mm."""
        matrix = np.diag([*self.spacing_mm, 1.0])
        matrix[:3, 3] = self.origin_ras
        return matrix


def canonical_axes(volume: Volume) -> tuple[np.ndarray, np.ndarray]:
    """View of the voxels with axes nearest to S, A, R (k, j, i), and its ijk_to_ras. No copy, no interpolation."""
    direction = volume.ijk_to_ras[:3, :3] / np.asarray(volume.spacing)
    axis_of_world = _assign_axes(np.abs(direction))
    flips = [direction[world, axis] < 0 for world, axis in enumerate(axis_of_world)]
    # voxel axis "i" is array axis 2; the result's array axes are (z, y, x)
    voxels = volume.voxels.transpose([2 - axis_of_world[world] for world in (2, 1, 0)])
    matrix = np.eye(4)
    matrix[:3, 3] = volume.ijk_to_ras[:3, 3]
    for world, axis in enumerate(axis_of_world):
        step = volume.ijk_to_ras[:3, axis]
        if flips[world]:
            matrix[:3, 3] += step * (volume.voxels.shape[2 - axis] - 1)
            step = -step
        matrix[:3, world] = step
    slices = tuple(slice(None, None, -1 if flips[world] else 1) for world in (2, 1, 0))
    return voxels[slices], matrix


def resample(volume: Volume, spacing_mm: tuple[float, float, float], multiple: int) -> WorkingGrid:
    """Resample a scan onto the world lattice.

    Voxels finer than the grid are averaged in whole-number bins first (no aliasing of noise), then interpolated
    linearly. The extent is the scan's, rounded outwards to `multiple` grid voxels of the world lattice.
    """
    array, ijk_to_ras = canonical_axes(volume)
    array, ijk_to_ras = _average_bins(array, ijk_to_ras, spacing_mm)
    pitch = np.asarray(spacing_mm) * multiple
    low, high = volume.bounds_ras
    first = np.floor(low / pitch + 1e-6)
    count = np.maximum(np.ceil(high / pitch - 1e-6) - first, 1).astype(int)
    origin = first * pitch + np.asarray(spacing_mm) / 2
    size_ijk = count * multiple
    grid_to_ijk = np.linalg.inv(ijk_to_ras) @ WorkingGrid(torch.empty(0), origin, spacing_mm).grid_to_ras
    return WorkingGrid(_sample(array, grid_to_ijk, size_ijk), origin, tuple(spacing_mm))


def crop(grid: WorkingGrid, inside: np.ndarray, multiple: int) -> tuple[WorkingGrid, np.ndarray]:
    """Cut a working grid (and the mask `inside`, same shape) to the mask's box, rounded outwards on the lattice."""
    if not inside.any():
        return grid, inside
    slices = []
    for axis in range(3):
        hit = np.flatnonzero(inside.any(axis=tuple(a for a in range(3) if a != axis)))
        slices.append(slice(hit[0] // multiple * multiple, -(-(hit[-1] + 1) // multiple) * multiple))
    start_ijk = np.array([s.start for s in reversed(slices)])
    origin = grid.origin_ras + start_ijk * np.asarray(grid.spacing_mm)
    cut = np.ascontiguousarray(inside[tuple(slices)])
    return WorkingGrid(grid.hu[tuple(slices)].contiguous(), origin, grid.spacing_mm), cut


def _assign_axes(strength: np.ndarray) -> list[int]:
    """For each world axis the voxel axis that follows it best; a permutation even at 45 degrees."""
    axis_of_world = [-1, -1, -1]
    strength = strength.copy()
    for _ in range(3):
        world, axis = np.unravel_index(np.argmax(strength), (3, 3))
        axis_of_world[world] = int(axis)
        strength[world, :] = -1
        strength[:, axis] = -1
    return axis_of_world


def _average_bins(
    array: np.ndarray, ijk_to_ras: np.ndarray, spacing_mm: tuple[float, float, float]
) -> tuple[torch.Tensor, np.ndarray]:
    fine = np.linalg.norm(ijk_to_ras[:3, :3], axis=0)
    bins = np.maximum(np.floor(np.asarray(spacing_mm) / fine + 0.05), 1).astype(int)
    bins = np.minimum(bins, array.shape[::-1])
    bi, bj, bk = (int(b) for b in bins)
    slabs = []
    for k in range(0, array.shape[0] - bk + 1, bk):  # slab by slab: the float copy never exceeds a few slices
        slab = torch.from_numpy(np.ascontiguousarray(array[k : k + bk])).float()
        slab = slab.mean(0) if bk > 1 else slab[0]
        if bi > 1 or bj > 1:
            slab = F.avg_pool2d(slab[None, None], (bj, bi))[0, 0]
        slabs.append(slab)
    matrix = ijk_to_ras.copy()
    matrix[:3, :3] *= bins
    matrix[:3, 3] += ijk_to_ras[:3, :3] @ ((bins - 1) / 2)
    return torch.stack(slabs), matrix


def _sample(array: torch.Tensor, grid_to_ijk: np.ndarray, size_ijk: np.ndarray, slab: int = 32) -> torch.Tensor:
    """Linear interpolation of `array` (k, j, i) at every grid voxel, air outside; slab by slab in k."""
    ni, nj, nk = (int(n) for n in size_ijk)
    shape_ijk = np.array(array.shape[::-1], dtype=float)
    # grid index -> grid_sample's normalised coordinate of the source (align_corners=False)
    normalise = np.diag([*(2 / shape_ijk), 1.0])
    normalise[:3, 3] = 1 / shape_ijk - 1
    theta = torch.from_numpy(normalise @ grid_to_ijk)
    source = (array - AIR_HU)[None, None]
    out = torch.empty(nk, nj, ni)
    i = torch.arange(ni, dtype=torch.float64)
    j = torch.arange(nj, dtype=torch.float64)
    for k0 in range(0, nk, slab):
        k = torch.arange(k0, min(k0 + slab, nk), dtype=torch.float64)
        points = (
            i[None, None, :, None] * theta[:3, 0]
            + j[None, :, None, None] * theta[:3, 1]
            + k[:, None, None, None] * theta[:3, 2]
            + theta[:3, 3]
        ).float()
        out[k0 : k0 + len(k)] = F.grid_sample(source, points[None], align_corners=False)[0, 0]
    return out + AIR_HU
