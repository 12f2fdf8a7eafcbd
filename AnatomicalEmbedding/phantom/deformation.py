"""Smooth, invertible transforms from a scan of a synthetic patient to the canonical body (module `anatomy`).

`to_body` is a composition of seven steps, each with a known inverse:

1. a rigid motion (table position and small rotations);
2. heights: z -> s z + sum of cosines, with a slope well above 0 (proportions of trunk, neck and head);
3. bending: x and y shifted by functions of height (lordosis, kyphosis, scoliosis, lean);
4. width, depth and subcutaneous fat: x and y scaled by functions of height, then a monotone radial map outside the
   muscle wall;
5. organs: p -> p + sum of bumps, that is, shifts that are 0 outside a sphere. Where bumps overlap, the sum of their
   Lipschitz constants is below 1. Hence the transform is a bijection (Banach), and fixed-point iteration inverts it;
6. adrenal glands: further bumps of a few mm;
7. filling of the bladder: distances from the neck of the bladder are changed.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from ..resources import read_table
from ..scan.geometry import rotations
from .frame import BODY, fat_mm

_TOLERANCE_MM = 1e-9  # of inverses found by iteration; far below any error that is measured
MAX_BUMP_SLOPE = 0.75  # bound of the Lipschitz constant of the sum of all organ bumps

_SHIFTS = read_table("Phantom/shifts.csv")
_BLADDER_NECK = (0.0, 42.0, -20.0)
# least and largest width of the bladder near its neck, relative to the canonical body
_FILLING = (0.65, 2.0)
_FILLED_MM = 110.0  # reach of the filling, from the neck of the bladder
# of `FatLayer`: width of the smooth transition at the muscle wall, in units of the radius
_SOFTNESS = 0.05


@dataclass(frozen=True)
class Waves:
    """A smooth function of height z: sum of n waves, amplitude * cos(2 pi z / wavelength + phase). All fields: (n,)."""

    amplitude: np.ndarray
    wavelength_mm: np.ndarray
    phase: np.ndarray

    @classmethod
    def random(
        cls, rng: np.random.Generator, amplitudes: tuple[float, ...], wavelengths: tuple[float, ...]
    ) -> Self:
        """Make random waves.

        Args:
            rng: random numbers.
            amplitudes: largest amplitude of each wave.
            wavelengths: mean wavelength of each wave, mm.
        """
        size = rng.uniform(-1, 1, len(amplitudes)) * amplitudes
        stretch = rng.uniform(0.85, 1.2, len(wavelengths))
        return cls(
            size, np.asarray(wavelengths) * stretch, rng.uniform(0, 2 * np.pi, len(amplitudes))
        )

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """Return the values at heights z, mm, in the shape of `z`."""
        return np.cos(2 * np.pi * z[..., None] / self.wavelength_mm + self.phase) @ self.amplitude


@dataclass(frozen=True)
class Bumps:
    """A sum of n displacements: each is shift * (1 - |p - centre|^2 / reach^2)^3 inside its reach, and 0 outside."""

    center: np.ndarray  # (n, 3)
    reach_mm: np.ndarray  # (n,)
    shift_mm: np.ndarray  # (n, 3)

    @classmethod
    def random(cls, rng: np.random.Generator, step: str, scattered: int) -> Self:
        """Make random bumps near organs and `scattered` bumps anywhere, with a `slope_bound` of at most 0.75.

        Args:
            rng: random numbers.
            step: "organs" or "adrenals", the rows of `Resources/Phantom/shifts.csv` to use.
            scattered: number of bumps that lie anywhere.
        """
        organs = [row for row in _SHIFTS if row["step"] == step]
        center = np.array([row["centre"].split() for row in organs], float)
        center = center + rng.normal(0, 8, center.shape)
        reach = np.array([row["reach"] for row in organs], float)
        size = np.array([row["largest"] for row in organs], float)
        center = np.vstack([center, rng.uniform([-150, -90, -60], [150, 120, 780], (scattered, 3))])
        reach = np.concatenate([reach, rng.uniform(70, 140, scattered)])
        size = np.concatenate([size, rng.uniform(3, 8, scattered)])
        direction = rng.normal(size=center.shape)
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        bumps = cls(center, reach, direction * (size * rng.uniform(0.3, 1.0, len(size)))[:, None])
        excess = max(bumps.slope_bound / MAX_BUMP_SLOPE, 1.0)
        return cls(center, reach, bumps.shift_mm / excess)

    @property
    def slope_bound(self) -> float:
        """Upper bound of the slope (Lipschitz constant) of the sum of all bumps.

        The space around all bumps is divided into cubes. In each cube, an upper bound of the slope of each bump is
        computed, and these bounds are added. The largest of the sums is returned.
        """
        cell = 28.0
        reach = self.reach_mm[:, None]
        low = (self.center - reach).min(axis=0)
        high = (self.center + reach).max(axis=0)
        axes = [np.arange(a, b + cell, cell) for a, b in zip(low, high, strict=True)]
        middles = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        corner = cell * np.sqrt(3) / 2  # half of the diagonal of a cube
        total = np.zeros(len(middles))
        for center, reach, shift in zip(self.center, self.reach_mm, self.shift_mm, strict=True):
            distance = np.linalg.norm(middles - center, axis=1)
            # a bump is shift * (1 - t^2)^3, with t = distance / reach, so its slope is shift / reach * 6 t (1 - t^2)^2,
            # which is largest at t = 1 / sqrt(5); the place of a cube that is nearest to this distance counts
            steepest = np.clip(reach / np.sqrt(5), distance - corner, distance + corner)
            t = np.minimum(steepest / reach, 1)
            total += np.linalg.norm(shift) / reach * 6 * t * np.square(1 - t * t)
        return float(total.max())

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return the displacements (n, 3), mm, of points (n, 3), mm."""
        total = np.zeros_like(points)
        for center, reach, shift in zip(self.center, self.reach_mm, self.shift_mm, strict=True):
            close = np.flatnonzero(np.abs(points[:, 2] - center[2]) < reach)
            away = (points[close] - center) / reach
            room = 1 - np.einsum("ij,ij->i", away, away)
            active = room > 0
            total[close[active]] += room[active, None] ** 3 * shift
        return total


@dataclass(frozen=True)
class FatLayer:
    """Changes the thickness of the fat outside the muscle wall.

    A radius r in the patient (1 = muscle wall) becomes r - change * softplus(r - 1) in the canonical body. `change` is
    below 1. If `change` is positive, the patient has more fat than the canonical body. In neck and head, the radius is
    not changed.
    """

    change: float

    def _ellipse(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return three arrays (n,) about n points: y of the body's middle at the point's height; the point's distance
        from this middle, where 1 is the muscle wall; and `change` at this height, which is 0 in neck and head."""
        z = points[:, 2]
        half, middle, front, rear = BODY.section(z)
        inset = fat_mm(z)
        dy = points[:, 1] - middle
        depth = np.where(dy > 0, front, rear) - inset
        fade = 1 / (1 + np.exp(np.clip((z - 545) / 12, -60, 60)))  # no change in neck and head
        return middle, np.hypot(points[:, 0] / (half - inset), dy / depth), self.change * fade

    def _profile(self, radius: np.ndarray, amount: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return two arrays (n,): the radii in the canonical body for radii in the patient, and the derivatives of the
        new radii by the old radii."""
        u = (radius - 1) / _SOFTNESS
        softplus = _SOFTNESS * np.logaddexp(0, u)
        at_zero = _SOFTNESS * np.logaddexp(0, -1 / _SOFTNESS)  # radius 0 stays 0
        logistic = np.exp(-np.logaddexp(0, -u))  # the derivative of softplus
        return radius - amount * (softplus - at_zero), 1 - amount * logistic

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Move points (n, 3), mm, from the patient to the canonical body."""
        middle, radius, amount = self._ellipse(points)
        return self._rescale(points, middle, radius, self._profile(radius, amount)[0])

    def invert(self, points: np.ndarray) -> np.ndarray:
        """Move points (n, 3), mm, from the canonical body to the patient: the inverse of `apply`."""
        middle, goal, amount = self._ellipse(points)
        radius = goal.copy()
        # Newton's method converges, as the function is monotone and convex or concave
        for _ in range(60):
            value, slope = self._profile(radius, amount)
            step = (goal - value) / slope
            radius += step
            if np.abs(step).max(initial=0) < 1e-13:
                break
        return self._rescale(points, middle, goal, radius)

    @staticmethod
    def _rescale(
        points: np.ndarray, middle: np.ndarray, before: np.ndarray, after: np.ndarray
    ) -> np.ndarray:
        """Move points (n, 3) sideways and in depth, away from the middle of the body or towards it.

        Args:
            points: the points, mm.
            middle: (n,) y of the body's middle, mm; its x is 0.
            before, after: (n,) distance of each point from the middle, in the same unit.
        """
        factor = after / np.maximum(before, 1e-9)
        moved = points.copy()
        moved[:, 0] *= factor
        moved[:, 1] = middle + (points[:, 1] - middle) * factor
        return moved


@dataclass(frozen=True)
class Filling:
    """Changes distances from the neck of the bladder, so that the bladder is fuller or emptier.

    A distance r in the patient becomes r * (1 + change * (1 - r^2 / reach^2)^3) in the canonical body, up to a reach of
    110 mm.
    The function is monotone for changes above -1 and below 1.5.
    """

    change: float

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Move points (n, 3), mm, from the patient to the canonical body."""
        away = points - _BLADDER_NECK
        return points + away * (self._factor(np.linalg.norm(away, axis=1)) - 1)[:, None]

    def invert(self, points: np.ndarray) -> np.ndarray:
        """Move points (n, 3), mm, from the canonical body to the patient: the inverse of `apply`."""
        away = points - _BLADDER_NECK
        goal = np.linalg.norm(away, axis=1)
        low = np.zeros_like(goal)
        high = np.maximum(goal, _FILLED_MM)
        for _ in range(50):  # bisection: exact to 1e-13 mm
            middle = (low + high) / 2
            over = middle * self._factor(middle) > goal
            low = np.where(over, low, middle)
            high = np.where(over, middle, high)
        inside = goal < _FILLED_MM
        factor = low / np.maximum(goal, 1e-9)
        return np.where(inside[:, None], _BLADDER_NECK + away * factor[:, None], points)

    def _factor(self, r: np.ndarray) -> np.ndarray:
        """Return by which factor distances r, mm, in the patient change."""
        return 1 + self.change * np.maximum(1 - np.square(r / _FILLED_MM), 0) ** 3


@dataclass(frozen=True)
class Deformation:
    """The transform of one patient, in the seven steps that the module docstring lists. All points are (N, 3) mm."""

    rotation: np.ndarray  # patient axes -> body axes
    position_ras: np.ndarray  # where the body frame's origin lies in the scanner's RAS frame
    height_scale: float
    heights: Waves
    lateral: Waves
    depth: Waves
    widths: Waves
    thickness: Waves
    width_scale: float
    thickness_scale: float
    fat: FatLayer
    bumps: Bumps
    adrenals: Bumps
    filling: Filling

    @classmethod
    def random(cls, rng: np.random.Generator) -> Self:
        """Make the transform of a random patient. The arguments below stand in the order of the random numbers."""
        angles = np.deg2rad(rng.normal(0, 1, 3) * (3.0, 2.0, 3.0)).clip(-0.12, 0.12)
        size = rng.uniform(0.91, 1.11)
        return cls(
            rotation=rotation_of(angles),
            position_ras=rng.uniform((-60, -220, -900), (60, 120, 400)),
            height_scale=1 / size,
            heights=Waves.random(rng, (10.0, 6.0), (520.0, 330.0)),
            lateral=Waves.random(rng, (8.0, 4.0), (900.0, 420.0)),
            depth=Waves.random(rng, (16.0, 7.0), (850.0, 430.0)),
            widths=Waves.random(rng, (0.05, 0.03), (700.0, 380.0)),
            thickness=Waves.random(rng, (0.06, 0.03), (700.0, 380.0)),
            width_scale=1 / (np.sqrt(size) * rng.uniform(0.94, 1.10)),
            thickness_scale=1 / (np.sqrt(size) * rng.uniform(0.95, 1.15)),
            fat=FatLayer(rng.uniform(-0.5, 0.6)),
            bumps=Bumps.random(rng, "organs", scattered=14),
            adrenals=Bumps.random(rng, "adrenals", scattered=0),
            filling=Filling(1 / rng.uniform(*_FILLING) - 1),
        )

    def to_body(self, points_ras: np.ndarray) -> np.ndarray:
        """Convert points (N, 3) from patient RAS mm to the canonical body frame, mm."""
        p = (np.atleast_2d(points_ras) - self.position_ras) @ self.rotation.T
        z = self.height_scale * p[:, 2] + self.heights(p[:, 2])
        across = (p[:, 0] - self.lateral(z)) * self.width_scale * np.exp(self.widths(z))
        ahead = (p[:, 1] - self.depth(z)) * self.thickness_scale * np.exp(self.thickness(z))
        wall = self.fat.apply(np.stack([across, ahead, z], axis=1))
        organs = wall + self.bumps(wall)
        return self.filling.apply(organs + self.adrenals(organs))

    def from_body(self, points_body: np.ndarray) -> np.ndarray:
        """Convert points (N, 3) from the canonical body frame, mm, to patient RAS mm; inverse of `to_body`."""
        body = np.atleast_2d(np.asarray(points_body, np.float64))
        organs = solve_displacement(self.filling.invert(body), self.adrenals)
        p = self.fat.invert(solve_displacement(organs, self.bumps))
        z = p[:, 2]
        low = _solve_height(z, self.height_scale, self.heights)
        across = p[:, 0] / (self.width_scale * np.exp(self.widths(z))) + self.lateral(z)
        ahead = p[:, 1] / (self.thickness_scale * np.exp(self.thickness(z))) + self.depth(z)
        return np.stack([across, ahead, low], axis=1) @ self.rotation + self.position_ras


def solve_displacement(goal: np.ndarray, displacement: Bumps) -> np.ndarray:
    """Solve p + displacement(p) = goal for points p (N, 3), by iteration. The displacement is a contraction."""
    p = goal.copy()
    moving = np.arange(len(goal))
    while len(moving):
        step = goal[moving] - displacement(p[moving]) - p[moving]
        p[moving] += step
        moving = moving[np.abs(step).max(axis=1) > _TOLERANCE_MM]
    return p


def _solve_height(goal: np.ndarray, scale: float, heights: Waves) -> np.ndarray:
    """Return z with scale * z + heights(z) = goal. The iteration converges: the slope of `heights` is below `scale`."""
    z = goal / scale
    for _ in range(200):
        update = (goal - heights(z)) / scale
        change = np.abs(update - z).max(initial=0)
        z = update
        if change < _TOLERANCE_MM:
            break
    return z


def rotation_of(angles: np.ndarray) -> np.ndarray:
    """Return the rotation (3, 3) by angles (3,), rad, about the axes x, y and z, in this order."""
    about_x, about_y, about_z = rotations(angles)
    return about_z @ about_y @ about_x
