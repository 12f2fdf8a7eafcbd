"""Crops: one augmented patch of a prepared scan, with the position that each stride-4 cell has in the patient."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.models.network import STRIDE
from ..scan.geometry import rotations
from .recipes import AugmentationSpec
from .scans import FIELD_STEP, PreparedScan
from .warp import Warp

_LATTICE = (5, 5, 5)  # nodes of the map from crop to scan: affine and elastic parts in one interpolation


@dataclass(frozen=True)
class Crop:
    """hu: float (k, j, i). warp: where its voxels lie in the scan."""

    hu: torch.Tensor
    warp: Warp


def draw_geometry(
    spec: AugmentationSpec, size_ijk: tuple[int, int, int], spacing_mm: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Displacement of lattice nodes from the crop's centre in mm, (3, k, j, i) over the lattice.

    Random spacing, per-axis scale, rotation and a smooth elastic part (mean zero), by the recipe.
    """
    if spec.spacing_mm_low is not None:
        step = rng.uniform(spec.spacing_mm_low, spec.spacing_mm_high)
    else:
        scale = np.exp(rng.uniform(*np.log(spec.spacing_scale)))
        step = spacing_mm * scale * rng.uniform(spec.axis_scale[0], spec.axis_scale[1], size=3)
    a, b, c = rng.uniform(-spec.rotation_rad, spec.rotation_rad, size=3)
    about_x, about_y, about_z = rotations(np.array([a, -b, c]))
    rotation = about_x @ about_y @ about_z
    axes = [
        np.linspace(-0.5, 0.5, n) * (size - 1) * s for n, size, s in zip(_LATTICE[::-1], size_ijk, step, strict=True)
    ]
    z, y, x = np.meshgrid(axes[2], axes[1], axes[0], indexing="ij")
    nodes = np.einsum("ab,bkji->akji", rotation, np.stack([x, y, z]))
    if rng.random() < spec.elastic_probability:
        nodes += rng.normal(size=nodes.shape) * rng.uniform(0, spec.elastic_mm)
    return nodes


def cut_crop(
    scan: PreparedScan, centre_ijk: np.ndarray, lattice_mm: np.ndarray, size_ijk: tuple[int, int, int]
) -> Crop:
    """Resample the crop of `size_ijk` voxels that the lattice describes around a voxel of the scan."""
    spacing = np.diag(scan.grid_to_ras)[:3]
    nodes = lattice_mm / spacing[:, None, None, None] + np.asarray(centre_ijk)[:, None, None, None]
    warp = Warp.through(nodes, torch.Size(size_ijk[::-1]), scan.hu.device)
    return Crop(warp.sample(scan.hu), warp)


def cell_positions(scan: PreparedScan, crop: Crop) -> tuple[torch.Tensor, torch.Tensor]:
    """First guess of the body coordinate (mm, (3, k/4, j/4, i/4)) of each cell, and which cells lie in the body."""
    voxel = crop.warp.voxel_ijk(STRIDE)
    nearest = voxel.round().long()
    shape_ijk = torch.tensor(scan.hu.shape[::-1], device=voxel.device)
    inside = ((nearest >= 0) & (nearest < shape_ijk)).all(-1)
    i, j, k = torch.minimum(nearest.clamp(min=0), shape_ijk - 1).unbind(-1)
    return body_coordinates(scan, voxel).movedim(-1, 0), inside & scan.body[k, j, i]


def body_coordinates(scan: PreparedScan, voxel_ijk: torch.Tensor) -> torch.Tensor:
    """First guess of the body coordinates, mm, at continuous voxels (k, j, i, 3)."""
    device = voxel_ijk.device
    if scan.body_field is not None:
        extent = torch.tensor(scan.body_field.shape[:0:-1], dtype=torch.float32, device=device) - 1
        grid = voxel_ijk / FIELD_STEP * (2 / extent) - 1
        return F.grid_sample(scan.body_field[None], grid[None], align_corners=True)[0].movedim(0, -1)
    scale = torch.from_numpy(np.diag(scan.grid_to_ras)[:3] * scan.frame.scale).float().to(device)
    shift = torch.from_numpy(scan.frame.apply(scan.grid_to_ras[:3, 3])).float().to(device)
    return voxel_ijk * scale + shift
