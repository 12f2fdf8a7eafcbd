"""Crops: one augmented patch of a prepared scan, with the position that each stride-4 cell has in the patient."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from ..models.network import STRIDE
from .recipes import AugmentationSpec
from .scans import FIELD_STEP, PreparedScan

_LATTICE = (5, 5, 5)  # nodes of the map from crop to scan: affine and elastic parts in one interpolation
_MARGIN = 2


@dataclass(frozen=True)
class Crop:
    """hu: float (k, j, i). nodes_ijk: (3, k, j, i) continuous voxel of the scan (i, j, k) at each lattice node."""

    hu: torch.Tensor
    nodes_ijk: torch.Tensor

    def voxel_ijk(self, pool: int = 1) -> torch.Tensor:
        """(k, j, i, 3) continuous voxel of the scan (i, j, k) at each crop voxel, or its mean over cells of `pool`."""
        return _spread(self.nodes_ijk, self.hu.shape, pool)


def draw_geometry(
    spec: AugmentationSpec, size_ijk: tuple[int, int, int], spacing_mm: np.ndarray, rng: np.random.Generator
) -> torch.Tensor:
    """Displacement of lattice nodes from the crop's centre in mm, (3, k, j, i) over the lattice: where to look.

    Random spacing, per-axis scale, rotation and a smooth elastic part (mean zero), as the recipe says.
    """
    if spec.spacing_mm_low is not None:
        step = rng.uniform(spec.spacing_mm_low, spec.spacing_mm_high)
    else:
        scale = np.exp(rng.uniform(*np.log(spec.spacing_scale)))
        step = spacing_mm * scale * rng.uniform(*spec.axis_scale, size=3)
    rotation = _rotation(rng.uniform(-spec.rotation_rad, spec.rotation_rad, size=3))
    axes = [
        np.linspace(-0.5, 0.5, n) * (size - 1) * s for n, size, s in zip(_LATTICE[::-1], size_ijk, step, strict=True)
    ]
    z, y, x = np.meshgrid(axes[2], axes[1], axes[0], indexing="ij")
    nodes = np.einsum("ab,bkji->akji", rotation, np.stack([x, y, z]))
    if rng.random() < spec.elastic_probability:
        nodes += rng.normal(size=nodes.shape) * rng.uniform(0, spec.elastic_mm)
    return torch.from_numpy(nodes.astype(np.float32))


def cut_crop(
    scan: PreparedScan, centre_ijk: np.ndarray, lattice_mm: torch.Tensor, size_ijk: tuple[int, int, int]
) -> Crop:
    """Resample the crop of `size_ijk` voxels that the lattice describes around a voxel of the scan."""
    spacing = torch.from_numpy(np.diag(scan.grid_to_ras)[:3].copy()).float()
    centre = torch.from_numpy(np.asarray(centre_ijk, dtype=np.float32))
    nodes = lattice_mm / spacing[:, None, None, None] + centre[:, None, None, None]
    shape_ijk = torch.tensor(scan.hu.shape[::-1])
    low = (nodes.amin((1, 2, 3)).floor().long() - _MARGIN).clamp(min=0)
    low = torch.minimum(low, shape_ijk - 1)
    high = torch.minimum(nodes.amax((1, 2, 3)).ceil().long() + _MARGIN, shape_ijk)
    high = torch.maximum(high, low + 1)
    part = scan.hu[low[2] : high[2], low[1] : high[1], low[0] : high[0]].float() + 1000
    extent = (high - low).float()
    in_part = (nodes - low[:, None, None, None] + 0.5) * (2 / extent)[:, None, None, None] - 1
    grid = _spread(in_part, torch.Size(size_ijk[::-1]))
    hu = F.grid_sample(part[None, None], grid[None], align_corners=False)[0, 0] - 1000
    return Crop(hu, nodes)


def cell_positions(scan: PreparedScan, crop: Crop) -> tuple[torch.Tensor, torch.Tensor]:
    """First guess of the body coordinate (mm, (3, k/4, j/4, i/4)) of each cell, and which cells lie in the body."""
    voxel = crop.voxel_ijk(STRIDE)
    nearest = voxel.round().long()
    shape_ijk = torch.tensor(scan.hu.shape[::-1])
    inside = ((nearest >= 0) & (nearest < shape_ijk)).all(-1)
    i, j, k = torch.minimum(nearest.clamp(min=0), shape_ijk - 1).unbind(-1)
    inside &= scan.body[k, j, i]
    if scan.body_field is not None:
        extent = torch.tensor(scan.body_field.shape[:0:-1], dtype=torch.float32) - 1
        grid = voxel / FIELD_STEP * (2 / extent) - 1
        return F.grid_sample(scan.body_field[None], grid[None], align_corners=True)[0], inside
    matrix = torch.from_numpy(scan.grid_to_ras).float()
    ras = voxel * torch.diagonal(matrix)[:3] + matrix[:3, 3]
    body = ras * torch.from_numpy(scan.frame.scale).float() + torch.from_numpy(scan.frame.shift_mm).float()
    return body.movedim(-1, 0), inside


def _spread(nodes: torch.Tensor, shape: torch.Size, pool: int = 1) -> torch.Tensor:
    """Linear interpolation of lattice values (3, k, j, i) at every voxel of a crop: (k, j, i, 3).

    pool > 1: the mean over cells of that many voxels along each axis; a mean of products is the product of means.
    """
    along_k, along_j, along_i = (_weights(n, nodes.shape[1 + axis], pool) for axis, n in enumerate(shape))
    plane = torch.einsum("ckji,yj,xi->kyxc", nodes, along_j, along_i)
    return (along_k @ plane.flatten(1)).view(len(along_k), *plane.shape[1:])


def _weights(voxels: int, nodes: int, pool: int) -> torch.Tensor:
    """(voxels / pool, nodes) weight of each lattice node at each voxel, the outermost nodes on the outermost voxels."""
    place = torch.linspace(0, nodes - 1, voxels)
    weight = (1 - (place[:, None] - torch.arange(nodes)).abs()).clamp_min(0)
    return weight.view(voxels // pool, pool, nodes).mean(1)


def _rotation(angles: np.ndarray) -> np.ndarray:
    matrix = np.eye(3)
    for (a, b), angle in zip(((1, 2), (0, 2), (0, 1)), angles, strict=True):
        turn = np.eye(3)
        turn[a, a] = turn[b, b] = np.cos(angle)
        turn[b, a] = np.sin(angle)
        turn[a, b] = -turn[b, a]
        matrix = matrix @ turn
    return matrix
