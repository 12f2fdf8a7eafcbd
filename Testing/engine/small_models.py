"""Maps whose coordinates are a known function of the place, and small networks, for the tests of the engine."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from scan_files import voxel_positions
from torch import nn
from torch.nn import functional as F

from AnatomicalEmbedding.embedding.map import EmbeddingMap, Provenance
from AnatomicalEmbedding.embedding.models.network import EmbeddingNetwork, Features, NetworkSpec
from AnatomicalEmbedding.embedding.models.registry import write_weights

WEIGHTS_HASH = "ab" * 32
VOXELS_PER_CELL = 4


def small_network(
    seed: int = 0, widths: tuple[int, ...] = (4, 4, 4, 4), **spec: object
) -> EmbeddingNetwork:
    """The real network, tiny and untrained; equal seeds give equal weights."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return EmbeddingNetwork(NetworkSpec(widths=widths, **spec)).eval()


def write_small_weights(folder: Path, name: str = "small", seed: int = 0, **spec: object) -> Path:
    """Write the weights of `small_network(seed, **spec)` to `folder`/`name`.safetensors."""
    path = folder / f"{name}.safetensors"
    write_weights(small_network(seed, **spec), path, name, {"recipe": "none"})
    return path


def write_described_weights(folder: Path) -> Path:
    """Write small weights with descriptors."""
    return write_small_weights(folder, "described", local_channels=8, spacing_mm=(3.0, 3.0, 4.0))


class Averaging(nn.Module):
    """A backbone whose output is known: the mean HU of each cell's voxels, three times, in hundreds."""

    stride = VOXELS_PER_CELL
    unit_mm = 100.0
    metric = True
    lattice = 16
    size_step = VOXELS_PER_CELL
    bytes_per_voxel = 20.0
    fixed_bytes_per_voxel = 10.0
    reach_cells = 2
    descriptor_bytes_per_voxel = 0.0
    scales = (1.0,)
    spec = SimpleNamespace(planar=False)

    def __init__(self, spacing_mm: tuple[float, float, float] = (2.0, 2.0, 3.0)):
        super().__init__()
        self.spacing_mm = spacing_mm

    def prepare(self, hu: torch.Tensor) -> torch.Tensor:
        return hu[None] / 100

    def forward(self, x: torch.Tensor, descriptors: bool = True) -> Features:
        return Features(F.avg_pool3d(x, self.stride).expand(-1, 3, -1, -1, -1))


def cell_centres(embedding: EmbeddingMap) -> np.ndarray:
    """(k,j,i,3) RAS mm of the centres of all cells."""
    return voxel_positions(embedding.body.shape, embedding.cell_to_ras)


def analytic_map(
    function: Callable[[np.ndarray], np.ndarray],
    shape: tuple[int, int, int] = (16, 20, 24),
    cell_mm: tuple[float, float, float] = (8.0, 8.0, 12.0),
    corner_ras: tuple[float, float, float] = (-90.0, -75.0, 300.0),
    body: np.ndarray | None = None,
    noise: float = 0.0,
    weights_hash: str = WEIGHTS_HASH,
    metric: bool = True,
    name: str = "analytic",
) -> EmbeddingMap:
    """The map of a scan whose coordinate at RAS points (N,3) is `function` of them, its cells filling it exactly.

    shape: cells (k,j,i). corner_ras: lowest corner of the scan. body: (k,j,i) bool, else every cell; the coordinates
    of the other cells are nonsense. noise: standard deviation of what is added to each coordinate.
    """
    cell_to_ras = np.diag([*cell_mm, 1.0])
    scan_to_ras = np.diag([*np.array(cell_mm) / VOXELS_PER_CELL, 1.0])
    for matrix in (cell_to_ras, scan_to_ras):
        matrix[:3, 3] = np.array(corner_ras) + np.diag(matrix)[:3] / 2
    body = np.ones(shape, dtype=bool) if body is None else body
    made = EmbeddingMap(
        torch.zeros(3, *shape),
        torch.from_numpy(body),
        cell_to_ras,
        scan_to_ras,
        tuple(VOXELS_PER_CELL * n for n in shape),
        Provenance("analytic", weights_hash, name, f"hash of {name}", metric),
    )
    coordinate = function(cell_centres(made).reshape(-1, 3))
    coordinate = coordinate + np.random.default_rng(0).normal(0, noise, coordinate.shape) * (
        noise > 0
    )
    made.coordinate[:] = torch.from_numpy(coordinate.T.reshape(3, *shape))
    made.coordinate[:, ~made.body] = 1e5
    return made
