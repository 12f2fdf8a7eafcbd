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
    """hu: float (k, j, i). voxel_ijk: (3, k, j, i) continuous voxel of the scan (i, j, k) at each crop voxel."""

    hu: torch.Tensor
    voxel_ijk: torch.Tensor


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
    voxel = F.interpolate(nodes[None], size=size_ijk[::-1], mode="trilinear", align_corners=True)[0]
    shape_ijk = torch.tensor(scan.hu.shape[::-1])
    low = (nodes.amin((1, 2, 3)).floor().long() - _MARGIN).clamp(min=0)
    low = torch.minimum(low, shape_ijk - 1)
    high = torch.minimum(nodes.amax((1, 2, 3)).ceil().long() + _MARGIN, shape_ijk)
    high = torch.maximum(high, low + 1)
    part = scan.hu[low[2] : high[2], low[1] : high[1], low[0] : high[0]].float() + 1000
    extent = (high - low).float()
    grid = (voxel - low[:, None, None, None] + 0.5) * (2 / extent)[:, None, None, None] - 1
    hu = F.grid_sample(part[None, None], grid.permute(1, 2, 3, 0)[None], align_corners=False)[0, 0] - 1000
    return Crop(hu, voxel)


def cell_positions(scan: PreparedScan, crop: Crop) -> tuple[torch.Tensor, torch.Tensor]:
    """First guess of the body coordinate (mm, (3, k/4, j/4, i/4)) of each cell, and which cells lie in the body."""
    voxel = F.avg_pool3d(crop.voxel_ijk[None], STRIDE)[0]
    nearest = voxel.round().long()
    shape_ijk = torch.tensor(scan.hu.shape[::-1])[:, None, None, None]
    inside = ((nearest >= 0) & (nearest < shape_ijk)).all(0)
    i, j, k = torch.minimum(nearest.clamp(min=0), shape_ijk - 1)
    inside &= scan.body[k, j, i]
    if scan.body_field is not None:
        extent = torch.tensor(scan.body_field.shape[:0:-1], dtype=torch.float32)[:, None, None, None] - 1
        grid = voxel / FIELD_STEP * (2 / extent) - 1
        field = F.grid_sample(scan.body_field[None], grid.permute(1, 2, 3, 0)[None], align_corners=True)
        return field[0], inside
    matrix = torch.from_numpy(scan.grid_to_ras).float()
    ras = voxel * torch.diagonal(matrix)[:3, None, None, None] + matrix[:3, 3, None, None, None]
    scale = torch.from_numpy(scan.frame.scale).float()
    shift = torch.from_numpy(scan.frame.shift_mm).float()
    return ras * scale[:, None, None, None] + shift[:, None, None, None], inside


def _rotation(angles: np.ndarray) -> np.ndarray:
    matrix = np.eye(3)
    for (a, b), angle in zip(((1, 2), (0, 2), (0, 1)), angles, strict=True):
        turn = np.eye(3)
        turn[a, a] = turn[b, b] = np.cos(angle)
        turn[b, a] = np.sin(angle)
        turn[a, b] = -turn[b, a]
        matrix = matrix @ turn
    return matrix
