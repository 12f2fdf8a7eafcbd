"""A regular grid of points along the patient's axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..embedding.working_grid import WorkingGrid


@dataclass(frozen=True)
class Lattice:
    """A regular grid of points: RAS mm of the first point; spacing and number of points along R, A, S."""

    origin_ras: tuple[float, float, float]
    spacing_mm: tuple[float, float, float]
    size: tuple[int, int, int]

    @classmethod
    def of(cls, grid: WorkingGrid) -> Lattice:
        """Make the lattice of the voxel centres of a working grid."""
        k, j, i = grid.hu.shape
        x, y, z = (float(each) for each in grid.origin_ras)
        return cls((x, y, z), grid.spacing_mm, (i, j, k))

    @classmethod
    def within(cls, low: np.ndarray, high: np.ndarray, spacing_mm: float) -> Lattice:
        """Make the lattice of points that fit into a box, centred in it; at least one point along each axis."""
        size = np.maximum(np.floor((high - low) / spacing_mm), 1).astype(int)
        first = (low + high - (size - 1) * spacing_mm) / 2
        return cls(tuple(first.tolist()), (spacing_mm,) * 3, tuple(size.tolist()))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of points (k, j, i)."""
        return self.size[::-1]

    def axis(self, number: int) -> torch.Tensor:
        """Return the positions of the points along one axis, (n,) float64 mm."""
        return self.origin_ras[number] + self.spacing_mm[number] * torch.arange(self.size[number], dtype=torch.float64)

    def points_ras(self) -> np.ndarray:
        """Return all points, (n, 3) RAS mm, i fastest."""
        k, j, i = np.meshgrid(*(self.axis(a).numpy() for a in (2, 1, 0)), indexing="ij")
        return np.column_stack([i.ravel(), j.ravel(), k.ravel()])

    def through(self, affine: np.ndarray) -> torch.Tensor:
        """Transform each point by a (4, 4) matrix of RAS mm. Returns (3, k, j, i) float32."""
        x, y, z = (self.axis(a) for a in range(3))
        return torch.stack(
            [
                (z * row[2] + row[3])[:, None, None] + (y * row[1])[None, :, None] + (x * row[0])[None, None, :]
                for row in np.asarray(affine, dtype=float)[:3]
            ]
        ).float()

    def pooled(self, factor: int = 2) -> Lattice:
        """Make the lattice of the middles of blocks with `factor` points a side. Incomplete blocks are included."""
        x, y, z = (o + s * (factor - 1) / 2 for o, s in zip(self.origin_ras, self.spacing_mm, strict=True))
        dx, dy, dz = (s * factor for s in self.spacing_mm)
        i, j, k = (-(-n // factor) for n in self.size)
        return Lattice((x, y, z), (dx, dy, dz), (i, j, k))
