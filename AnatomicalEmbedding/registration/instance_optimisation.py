"""The last step: the displacement that makes two scans look alike, from a good start.

Gauss-Newton on the difference of features over a lattice, from coarse to fine. The change from the start is kept
smooth (diffusion of the spline's knots), so that the start stays where the images hold no information. A step solves
for all knots at once, by conjugate gradients on a 3 x 3 matrix and a vector for each block of voxels: a few steps
replace hundreds of gradient descents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.map import EmbeddingMap
from ..embedding.working_grid import crop, resample
from ..scan.geometry import transform_points
from ..scan.volume import Volume
from .lattice import Lattice
from .spline import ROUGHNESS_DIAGONAL, SplineField, conjugate_gradients, roughness

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
    """HU less their mean in a small window, divided by their spread in it, as in local correlation (Cachier 2000).

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


_LEVELS = ((6.0, 24.0), (3.0, 12.0))  # mm between the points compared, and between knots
_ROUNDS = 6
_UNFOLDING_ROUNDS = 3
_MOST_SMOOTH = 20.0
_LEAST_VOLUME = 0.1  # of the affine map's: below it, space is about to fold
_SMOOTH = 0.6  # relative to the mean of the blocks' matrices
_DAMPING = 0.05
_STILL_MM = 0.05  # mean step after which a level is done
_KNEE = 1.0  # difference of features at which a point counts half, against content of one scan only
_CG_ROUNDS = 10
_BLOCK = 2  # points a side that are solved together
_PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))  # of a symmetric 3 x 3 matrix
_WHERE = torch.tensor([[0, 1, 2], [1, 3, 4], [2, 4, 5]])  # the entries of the matrix in _PAIRS


def refine(
    field: SplineField,
    affine: np.ndarray,
    volumes: tuple[Volume, Volume],
    maps: tuple[EmbeddingMap, EmbeddingMap],
    device: torch.device,
    step: Callable[[float], None] = lambda share: None,
) -> SplineField:
    """The field (added to the affine map, (4, 4) RAS mm fixed -> moving) made finer by the images of both scans.

    volumes, maps: of the fixed and the moving scan. step: called with the share done; may raise to stop.
    """
    start = field
    for level, (spacing_mm, knot_mm) in enumerate(_LEVELS):
        fixed, moving = (
            image_features(volume, embedding, spacing_mm).to(device)
            for volume, embedding in zip(volumes, maps, strict=True)
        )
        if knot_mm < field.knot_mm:
            field = field.refined(knot_mm)
            start = start.refined(knot_mm)
        comparison = _Comparison(fixed, moving, affine)
        for n in range(_ROUNDS):
            step((level + n / _ROUNDS) / len(_LEVELS))
            field, moved = comparison.improved(field, start, _SMOOTH)
            if moved < _STILL_MM:
                break
        smooth = _SMOOTH
        while smooth < _MOST_SMOOTH and comparison.least_volume(field, affine) < _LEAST_VOLUME:  # it folds the body
            smooth *= 2
            for _ in range(_UNFOLDING_ROUNDS):
                field, _ = comparison.improved(field, start, smooth)
    return field


class _Comparison:
    """Two scans to compare.

    Attributes:
        fixed: features on their lattice.
        moving: (1, 4 c, k, j, i) values and slopes on the moving scan's lattice.
        start: (3, k, j, i) mm where the affine map puts the fixed points.
        slopes: (3, c, k, j, i) of the fixed values, per mm of the moving scan.
    """

    def __init__(self, fixed: Features, moving: Features, affine: np.ndarray) -> None:
        device = fixed.values.device
        self.fixed, self.moving_lattice = fixed, moving.lattice
        self.moving = torch.cat([moving.values, slopes(moving).flatten(0, 1)])[None]
        self.start = fixed.lattice.through(affine).to(device)
        turned = torch.from_numpy(np.linalg.inv(affine[:3, :3]).T).float().to(device)
        self.slopes = torch.tensordot(turned, slopes(fixed), dims=1)

    def least_volume(self, field: SplineField, affine: np.ndarray) -> float:
        """The least volume ratio in the body, relative to that of the affine map."""
        left = field.determinants(self.fixed.lattice, self.fixed.weight.cpu() > 0, affine)
        return float(left.min()) / float(np.linalg.det(affine[:3, :3]))

    def improved(self, field: SplineField, start: SplineField, smoothness: float) -> tuple[SplineField, float]:
        """The field after one step, and how far it moved in the mean, mm. start: the initial one."""
        device = self.start.device
        knots = field.coefficients.to(device)
        basis = field.basis(self.fixed.lattice).to(device)
        force, matrix = self._terms(basis.spread(knots))
        blocks = field.basis(self.fixed.lattice.pooled(_BLOCK)).to(device)
        force, matrix = (_summed(values) for values in (force, matrix))
        informed = matrix[0] > 0
        if not informed.any():
            return field, 0.0
        scale = float(matrix[[0, 3, 5]].sum(0)[informed].mean()) / 3
        smooth, damping = smoothness * scale, _DAMPING * scale
        diagonal = blocks.squared().gather(matrix[[0, 3, 5]]) + ROUGHNESS_DIAGONAL * smooth + damping

        def product(x: torch.Tensor) -> torch.Tensor:
            return blocks.gather(_times(matrix, blocks.spread(x))) + smooth * roughness(x) + damping * x

        wanted = -blocks.gather(force) - smooth * roughness(knots - start.coefficients.to(device))
        change = conjugate_gradients(product, wanted, diagonal, _CG_ROUNDS)
        moved = float(blocks.spread(change).norm(dim=0)[informed].mean())
        return SplineField(field.low, field.knot_mm, (knots + change).cpu()), moved

    def _terms(self, displacement: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """For each point, (3, k, j, i) gradient and (6, k, j, i) Gauss-Newton matrix of its displacement."""
        lattice, channels = self.moving_lattice, len(self.fixed.values)
        origin, spacing, size = (
            torch.tensor(values, dtype=torch.float32, device=displacement.device).view(3, 1, 1, 1)
            for values in (lattice.origin_ras, lattice.spacing_mm, lattice.size)
        )
        index = (self.start + displacement - origin) / spacing
        there = ((index > -0.5) & (index < size - 0.5)).all(0)
        places = ((2 * index + 1) / size - 1).permute(1, 2, 3, 0)
        found = F.grid_sample(self.moving, places[None], align_corners=False, padding_mode="border")[0]
        apart = found[:channels] - self.fixed.values
        # the mean of both scans' slopes converges from further away than either (Malis 2004)
        slope = (found[channels:].view(3, channels, *apart.shape[1:]) + self.slopes) / 2
        weight = self.fixed.weight * there / (1 + apart.square().mean(0) / _KNEE**2)
        force = (slope * apart).sum(1) * weight
        matrix = torch.stack([(slope[a] * slope[b]).sum(0) for a, b in _PAIRS]) * weight
        return force, matrix


def _summed(values: torch.Tensor) -> torch.Tensor:
    """(c, k, j, i) -> sums over blocks; a partial block at an end counts as a whole one."""
    mean = F.avg_pool3d(values[None], _BLOCK, _BLOCK, ceil_mode=True, count_include_pad=False)[0]
    return mean * _BLOCK**3


def _times(matrix: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """Symmetric 3 x 3 matrices (6, ...) times vectors (3, ...)."""
    return torch.stack([sum(matrix[_WHERE[row, column]] * vectors[column] for column in range(3)) for row in range(3)])
