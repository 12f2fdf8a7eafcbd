"""Compares image features of two scans on a lattice, and improves a displacement field by Gauss-Newton steps.

Each step solves for all knots of the field together, by conjugate gradients. For this, each block of voxels gives a
3 x 3 matrix and a vector. A few such steps replace hundreds of steps of gradient descent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from .spline import ROUGHNESS_DIAGONAL, Lattice, SplineField, conjugate_gradients, roughness

_REACH = 2  # a window extends by this many voxels on each side
_DAMPING = 0.05  # relative to the mean of the blocks' matrices; by hand
_KNEE = 1.0  # feature difference that halves a point's weight; such points often show tissue of one scan only
_CG_ROUNDS = 10  # of conjugate gradients in a step; by hand: the next step goes on from there
_BLOCK = 2  # a block has this many points along each axis
# stored entries of a symmetric 3 x 3 matrix
_PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
# (3, 3): index in _PAIRS of each entry of the matrix
WHERE = torch.tensor([[0, 1, 2], [1, 3, 4], [2, 4, 5]])


@dataclass(frozen=True, eq=False)
class Features:
    """Image features. values: (c, k, j, i) float32 at points of `lattice`. weight: (k, j, i), 1 in the body, else 0."""

    values: torch.Tensor
    weight: torch.Tensor
    lattice: Lattice

    def to(self, device: torch.device) -> Features:
        """Return the features on another device."""
        return Features(self.values.to(device), self.weight.to(device), self.lattice)

    def every(self, step: int) -> Features:
        """Keep only every `step`-th point along each axis."""
        weight = self.weight[::step, ::step, ::step]
        k, j, i = weight.shape
        x, y, z = self.lattice.spacing_mm
        lattice = Lattice(self.lattice.origin_ras, (step * x, step * y, step * z), (i, j, k))
        return Features(self.values[:, ::step, ::step, ::step], weight, lattice)


def slopes(features: Features) -> torch.Tensor:
    """Compute derivatives (3, c, k, j, i) along R, A, S, per mm, by central differences; zero at the border."""
    values = features.values
    result = torch.zeros(3, *values.shape, device=values.device)
    for axis, spacing in enumerate(features.lattice.spacing_mm):
        dim = 3 - axis
        count = values.shape[dim]
        if count > 2:
            step = values.narrow(dim, 2, count - 2) - values.narrow(dim, 0, count - 2)
            result[axis].narrow(dim, 1, count - 2).copy_(step / (2 * spacing))
    return result


def windowed(values: torch.Tensor) -> torch.Tensor:
    """Compute the mean (1, c, k, j, i) over 5 x 5 x 5 voxels around each voxel. Voxels outside the grid do not count.

    Shifted copies are added, which is three times as fast as `avg_pool3d` on a processor.
    """
    for axis in (2, 3, 4):
        size = values.shape[axis]
        total = values.clone()
        for shift in range(1, min(_REACH, size - 1) + 1):
            count = size - shift
            total.narrow(axis, 0, count).add_(values.narrow(axis, shift, count))
            total.narrow(axis, shift, count).add_(values.narrow(axis, 0, count))
        index = torch.arange(size, device=values.device)
        counts = 1 + index.clamp(max=_REACH) + (size - 1 - index).clamp(max=_REACH)
        values = total / counts.view(-1, *[1] * (4 - axis))
    return values


def normalised(values: torch.Tensor, noise: float) -> torch.Tensor:
    """Subtract the local mean from values (k, j, i), and divide by the local standard deviation. Returns (1, k, j, i).

    noise: values with a smaller deviation count as flat.
    """
    values = values[None, None]
    mean = windowed(values)
    variance = (windowed(values * values) - mean * mean).clamp_min(0)
    return ((values - mean) / (variance + noise**2).sqrt())[0]


def correlation(means: torch.Tensor, noise: float, start: float = 0.0) -> torch.Tensor:
    """Correlate two images a, b in windows.

    Args:
        means: (5 or more, ...) means of a, b, a * a, b * b and a * b in each window.
        noise: deviation that is added to that of each image, so that noise in even windows is no difference.
        start: covariance that is added.
    """
    a, b, aa, bb, ab = means[:5]
    a_variance = (aa - a * a).clamp_min(0) + noise**2
    b_variance = (bb - b * b).clamp_min(0) + noise**2
    return (ab - a * b + start) / (a_variance * b_variance).sqrt()


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
        # gradients are transformed by the transposed inverse of the matrix
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

        It minimises the squared difference of the images, plus `smoothness` times the roughness of the change from
        `start`.

        Args:
            field: the field before the step.
            start: the field before the first step.
            smoothness: weight of the penalty for a rough displacement.
        """
        device = self.start.device
        knots = field.coefficients.to(device)
        basis = field.basis(self.fixed.lattice).to(device)
        force, matrix = self.terms(basis.spread(knots))
        # from here on, points are blocks
        blocks = field.basis(self.fixed.lattice.pooled(_BLOCK)).to(device)
        force = _summed(force)
        matrix = _summed(matrix)
        informed = matrix[0] > 0
        if not informed.any():
            return field, 0.0
        entries = matrix[WHERE.diagonal()]  # (3, k, j, i), the diagonal
        scale = float(entries.sum(0)[informed].mean()) / 3
        smooth = smoothness * scale
        damping = _DAMPING * scale
        diagonal = blocks.squared().gather(entries) + ROUGHNESS_DIAGONAL * smooth + damping

        def product(x: torch.Tensor) -> torch.Tensor:
            """Multiply the matrix of all knots by a change x of the knots."""
            image_part = blocks.gather(_times(matrix, blocks.spread(x)))
            return image_part + smooth * roughness(x) + damping * x

        descent = -blocks.gather(force) - smooth * roughness(knots - start.coefficients.to(device))
        change = conjugate_gradients(product, descent, diagonal, _CG_ROUNDS)
        moved = float(blocks.spread(change).norm(dim=0)[informed].mean())
        return SplineField(field.low, field.knot_mm, (knots + change).cpu()), moved

    def terms(self, displacement: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the gradient (3, k, j, i) and Gauss-Newton matrix (6, k, j, i) of the image difference at each point.
        The matrix is symmetric; its 6 entries are in the order of _PAIRS."""
        channels = len(self.fixed.values)
        positions = self.moving_lattice.sample_positions(self.start + displacement)
        inside = (positions.abs() < 1).all(-1)  # -1 and 1 are the outer edges
        samples = F.grid_sample(
            self.moving, positions[None], align_corners=False, padding_mode="border"
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
