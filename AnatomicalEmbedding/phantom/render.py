"""Make the voxels of a scan: transform the canonical body to the patient; add CT numbers, noise and a couch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F

from ..scan.geometry import AIR_HU
from .anatomy import Anatomy
from .tissues import TEXTURE_HU

_LATTICE_MM = 8.0  # distance of the nodes at which the transform is computed; the error between them is below 0.3 mm
_SLAB = 24  # slices processed together; limits the memory
TEXTURE_SIZE = 96  # voxels along a side of the texture, which is repeated; by hand

Spacing = tuple[float, float, float]  # voxel size along x, y, z, mm
ToBody = Callable[[np.ndarray], np.ndarray]  # points (N, 3): patient RAS mm to canonical body mm


@dataclass(frozen=True)
class ScanGrid:
    """The grid of a scan, as CT scanners store it: i runs to the patient's left, j to the back, k to the head."""

    first_ras: np.ndarray  # centre of voxel (0, 0, 0)
    spacing: Spacing
    shape: tuple[int, int, int]  # (nk, nj, ni)

    @property
    def ijk_to_ras(self) -> np.ndarray:
        matrix = np.diag([-self.spacing[0], -self.spacing[1], self.spacing[2], 1.0])
        matrix[:3, 3] = self.first_ras
        return matrix


def render(
    to_body: ToBody,
    grid: ScanGrid,
    anatomy: Anatomy,
    hu: np.ndarray,
    noise_hu: float,
    table: bool,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Make the voxels of one scan, int16 (k, j, i) HU, and its labels, uint8 (k, j, i).

    Args:
        to_body: converts RAS mm to the canonical body.
        grid: the grid of the scan.
        anatomy: the canonical body.
        hu: CT number of each tissue.
        noise_hu: standard deviation of the noise.
        table: whether to draw the couch.
        rng: random numbers for the texture and the noise.
    """
    body_index = BodyIndex(to_body, grid, anatomy)
    source, first_k = _hounsfield(anatomy, hu, body_index.coarse[..., 2], rng)
    voxels = np.empty(grid.shape, np.float32)
    labels = np.empty(grid.shape, np.uint8)
    thin = max(round(grid.spacing[2] / 2.5), 1)  # a slice is the average of so many thin slices
    for k in range(0, grid.shape[0], _SLAB):
        rows = np.arange(k, min(k + _SLAB, grid.shape[0]), dtype=float)
        voxels[k : k + _SLAB] = 0
        for shift in (np.arange(thin) + 0.5) / thin - 0.5:
            index = body_index.at(rows + shift)
            voxels[k : k + _SLAB] += _linear(source, index, first_k) / thin
        if thin > 1:
            index = body_index.at(rows)
        labels[k : k + _SLAB] = anatomy.nearest(anatomy.label, index)
    if table:
        draw_table(voxels, labels, grid)
    add_noise(voxels, noise_hu, rng)
    return np.clip(np.rint(voxels), -1024, 3071).astype(np.int16), labels


class BodyIndex:
    """Computes where voxels lie in the canonical body: exactly on a lattice of points, by interpolation elsewhere."""

    def __init__(self, to_body: ToBody, grid: ScanGrid, anatomy: Anatomy) -> None:
        self._lattice = [
            np.linspace(-1, n, max(int(np.ceil((n + 1) * s / _LATTICE_MM)) + 1, 2))
            for n, s in zip(grid.shape[::-1], grid.spacing, strict=True)
        ]
        i, j, k = np.meshgrid(*self._lattice, indexing="ij")
        ijk = np.stack([i, j, k, np.ones_like(i)], axis=-1).reshape(-1, 4)
        index = anatomy.index(to_body(ijk @ grid.ijk_to_ras[:3].T))
        # (K, J, I, 3)
        self.coarse = index.reshape(*i.shape, 3).transpose(2, 1, 0, 3).astype(np.float32)
        nj, ni = grid.shape[1:]
        self._across = _hat_weights(np.arange(ni), self._lattice[0])
        self._down = _hat_weights(np.arange(nj), self._lattice[1])

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Return the places of the voxels in slices `rows`: indices in the canonical body, (len(rows), nj, ni, 3)."""
        planes = np.tensordot(_hat_weights(rows, self._lattice[2]), self.coarse, axes=(1, 0))
        lines = np.matmul(self._down, planes.transpose(0, 3, 1, 2))  # (rows, 3, nj, I)
        return np.matmul(lines, self._across.T).transpose(0, 2, 3, 1)


def _hat_weights(places: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Return weights (len(places), len(knots)) for linear interpolation from evenly spaced `knots` to `places`."""
    position = (places - knots[0]) / (knots[1] - knots[0])
    return np.maximum(1 - np.abs(position[:, None] - np.arange(len(knots))), 0).astype(np.float32)


def _hounsfield(
    anatomy: Anatomy, hu: np.ndarray, heights: np.ndarray, rng: np.random.Generator
) -> tuple[torch.Tensor, int]:
    """Compute blurred CT numbers of all slices of the canonical body from the lowest to the highest of `heights`.

    heights: slice indices in the canonical body. Returns the CT numbers plus 1000, so that air is 0; and the index of
    the lowest computed slice.
    """
    first = int(np.clip(np.floor(heights.min()) - 2, 0, anatomy.tissue.shape[0] - 2))
    last = int(np.clip(np.ceil(heights.max()) + 3, first + 2, anatomy.tissue.shape[0]))
    tissue = anatomy.tissue[first:last]
    values = texture(tissue, rng.integers(0, TEXTURE_SIZE, 3) + np.array([first, 0, 0]))
    values += (hu - np.float32(AIR_HU))[tissue]
    soft = torch.from_numpy(values)[None, None]
    for axis in range(3):
        soft = soften(soft, axis)
    return soft, first


def soften(volume: torch.Tensor, axis: int) -> torch.Tensor:
    """Blur a volume (1, 1, k, j, i) along axis 0 (k), 1 (j) or 2 (i) by (1, 2, 1) / 4; the edge layers are repeated."""
    dim = axis + 2
    n = volume.shape[dim]
    out = volume * 0.5
    out.narrow(dim, 1, n - 1).add_(volume.narrow(dim, 0, n - 1), alpha=0.25)
    out.narrow(dim, 0, n - 1).add_(volume.narrow(dim, 1, n - 1), alpha=0.25)
    out.narrow(dim, 0, 1).add_(volume.narrow(dim, 0, 1), alpha=0.25)
    out.narrow(dim, n - 1, 1).add_(volume.narrow(dim, n - 1, 1), alpha=0.25)
    return out


def texture(tissue: np.ndarray, starts: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the texture, HU, of voxels with tissues (k, j, i). starts: (3,) index of voxel 0 in the periodic tile."""
    k, j, i = (
        (np.arange(n) + start) % TEXTURE_SIZE for n, start in zip(tissue.shape, starts, strict=True)
    )
    return TEXTURE_HU[tissue] * _texture_tile()[np.ix_(k, j, i)]


@lru_cache(maxsize=1)
def _texture_tile() -> np.ndarray:
    """Return the texture, (TEXTURE_SIZE,) * 3, standard deviation 1: fine and coarse blurs of one noise, mixed.

    The blurs are products in frequency space, so that the tile is periodic.
    """
    shape = (TEXTURE_SIZE,) * 3
    noise = np.fft.rfftn(np.random.default_rng(77).standard_normal(shape))
    along_kj = np.fft.fftfreq(TEXTURE_SIZE) ** 2
    along_i = np.fft.rfftfreq(TEXTURE_SIZE) ** 2
    squared = along_kj[:, None, None] + along_kj[:, None] + along_i  # squared frequency
    mixed = np.zeros(shape)
    for weight, sigma in ((0.75, 0.9), (0.6, 2.5)):
        blur = np.exp(-2 * np.pi**2 * sigma**2 * squared)
        field = np.fft.irfftn(noise * blur, s=shape, axes=(0, 1, 2))
        mixed += weight * (field - field.mean()) / field.std()
    return (mixed / mixed.std()).astype(np.float32)


def _linear(source: torch.Tensor, index: np.ndarray, first_k: int) -> np.ndarray:
    """Return HU of the body at fractional voxels i, j, k, `index` (k, j, i, 3); air outside. source: (1, 1, k, j, i) HU
    + 1000 of the slices from number `first_k` on."""
    size = np.array(source.shape[:1:-1], np.float32)
    shifted = (index - np.array([0, 0, first_k], np.float32)) * (2 / (size - 1)) - 1
    where = torch.from_numpy(shifted.astype(np.float32))[None]
    sampled = F.grid_sample(
        source, where, mode="bilinear", padding_mode="zeros", align_corners=True
    )
    return sampled[0, 0].numpy() + np.float32(AIR_HU)


def draw_table(voxels: np.ndarray, labels: np.ndarray, grid: ScanGrid) -> None:
    """Draw a curved couch, a thin shell filled with foam, that touches the lowest point of the back.

    Args:
        voxels: (k, j, i) HU, in which the couch is drawn.
        labels: (k, j, i), 0 outside the body.
        grid: the grid of the scan.
    """
    nj, ni = labels.shape[1:]
    covered = labels.max(axis=0) > 0
    if not covered.any():
        return
    deepest = nj - 1 - covered[::-1].argmax(axis=0)  # last row that shows the body, in each column
    columns = np.nonzero(covered.any(axis=0))[0]
    across = (np.arange(ni) - columns.mean()) * grid.spacing[0]
    rise = np.square(across) / 900.0  # mm by which the couch rises towards the sides
    top = (deepest[columns] * grid.spacing[1] + rise[columns]).max() + 3.0
    depth = np.arange(nj)[:, None] * grid.spacing[1] - (top - rise)
    wide = np.abs(across) < 215
    shell = (np.abs(depth - 1.5) < 1.6) & wide
    foam = (depth > 3) & (depth < 26 - rise * 0.8) & wide
    outside = labels == 0
    voxels[outside & foam & (voxels < -900)] = -955
    voxels[outside & shell & (voxels < -600)] = 60


def add_noise(voxels: np.ndarray, noise_hu: float, rng: np.random.Generator) -> None:
    """Add normal noise; neighbouring pixels of a slice are correlated.

    Args:
        voxels: (k, j, i) HU, to which the noise is added.
        noise_hu: standard deviation of the noise.
        rng: random numbers.
    """
    for k in range(0, len(voxels), _SLAB):
        slab = voxels[k : k + _SLAB]
        noise = torch.from_numpy(rng.standard_normal(slab.shape, dtype=np.float32))[None, None]
        soft = soften(soften(noise, 1), 2)[0, 0].numpy()
        slab += soft * np.float32(noise_hu / 0.375)  # 0.375: standard deviation of `soft`
