"""The last step of a deformable registration: improves a displacement by comparing the two images.

Gauss-Newton steps minimise the difference of image features on a lattice, from coarse to fine. The change from
the initial displacement is kept smooth (diffusion of the spline's knots). Where the images contain no information, the
initial displacement stays. Each step solves for all knots together, by conjugate gradients. For this, each
block of voxels gives a 3 x 3 matrix and a vector. A few such steps replace hundreds of steps of gradient descent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.map import EmbeddingMap
from ..embedding.working_grid import crop, resample
from ..scan.volume import Volume
from .spline import ROUGHNESS_DIAGONAL, Lattice, SplineField, conjugate_gradients, roughness

HU = (-1000.0, 400.0)  # HU outside are clipped, so that metal and dense bone look like other bone
_REACH = 2  # a window extends by this many voxels on each side
_NOISE_HU = 50.0  # a window with less contrast counts as flat


@dataclass(frozen=True, eq=False)
class Features:
    """Image features. values: (c, k, j, i) float32 at points of `lattice`. weight: (k, j, i), 1 in the body, else 0."""

    values: torch.Tensor
    weight: torch.Tensor
    lattice: Lattice

    def to(self, device: torch.device) -> Features:
        return Features(self.values.to(device), self.weight.to(device), self.lattice)

    def every(self, step: int) -> Features:
        """Keep only every `step`-th point along each axis."""
        part = (slice(None, None, step),) * 3
        (x, y, z), (i, j, k) = self.lattice.spacing_mm, (-(-n // step) for n in self.lattice.size)
        lattice = Lattice(self.lattice.origin_ras, (step * x, step * y, step * z), (i, j, k))
        return Features(self.values[(slice(None), *part)], self.weight[part], lattice)


def image_features(volume: Volume, embedding: EmbeddingMap, spacing_mm: float) -> Features:
    """Normalise HU by the local mean and local standard deviation (Cachier 2000).

    This removes the effects of contrast medium and dose, and of breathing on the density of the lung.

    Args:
        volume: the scan.
        embedding: its map.
        spacing_mm: distance of the points at which HU are read.
    """
    grid = resample(volume, (spacing_mm,) * 3, lattice=1, step=1)
    lattice = Lattice.of(grid)
    body = lattice.in_body(embedding).numpy()
    grid, body = crop(grid, body, lattice=1, step=1)
    hu = grid.hu.clamp(*HU)[None, None]
    mean = windowed(hu)
    variance = (windowed(hu * hu) - mean * mean).clamp_min(0)
    values = ((hu - mean) / (variance + _NOISE_HU**2).sqrt())[0]
    return Features(values, torch.from_numpy(body).float(), Lattice.of(grid))


def slopes(features: Features) -> torch.Tensor:
    """Compute derivatives (3, c, k, j, i) along R, A, S, per mm, by central differences; zero at the border."""
    values = features.values
    result = torch.zeros(3, *values.shape, device=values.device)
    for axis, spacing in enumerate(features.lattice.spacing_mm):
        dim = 3 - axis
        count = values.shape[3 - axis]
        if count > 2:
            step = values.narrow(dim, 2, count - 2) - values.narrow(dim, 0, count - 2)
            result[axis].narrow(dim, 1, count - 2).copy_(step / (2 * spacing))
    return result


def windowed(values: torch.Tensor) -> torch.Tensor:
    """Compute the mean over a cube around each voxel. Voxels outside the grid do not count."""
    for axis in range(3):
        size = [1, 1, 1]
        pad = [0, 0, 0]
        size[axis], pad[axis] = 2 * _REACH + 1, _REACH
        values = F.avg_pool3d(values, size, 1, pad, count_include_pad=False)
    return values


LEVELS = ((6.0, 24.0), (3.0, 12.0))  # spacing of the compared points, and of the knots, mm
_ROUNDS = 6
_UNFOLDING_ROUNDS = 3
_MOST_SMOOTH = 20.0
_LEAST_VOLUME = 0.1  # least volume ratio, relative to the affine transform; with less, the field is near folding
_SMOOTH = 0.6  # weight of smoothness, relative to the mean of the blocks' matrices
_DAMPING = 0.05
_STILL_MM = 0.05  # a level ends when a step changes the displacement by less than this, on average
_KNEE = 1.0  # feature difference that halves a point's weight; such points often show tissue of one scan only
_CG_ROUNDS = 10
_BLOCK = 2  # a block has this many points along each axis
# stored entries of a symmetric 3 x 3 matrix
_PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
# index in _PAIRS of each entry of the matrix
WHERE = torch.tensor([[0, 1, 2], [1, 3, 4], [2, 4, 5]])


def refine(
    field: SplineField,
    affine: np.ndarray,
    volumes: tuple[Volume, Volume],
    maps: tuple[EmbeddingMap, EmbeddingMap],
    device: torch.device,
    step: Callable[[float], None] = lambda share: None,
    levels: Sequence[tuple[float, float]] = LEVELS,
    rounds: int = _ROUNDS,
) -> SplineField:
    """Improve a displacement field, which is added after the affine transform, by comparing the images.

    Args:
        field: the field.
        affine: (4, 4) RAS mm fixed -> moving.
        volumes, maps: of the fixed scan, then of the moving scan.
        device: where to compute.
        step: called with the share of the work that is done, 0 to 1; an exception raised in `step` stops the
            computation.
        levels: distance of the compared points, and of the knots, mm, from coarse to fine.
        rounds: largest number of steps at a level.
    """
    start = field
    for level, (spacing_mm, knot_mm) in enumerate(levels):
        fixed, moving = (
            image_features(volume, embedding, spacing_mm).to(device)
            for volume, embedding in zip(volumes, maps, strict=True)
        )
        if knot_mm < field.knot_mm:
            field = field.refined(knot_mm)
            start = start.refined(knot_mm)
        comparison = Comparison(fixed, moving, affine)
        for n in range(rounds):
            step((level + n / rounds) / len(levels))
            field, moved = comparison.improved(field, start, _SMOOTH)
            if moved < _STILL_MM:
                break
        smooth = _SMOOTH
        # near folding
        while smooth < _MOST_SMOOTH and comparison.least_volume(field, affine) < _LEAST_VOLUME:
            smooth *= 2
            for _ in range(_UNFOLDING_ROUNDS):
                step((level + 1) / len(levels))
                field, _ = comparison.improved(field, start, smooth)
    return field


class Comparison:
    """Compares the features of two scans and improves the displacement field.

    Attributes:
        fixed: features of the fixed scan.
        moving: (1, 4 * c, k, j, i) the c features of the moving scan, then their 3 * c slopes, on its own lattice.
        start: (3, k, j, i) RAS mm in the moving scan: where the affine transform puts the points of the fixed lattice.
        slopes: (3, c, k, j, i) derivatives of the fixed scan's features, per mm along R, A, S of the moving scan.
    """

    def __init__(
        self, fixed: Features, moving: Features, affine: np.ndarray, every: int = 1
    ) -> None:
        """every: compare only every n-th point of the fixed scan, along each axis."""
        device = fixed.values.device
        self.fixed = fixed.every(every)
        self.moving_lattice = moving.lattice
        self.moving = torch.cat([moving.values, slopes(moving).flatten(0, 1)])[None]
        self.start = self.fixed.lattice.through(affine).to(device)
        turned = torch.from_numpy(np.linalg.inv(affine[:3, :3]).T).float().to(device)
        fixed_slopes = slopes(fixed)[:, :, ::every, ::every, ::every]
        self.slopes = torch.tensordot(turned, fixed_slopes, dims=1)

    def least_volume(self, field: SplineField, affine: np.ndarray) -> float:
        """Return the smallest Jacobian determinant in the body, as a multiple of the affine transform's determinant."""
        determinants = field.determinants(self.fixed.lattice, self.fixed.weight.cpu() > 0, affine)
        return float(determinants.min()) / float(np.linalg.det(affine[:3, :3]))

    def improved(
        self, field: SplineField, start: SplineField, smoothness: float
    ) -> tuple[SplineField, float]:
        """Do one Gauss-Newton step. Returns the new field, and the mean length of the change, mm.

        Args:
            field: the field before the step.
            start: the field before the first step.
            smoothness: weight of the penalty for a rough displacement.
        """
        device = self.start.device
        knots = field.coefficients.to(device)
        basis = field.basis(self.fixed.lattice).to(device)
        force, matrix = self.terms(basis.spread(knots))
        blocks = field.basis(self.fixed.lattice.pooled(_BLOCK)).to(device)
        force, matrix = (_summed(values) for values in (force, matrix))
        informed = matrix[0] > 0
        if not informed.any():
            return field, 0.0
        scale = float(matrix[[0, 3, 5]].sum(0)[informed].mean()) / 3
        smooth = smoothness * scale
        damping = _DAMPING * scale
        diagonal = (
            blocks.squared().gather(matrix[[0, 3, 5]]) + ROUGHNESS_DIAGONAL * smooth + damping
        )

        def product(x: torch.Tensor) -> torch.Tensor:
            return (
                blocks.gather(_times(matrix, blocks.spread(x)))
                + smooth * roughness(x)
                + damping * x
            )

        descent = -blocks.gather(force) - smooth * roughness(knots - start.coefficients.to(device))
        change = conjugate_gradients(product, descent, diagonal, _CG_ROUNDS)
        moved = float(blocks.spread(change).norm(dim=0)[informed].mean())
        return SplineField(field.low, field.knot_mm, (knots + change).cpu()), moved

    def terms(self, displacement: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the gradient (3, k, j, i) and Gauss-Newton matrix (6, k, j, i) of the image difference at each point.
        The matrix is symmetric; its 6 entries are in the order of _PAIRS."""
        lattice = self.moving_lattice
        channels = len(self.fixed.values)
        origin, spacing, size = (
            torch.tensor(values, dtype=torch.float32, device=displacement.device).view(3, 1, 1, 1)
            for values in (lattice.origin_ras, lattice.spacing_mm, lattice.size)
        )
        index = (self.start + displacement - origin) / spacing
        inside = ((index > -0.5) & (index < size - 0.5)).all(0)
        places = ((2 * index + 1) / size - 1).permute(1, 2, 3, 0)
        samples = F.grid_sample(
            self.moving, places[None], align_corners=False, padding_mode="border"
        )[0]
        difference = samples[:channels] - self.fixed.values
        # the mean slope of both scans converges from farther away than the slope of one scan (Malis 2004)
        slope = (samples[channels:].view(3, channels, *difference.shape[1:]) + self.slopes) / 2
        weight = self.fixed.weight * inside / (1 + difference.square().mean(0) / _KNEE**2)
        force = (slope * difference).sum(1) * weight
        matrix = torch.stack([(slope[a] * slope[b]).sum(0) for a, b in _PAIRS]) * weight
        return force, matrix


def _summed(values: torch.Tensor) -> torch.Tensor:
    """Sum values (c, k, j, i) over blocks of 2 x 2 x 2 points. Sums of incomplete blocks are scaled up."""
    mean = F.avg_pool3d(values[None], _BLOCK, _BLOCK, ceil_mode=True, count_include_pad=False)[0]
    return mean * _BLOCK**3


def _times(matrix: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """Multiply symmetric 3 x 3 matrices by vectors (3, ...). matrix: (6, ...), entries in the order of _PAIRS."""
    return torch.stack(
        [
            sum(matrix[WHERE[row, column]] * vectors[column] for column in range(3))
            for row in range(3)
        ]
    )
