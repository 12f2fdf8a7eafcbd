"""Lattices of points, and smooth displacement fields on them.

A field is a cubic B-spline on a grid of knots along R, A, S (Rueckert 1999). A lattice is a regular grid of points
along the same axes. On a lattice, a spline is computed by three small matrices, one for each axis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch


@dataclass(frozen=True)
class Lattice:
    """A regular grid of points: RAS mm of the first point; spacing and number of points along R, A, S."""

    origin_ras: tuple[float, float, float]
    spacing_mm: tuple[float, float, float]
    size: tuple[int, int, int]

    @classmethod
    def within(cls, low: np.ndarray, high: np.ndarray, spacing_mm: float) -> Lattice:
        """Make a lattice, centred in a box. Along each axis, it has floor(length / `spacing_mm`) points, at least 1.

        Args:
            low, high: (3,) RAS mm, corners of the box.
            spacing_mm: distance of neighbouring points.
        """
        size = np.maximum(np.floor((high - low) / spacing_mm), 1).astype(int)
        first = (low + high - (size - 1) * spacing_mm) / 2
        return cls(tuple(first.tolist()), (spacing_mm,) * 3, tuple(size.tolist()))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of points along S, A, R: k, j, i."""
        return self.size[::-1]

    def axis(self, number: int) -> torch.Tensor:
        """Return the coordinates of the points along axis `number` (0 R, 1 A, 2 S), (n,) float64 RAS mm."""
        return self.origin_ras[number] + self.spacing_mm[number] * torch.arange(
            self.size[number], dtype=torch.float64
        )

    def points_ras(self) -> np.ndarray:
        """Return all points, (n, 3) RAS mm, i fastest."""
        k, j, i = np.meshgrid(*(self.axis(a).numpy() for a in (2, 1, 0)), indexing="ij")
        return np.column_stack([i.ravel(), j.ravel(), k.ravel()])

    @property
    def places(self) -> torch.Tensor:
        """All points, (3, k, j, i) float32 RAS mm."""
        return self.through(np.eye(4))

    def through(self, affine: np.ndarray) -> torch.Tensor:
        """Return the transformed points, (3, k, j, i) float32. affine: (4, 4), from RAS mm to RAS mm."""
        x = self.axis(0)[None, None, :]
        y = self.axis(1)[None, :, None]
        z = self.axis(2)[:, None, None]
        coordinates = []
        for row in np.asarray(affine, float)[:3]:
            coordinates.append((z * row[2] + row[3]) + y * row[1] + x * row[0])
        return torch.stack(coordinates).float()

    def index(self, places_ras: torch.Tensor) -> torch.Tensor:
        """Convert places (3, ...) RAS mm to indices i, j, k of the points, (3, ...) float32, which may be fractions."""
        column = (3, *[1] * (places_ras.ndim - 1))
        origin, spacing = (
            torch.tensor(numbers, dtype=torch.float32, device=places_ras.device).view(column)
            for numbers in (self.origin_ras, self.spacing_mm)
        )
        return (places_ras.float() - origin) / spacing

    def sample_positions(self, places_ras: torch.Tensor) -> torch.Tensor:
        """Convert places (3, ...) RAS mm to positions (..., 3) for `F.grid_sample`: -1 and 1 at the outer edges."""
        size = torch.tensor(self.size, device=places_ras.device)
        return (2 * self.index(places_ras).movedim(0, -1) + 1) / size - 1

    def contains(self, places_ras: torch.Tensor) -> torch.Tensor:
        """Return (...) bool: whether places (3, ...) RAS mm lie at most half a step beyond the outermost points."""
        index = self.index(places_ras).movedim(0, -1)
        size = torch.tensor(self.size, device=index.device)
        return ((index >= -0.5) & (index <= size - 0.5)).all(-1)

    def pooled(self, factor: int) -> Lattice:
        """Divide the points into cubes of `factor` points a side. Returns the lattice of the centres of all cubes."""
        step_mm = np.array(self.spacing_mm)
        origin = np.array(self.origin_ras) + step_mm * (factor - 1) / 2
        size = np.ceil(np.array(self.size) / factor).astype(int)
        return Lattice(
            tuple(origin.tolist()), tuple((step_mm * factor).tolist()), tuple(size.tolist())
        )


DEGREE = 3
_SAMPLES_A_KNOT = 4  # at which the finer field is fitted; a cubic piece has four unknowns


@dataclass(frozen=True)
class Basis:
    """The weight of each knot at each point of a lattice. r, a, s: (points, knots), weights along the axes R, A, S."""

    r: torch.Tensor
    a: torch.Tensor
    s: torch.Tensor

    def spread(self, knots: torch.Tensor) -> torch.Tensor:
        """Compute the values (c, k, j, i) at the lattice's points from values (c, K, J, I) at the knots."""
        planes = self.a @ (knots @ self.r.T)  # (c, K, j, i)
        return torch.tensordot(planes, self.s, dims=([1], [1])).permute(0, 3, 1, 2)

    def gather(self, values: torch.Tensor) -> torch.Tensor:
        """Return at each knot, (c, K, J, I), the weighted sum of all values (c, k, j, i): transpose of `spread`."""
        planes = self.a.T @ (values @ self.r)  # (c, k, J, I)
        return torch.tensordot(planes, self.s, dims=([1], [0])).permute(0, 3, 1, 2)

    def to(self, device: torch.device) -> Basis:
        return Basis(self.r.to(device), self.a.to(device), self.s.to(device))

    def squared(self) -> Basis:
        """Square the weights. Then gather(w) is the diagonal of the old matrix x -> gather(w * spread(x))."""
        return Basis(self.r.square(), self.a.square(), self.s.square())


@dataclass(frozen=True, eq=False)
class SplineField:
    """A displacement field over a box, mm along R, A, S.

    low: (3,) RAS mm of the box's lowest corner, where knot (1, 1, 1) lies; knot (0, 0, 0) lies outside the box.
    knot_mm: distance between knots. coefficients: (3, K, J, I) float32, value of each knot.
    """

    low: tuple[float, float, float]
    knot_mm: float
    coefficients: torch.Tensor

    @classmethod
    def over(cls, low: np.ndarray, high: np.ndarray, knot_mm: float) -> SplineField:
        """Make a field without displacement over a box.

        Args:
            low, high: (3,) RAS mm, corners of the box.
            knot_mm: distance of the knots.
        """
        # at least one interval along R, A and S; rounding must not add one
        intervals = np.maximum(np.ceil((high - low) / knot_mm - 1e-6), 1).astype(int)
        knots = (intervals + DEGREE).tolist()
        return cls(tuple(low.tolist()), float(knot_mm), torch.zeros(3, *reversed(knots)))

    @property
    def intervals(self) -> tuple[int, ...]:
        """Number of intervals between knots along R, A, S, in the box."""
        return tuple(n - DEGREE for n in reversed(self.coefficients.shape[1:]))

    def basis(self, lattice: Lattice, derivative: int | None = None) -> Basis:
        """Compute the knots' weights at a lattice's points, or their derivatives along axis `derivative`, per mm."""
        return Basis(
            *(self._weights(lattice.axis(a), a, a == derivative).float() for a in range(3))
        )

    def on(self, lattice: Lattice) -> torch.Tensor:
        """Compute this field's displacements at the points of a lattice, (3, k, j, i) mm."""
        return self.basis(lattice).spread(self.coefficients)

    def determinants(
        self, lattice: Lattice, where: torch.Tensor, affine: np.ndarray
    ) -> torch.Tensor:
        """Compute the Jacobian determinants (n,) of an affine transform plus this field.

        Args:
            lattice: the lattice.
            where: (k, j, i) bool, the points of the lattice at which to compute them.
            affine: (4, 4).
        """
        linear = torch.from_numpy(affine[:3, :3]).float()
        # (3, 3, k, j, i): entry [a, b] is the change of the displacement's component a per mm along axis b
        slopes = torch.stack(
            [self.basis(lattice, axis).spread(self.coefficients) for axis in range(3)], dim=1
        )
        return torch.linalg.det(slopes[..., where].permute(2, 0, 1) + linear)

    def at(self, points_ras: np.ndarray) -> np.ndarray:
        """Compute displacements (n, 3) mm at points (n, 3) RAS mm; outside the box, at the nearest point of the box."""
        high = np.array(self.low) + np.array(self.intervals) * self.knot_mm
        places = torch.from_numpy(np.clip(np.asarray(points_ras, np.float64), self.low, high))
        displacement = torch.zeros(len(places), 3, dtype=torch.float64)
        # the first of the four knots along each axis, and the weights of the four
        first_r, r_weights = self._four(places[:, 0], 0)
        first_a, a_weights = self._four(places[:, 1], 1)
        first_s, s_weights = self._four(places[:, 2], 2)
        coefficients = self.coefficients.double()
        for k, j, i in product(range(4), repeat=3):
            weight = r_weights[:, i] * a_weights[:, j] * s_weights[:, k]
            knots = coefficients[:, first_s + k, first_a + j, first_r + i].T
            displacement += weight[:, None] * knots
        return displacement.numpy()

    def refined(self, knot_mm: float) -> SplineField:
        """Return the same displacement with knots `knot_mm` apart. Exact if `knot_mm` is half of the old distance.

        Along each axis, the new knots are those with the same values at many places (least squares).
        """
        high = np.array(self.low) + np.array(self.intervals) * self.knot_mm
        fine = SplineField.over(np.array(self.low), high, knot_mm)
        knots = self.coefficients.double()
        for axis in range(3):
            count = fine.intervals[axis] * _SAMPLES_A_KNOT + 1
            shares = torch.linspace(0, 1, count, dtype=torch.float64)
            places = self.low[axis] + knot_mm * fine.intervals[axis] * shares
            coarse_weights = self._weights(places, axis)
            fine_weights = fine._weights(places, axis)
            # (new knots, old knots) along the axis
            matrix = torch.linalg.lstsq(fine_weights, coarse_weights).solution
            knots = torch.tensordot(knots, matrix, dims=([3 - axis], [1])).movedim(3, 3 - axis)
        return replace(fine, coefficients=knots.float())

    def _weights(self, places: torch.Tensor, axis: int, derivative: bool = False) -> torch.Tensor:
        """Return the weight of each knot at `places` along one axis, float64 (n, knots).

        A place outside the spline's box has the weights of the nearest place in the box.
        """
        first, weights = self._four(places, axis, derivative)
        table = torch.zeros(len(places), self.coefficients.shape[3 - axis], dtype=torch.float64)
        return table.scatter_(1, first[:, None] + torch.arange(4), weights)

    def _four(
        self, places: torch.Tensor, axis: int, derivative: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return for n places: the number of the first of the four nearest knots, (n,), and the weights of a cubic
        B-spline at the four knots, (n, 4).

        Args:
            places: (n,) mm along the axis.
            axis: 0, 1 or 2.
            derivative: return the derivatives of the weights instead, for each mm.
        """
        intervals = self.intervals[axis]
        position = ((places - self.low[axis]) / self.knot_mm).clamp(0, intervals)
        first = position.floor().clamp(max=intervals - 1)
        t = position - first  # share of the interval, 0 to 1
        # the four pieces of a cubic B-spline (times 6), or their derivatives (times 2)
        if derivative:
            parts = [
                -(1 - t).square(),
                3 * t.square() - 4 * t,
                -3 * t.square() + 2 * t + 1,
                t.square(),
            ]
            weights = torch.stack(parts, dim=1) / (2 * self.knot_mm)
        else:
            cubes = [(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3]
            weights = torch.stack(cubes, dim=1) / 6
        return first.long(), weights


def roughness(knots: torch.Tensor) -> torch.Tensor:
    """Return the gradient (c, K, J, I) of half the sum of squared differences between values at neighbouring knots."""
    result = torch.zeros_like(knots)
    for axis in (1, 2, 3):
        step = knots.diff(dim=axis)
        result.narrow(axis, 1, step.shape[axis]).add_(step)
        result.narrow(axis, 0, step.shape[axis]).sub_(step)
    return result


ROUGHNESS_DIAGONAL = 6.0  # diagonal of the matrix of `roughness`, away from the ends


def conjugate_gradients(
    product: Callable[[torch.Tensor], torch.Tensor],
    target: torch.Tensor,
    diagonal: torch.Tensor,
    rounds: int,
) -> torch.Tensor:
    """Solve product(x) = target for x, starting at zero. Conjugate gradients, scaled by the diagonal (Jacobi).

    Args:
        product: multiplies x by a symmetric positive matrix.
        target: the right side of the equation.
        diagonal: diagonal of this matrix, exact or approximate.
        rounds: largest number of steps.
    """
    x = torch.zeros_like(target)
    residual = target
    scaled = residual / diagonal
    direction = scaled
    size = (residual * scaled).sum()
    for _ in range(rounds):
        if size <= 0:
            break
        moved = product(direction)
        step = size / (direction * moved).sum().clamp_min(1e-30)
        x = x + step * direction
        residual = residual - step * moved
        scaled = residual / diagonal
        last_size = size
        size = (residual * scaled).sum()
        direction = scaled + size / last_size * direction
    return x
