"""Lesions drawn into the voxels of a scan: nodules, metastases and nodes, with soft and lobulated edges."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from .render import Grid
from .tissues import PHASES

_EDGE_MM = 0.8  # over which a lesion passes into its organ
_LOBES = 0.12  # of the radius
_TEXTURE_HU = 7.0
_FINE_MM = 1.5  # a voxel averages points this far apart

# Kind: CT number by contrast phase.
KINDS: dict[str, tuple[float, float, float, float]] = {
    "lung nodule": (35, 55, 50, 45), "liver metastasis": (32, 40, 52, 50), "lymph node": (40, 75, 80, 70),
    "lytic bone metastasis": (50, 70, 65, 60), "sclerotic bone metastasis": (780, 780, 780, 780),
    "spleen metastasis": (25, 45, 55, 50), "kidney metastasis": (40, 65, 70, 60),
    "muscle metastasis": (30, 100, 95, 85),
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """axes: rows, orthonormal; stretch: relative length of the half axes, the longest 1. waves: (3, 4) directions and
    phases of the lobes. texture: seed.
    """

    axes: np.ndarray
    stretch: tuple[float, float, float]
    waves: np.ndarray
    texture: int

    @classmethod
    def random(cls, rng: np.random.Generator) -> Self:
        axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        stretch = (1.0, float(rng.uniform(0.8, 1.0)), float(rng.uniform(0.7, 0.95)))
        waves = np.column_stack([rng.normal(0, 2.2, (3, 3)), rng.uniform(0, 2 * np.pi, 3)])
        return cls(axes, stretch, waves, int(rng.integers(2**31)))

    def outside_mm(self, offset: np.ndarray, radius_mm: float) -> np.ndarray:
        """About how far points at offsets (..., 3) mm from the middle lie outside; negative inside."""
        scaled = offset @ self.axes.T / (radius_mm * np.array(self.stretch))
        away = np.linalg.norm(scaled, axis=-1)
        direction = scaled / np.maximum(away, 1e-6)[..., None]
        lobes = np.cos(direction @ self.waves[:, :3].T + self.waves[:, 3]).mean(axis=-1)
        return (away - 1 - _LOBES * lobes) * radius_mm * float(np.mean(self.stretch))


def draw_lesion(
    voxels: np.ndarray, grid: Grid, kind: str, phase: str, blobs: Sequence[tuple[np.ndarray, float]], shape: Shape
) -> None:
    """Draw one lesion into voxels (k, j, i), float HU: the union of blobs, each (RAS mm of its middle, radius mm)."""
    middles = np.array([middle for middle, _ in blobs])
    reach = max(radius for _, radius in blobs) * (1 + _LOBES) + 4 * _EDGE_MM
    to_ijk = np.linalg.inv(grid.ijk_to_ras)
    corners = np.concatenate([middles - reach, middles + reach]) @ to_ijk[:3, :3].T + to_ijk[:3, 3]
    size = np.array(grid.shape[::-1])
    low = np.clip(np.floor(corners.min(0)).astype(int), 0, size)
    high = np.clip(np.ceil(corners.max(0)).astype(int) + 1, 0, size)
    if (high <= low).any():
        return
    share = _share(grid, low, high, blobs, shape)
    part = voxels[tuple(slice(a, b) for a, b in zip(low[::-1], high[::-1], strict=True))]
    rng = np.random.default_rng(shape.texture)
    hu = KINDS[kind][PHASES.index(phase)] + rng.normal(0, _TEXTURE_HU, part.shape)
    part += share * (hu - part)


def _share(
    grid: Grid, low: np.ndarray, high: np.ndarray, blobs: Sequence[tuple[np.ndarray, float]], shape: Shape
) -> np.ndarray:
    """(k, j, i) share of each voxel of a box that is lesion: large voxels average their contents."""
    counts = [max(round(spacing / _FINE_MM), 1) for spacing in grid.spacing]
    steps = [(np.arange(count) + 0.5) / count - 0.5 for count in counts]
    total = np.zeros((high - low)[::-1])
    for shift in np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1).reshape(-1, 3):
        i, j, k = (np.arange(a, b) + s for a, b, s in zip(low, high, shift, strict=True))
        k, j, i = np.meshgrid(k, j, i, indexing="ij")
        places = np.stack([i, j, k], axis=-1) @ grid.ijk_to_ras[:3, :3].T + grid.ijk_to_ras[:3, 3]
        outside = np.min([shape.outside_mm(places - middle, radius) for middle, radius in blobs], axis=0)
        total += 1 / (1 + np.exp(np.clip(outside / (_EDGE_MM / 2), -40, 40)))
    return total / np.prod(counts)
