"""Image features for registration: intensities normalised for level and contrast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.map import EmbeddingMap
from ..embedding.working_grid import crop, resample
from ..scan.geometry import transform_points
from ..scan.volume import Volume
from .lattice import Lattice

_HU = (-1000.0, 400.0)  # beyond it values are clipped: metal and dense bone count as bone
_REACH = 2  # voxels on each side of a window
_NOISE_HU = 50.0  # contrast below which a window counts as flat


@dataclass(frozen=True, eq=False)
class Features:
    """values: (c, k, j, i) float32 at a lattice's points. weight: (k, j, i), 0 outside the body."""

    values: torch.Tensor
    weight: torch.Tensor
    lattice: Lattice

    def to(self, device: torch.device) -> Features:
        """The same on another device."""
        return Features(self.values.to(device), self.weight.to(device), self.lattice)


def image_features(volume: Volume, embedding: EmbeddingMap, spacing_mm: float) -> Features:
    """HU less their mean in a small window, over their spread there, as in local correlation (Cachier 2000).

    This removes the effects of contrast medium, dose and breathing on the lung's density.
    """
    grid = resample(volume, (spacing_mm,) * 3, lattice=1, step=1)
    grid, body = crop(grid, _in_body(embedding, Lattice.of(grid)).numpy(), lattice=1, step=1)
    hu = grid.hu.clamp(*_HU)[None, None]
    mean = _windowed(hu)
    variance = (_windowed(hu * hu) - mean * mean).clamp_min(0)
    values = ((hu - mean) / (variance + _NOISE_HU**2).sqrt())[0]
    return Features(values, torch.from_numpy(body).float(), Lattice.of(grid))


def slopes(features: Features) -> torch.Tensor:
    """(3, c, k, j, i) derivative along R, A, S per mm, by central differences; zero at the lattice's ends."""
    values = features.values
    found = torch.zeros(3, *values.shape, device=values.device)
    for axis, spacing in enumerate(features.lattice.spacing_mm):
        dim, count = 3 - axis, values.shape[3 - axis]
        if count > 2:
            step = values.narrow(dim, 2, count - 2) - values.narrow(dim, 0, count - 2)
            found[axis].narrow(dim, 1, count - 2).copy_(step / (2 * spacing))
    return found


def _windowed(values: torch.Tensor) -> torch.Tensor:
    """Mean over a cube of voxels within the grid."""
    for axis in range(3):
        size, pad = [1, 1, 1], [0, 0, 0]
        size[axis], pad[axis] = 2 * _REACH + 1, _REACH
        values = F.avg_pool3d(values, size, 1, pad, count_include_pad=False)
    return values


def _in_body(embedding: EmbeddingMap, lattice: Lattice) -> torch.Tensor:
    """(k, j, i) bool: points of a lattice that lie in body cells."""
    along = []
    for axis in range(3):
        ends = np.zeros((lattice.size[axis], 3))
        ends[:, axis] = lattice.axis(axis).numpy()
        cell = transform_points(embedding.ras_to_cell, ends)[:, axis].round()
        along.append(torch.from_numpy(cell).long())
    count = embedding.body.shape[::-1]
    i, j, k = (n.clamp(0, size - 1) for n, size in zip(along, count, strict=True))
    inside = [((n >= 0) & (n < size)) for n, size in zip(along, count, strict=True)]
    held = embedding.body[k][:, j][:, :, i]
    return held & inside[2][:, None, None] & inside[1][None, :, None] & inside[0][None, None, :]
