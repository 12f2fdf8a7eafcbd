"""Analytic solids. All coordinates are mm in the canonical body frame."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Piece:
    """A region in the box from `low` to `high`. inside: takes x, y, z in mm (broadcastable), returns a bool array."""

    low: ArrayLike
    high: ArrayLike
    inside: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Ellipsoid:
    """An ellipsoid. axes: (3, 3), the directions of the three radii as orthonormal rows."""

    center: ArrayLike
    radii: ArrayLike
    axes: np.ndarray = field(default_factory=lambda: np.eye(3))

    def grown(self, mm: float) -> Self:
        """Return the ellipsoid with radii that are `mm` longer; `mm` may be negative."""
        return replace(self, radii=np.maximum(np.add(self.radii, mm), 0.1))

    @property
    def _reach(self) -> np.ndarray:
        return np.sqrt(np.square(self.axes * np.reshape(self.radii, (3, 1))).sum(0))

    @property
    def low(self) -> np.ndarray:
        return np.subtract(self.center, self._reach)

    @property
    def high(self) -> np.ndarray:
        return np.add(self.center, self._reach)

    def inside(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return whether points lie in the solid.

        Args:
            x, y, z: coordinates of the points, mm (broadcastable).
        """
        # each row gives one coordinate along an axis of the ellipsoid, in units of the radius
        matrix = self.axes / np.reshape(self.radii, (3, 1))
        center_x, center_y, center_z = np.asarray(self.center, np.float32)
        dx, dy, dz = x - center_x, y - center_y, z - center_z
        total = np.zeros((1, 1, 1), np.float32)
        for row in matrix.astype(np.float32):
            total = total + np.square(row[0] * dx + row[1] * dy + row[2] * dz)
        return total < 1


@dataclass(frozen=True)
class Tube:
    """A chain of capsules along the polyline `points` (n, 3), with `radii` (n,).

    squash: widens the tube along x, y and z; (3, 1, 1) makes it three times as wide in x.
    """

    points: np.ndarray
    radii: np.ndarray
    squash: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def grown(self, mm: float) -> Self:
        """Return the tube with radii that are `mm` longer; `mm` may be negative."""
        return replace(self, radii=np.maximum(self.radii + mm, 0.1))

    def capsules(self) -> Iterator[Piece]:
        """Yield the capsules of the chain."""
        squash = np.array(self.squash)
        ends = zip(self.points[:-1], self.points[1:], self.radii[:-1], self.radii[1:], strict=True)
        for start, end, r0, r1 in ends:
            reach = max(r0, r1) * squash
            inside = partial(_in_capsule, start, (end - start) / squash, squash, r0, r1)
            yield Piece(np.minimum(start, end) - reach, np.maximum(start, end) + reach, inside)


def _in_capsule(
    start: np.ndarray,
    axis: np.ndarray,
    squash: np.ndarray,
    r0: float,
    r1: float,
    *places: np.ndarray,
) -> np.ndarray:
    """Return whether places lie in a capsule.

    Args:
        start: (3,) mm, where the axis of the capsule begins.
        axis: (3,) mm, from the beginning to the end of the axis, divided by `squash`.
        squash: (3,) factors of the radius along x, y and z.
        r0, r1: radius at the beginning and at the end, mm.
        places: x, y and z of the places, mm (broadcastable).
    """
    away = [
        ((place.astype(np.float64) - first) / flat).astype(np.float32)
        for place, first, flat in zip(places, start, squash, strict=True)
    ]
    slope = (axis / max(np.square(axis).sum(), 1e-6)).astype(np.float32)
    # along: place of the nearest point of the axis, from 0 to 1; gap: square of the distance from it
    along = np.clip(sum(a * b for a, b in zip(away, slope, strict=True)), 0, 1)
    axis = axis.astype(np.float32)
    gap = sum(np.square(a - along * b) for a, b in zip(away, axis, strict=True))
    return gap < np.square(np.float32(r0) + along * np.float32(r1 - r0))


class Spline:
    """C1 cubic Hermite interpolation of values (n,) or (n, columns). Beyond the end knots, the values are constant.

    flat: whether the slope is zero at the end knots.
    """

    def __init__(self, knots: ArrayLike, values: ArrayLike, flat: bool = True) -> None:
        self.knots = np.asarray(knots, float)
        self.values = np.asarray(values, float)
        self._slopes = np.gradient(self.values, self.knots, axis=0)
        if flat:
            self._slopes[[0, -1]] = 0

    def __call__(self, positions: np.ndarray | float) -> np.ndarray:
        """Return the value at each position, with the columns, if any, as last axis."""
        positions = np.clip(np.asarray(positions, float), self.knots[0], self.knots[-1])
        i = np.clip(
            np.searchsorted(self.knots, positions, side="right") - 1, 0, len(self.knots) - 2
        )
        h = self.knots[i + 1] - self.knots[i]
        t = (positions - self.knots[i]) / h
        if self.values.ndim > 1:
            t = t[..., None]
            h = h[..., None]
        # t: 0 at the knot below, 1 at the knot above. The sum of the two terms is the Hermite polynomial, factorised.
        remainder = 1 - t
        lower = self.values[i] + t * (2 * self.values[i] + h * self._slopes[i])
        upper = self.values[i + 1] + remainder * (2 * self.values[i + 1] - h * self._slopes[i + 1])
        return lower * remainder**2 + upper * t**2


class Loft:
    """A solid with rounded cross-sections. A table gives their sizes at some heights; other heights are interpolated.

    Columns of `table`: z, half width (x), front (y), back (y). A cross-section is made of two half-ellipses that meet
    at 0.45 of the way from back to front. squareness: 0 to below 1, makes the cross-section more rectangular.
    """

    def __init__(self, table: ArrayLike, squareness: float) -> None:
        self.table = np.asarray(table, float)
        self.squareness = squareness
        self._profile = Spline(self.table[:, 0], self.table[:, 1:])

    def section(
        self, z: np.ndarray | float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """For heights z, return half width, y of the widest place, and depths from this place to front and back."""
        half, front, rear = np.moveaxis(self._profile(z), -1, 0)
        center = rear + 0.45 * (front - rear)
        return half, center, front - center, center - rear

    def inside(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, inset: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """Return whether points lie in the solid.

        Args:
            x: (1, 1, ni) mm.
            y: (1, nj, 1) mm.
            z: (nk, 1, 1) mm.
            inset: the solid is shrunk by this, mm.
        """
        half, center, front, rear = (v.astype(np.float32) for v in self.section(z))
        inset = np.asarray(inset, np.float32)
        dy = y - center
        v = np.square(
            dy / np.where(dy > 0, np.maximum(front - inset, 1), np.maximum(rear - inset, 1))
        )
        # u + v - s u v < 1 is solved for u = (x / half)^2, so that each voxel needs only one comparison
        u = np.maximum(1 - v, 0) / (1 - self.squareness * np.minimum(v, 1))
        return np.abs(x) < np.maximum(half - inset, 1) * np.sqrt(u)

    @property
    def low(self) -> np.ndarray:
        return np.array([-self.table[:, 1].max() - 4, self.table[:, 3].min() - 4, self.table[0, 0]])

    @property
    def high(self) -> np.ndarray:
        return np.array([self.table[:, 1].max() + 4, self.table[:, 2].max() + 4, self.table[-1, 0]])


Solid = Ellipsoid | Tube | Loft | Piece


def curve(
    points: ArrayLike,
    radii: ArrayLike,
    step: float | None = None,
    squash: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> Tube:
    """Make a tube of capsules on a smooth curve through points.

    Args:
        points: (n, 3) mm.
        radii: (n,) radius at each point, or one radius, mm.
        step: length of a capsule, mm; None to use the radii.
        squash: as in `Tube`.
    """
    if step is None:
        step = max(5.0, 0.6 * float(np.median(np.asarray(radii, float))))
    knots = np.asarray(points, float)
    along = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(knots, axis=0), axis=1))])
    positions = np.linspace(0, along[-1], max(int(np.ceil(along[-1] / step)) + 1, 2))
    path = Spline(along, knots, flat=False)(positions)
    radius = np.interp(positions, along, np.broadcast_to(radii, len(knots)).astype(float))
    return Tube(path, radius, squash)


def sheet(first: ArrayLike, second: ArrayLike, radius: float) -> list[Tube]:
    """Make a curved plate between two curves.

    Args:
        first, second: (n, 3) mm, points of the curves.
        radius: half of the thickness of the plate, mm.
    """
    a = np.asarray(first, float)
    b = np.asarray(second, float)
    span = np.linalg.norm(a - b, axis=1).max()
    count = max(int(np.ceil(span / (radius * 1.2))), 1)
    return [curve(a + (b - a) * t, radius, step=8.0) for t in np.linspace(0, 1, count + 1)]


def axes_along(direction: ArrayLike, roll: float = 0.0) -> np.ndarray:
    """Return three orthonormal rows. The third row points along `direction`.

    If `roll` is 0, the first row is as near to +x as possible. roll: rotation about the third row, rad.
    """
    third = np.asarray(direction, float) / np.linalg.norm(direction)
    reference = np.array([1.0, 0, 0]) if abs(third[0]) < 0.9 else np.array([0, 1.0, 0])
    first = reference - third * (third @ reference)
    first /= np.linalg.norm(first)
    second = np.cross(third, first)
    c = np.cos(roll)
    s = np.sin(roll)
    return np.stack([c * first + s * second, c * second - s * first, third])


def mirrored(points: ArrayLike) -> np.ndarray:
    return np.asarray(points, float) * [-1, 1, 1]


SIDES: tuple[tuple[str, Callable[[ArrayLike], np.ndarray]], ...] = (
    ("right", np.asarray),
    ("left", mirrored),
)


def branching(
    start: ArrayLike,
    step: ArrayLike,
    radius: float,
    depth: int,
    rng: np.random.Generator,
    taper: float = 0.76,
) -> list[Tube]:
    """Make a tree of straight vessels. Each vessel divides into two branches, which turn by 20 to 40 degrees.

    Args:
        start, step: the first vessel goes from `start` to `start + step`, mm.
        radius: of the first vessel, mm.
        depth: number of generations of branches.
        rng: random numbers.
        taper: radius of a branch, divided by the radius of the vessel from which it branches.
    """
    begin = np.asarray(start, float)
    along = np.asarray(step, float)
    end = begin + along
    segments = [Tube(np.stack([begin, end]), np.array([radius, radius * 0.85]))]
    if depth:
        sideways = np.cross(along, rng.normal(size=3))
        sideways *= np.linalg.norm(along) / np.linalg.norm(sideways)
        for turn in (rng.uniform(0.35, 0.7), -rng.uniform(0.35, 0.7)):
            child = (along * np.cos(turn) + sideways * np.sin(turn)) * rng.uniform(0.74, 0.92)
            segments += branching(end, child, radius * taper, depth - 1, rng, taper)
    return segments
