"""Maps whose descriptors are a known function of the place: similar at near places, different at far places."""

from dataclasses import replace

import numpy as np
import torch
from small_models import analytic_map

from AnatomicalEmbedding.embedding.map import EmbeddingMap

LENGTH_MM = 8.0  # over which descriptors lose their likeness
CHANNELS = 96


def waves(place: np.ndarray, length_mm: float, seed: int) -> np.ndarray:
    """(N, d) mm -> (N, 96) unit vectors whose scalar product falls with distance as a Gaussian of that length."""
    frequency = np.random.default_rng(seed).normal(size=(place.shape[1], CHANNELS // 2)) / length_mm
    phase = place @ frequency
    return np.concatenate([np.cos(phase), np.sin(phase)], axis=1) / np.sqrt(CHANNELS / 2)


def described(coordinate_of=lambda p: p, moved=(0.0, 0.0, 0.0), **options) -> EmbeddingMap:
    """A map with descriptors of the place `p - moved`."""
    made = analytic_map(lambda p: coordinate_of(p - np.array(moved)), **options)
    return replace(made, local=waves_of(made, moved, 2, LENGTH_MM, 0).half())


def waves_of(
    made: EmbeddingMap,
    moved,
    per_cell: float = 0.5,
    length_mm: float = 60.0,
    seed: int = 1,
) -> torch.Tensor:
    """Descriptors of the places of a map's cells, less `moved`: (96, k, j, i), `per_cell` of them along an axis."""
    shape = tuple(
        -(-int(n * per_cell * 2) // 2) if per_cell >= 1 else -(-n // 2) for n in made.body.shape
    )
    k, j, i = np.indices(shape)
    cells = (np.stack([i, j, k], -1).reshape(-1, 3) + 0.5) / per_cell - 0.5
    place = cells * made.cell_mm + made.cell_to_ras[:3, 3] - np.array(moved)
    values = waves(place, length_mm, seed)
    return torch.from_numpy(values.T.reshape(CHANNELS, *shape)).float()


def inner_points(count: int = 40, rim_mm: float = 40.0) -> np.ndarray:
    made = analytic_map(lambda p: p)
    low = made.cell_to_ras[:3, 3] + rim_mm
    high = made.cell_to_ras[:3, 3] + made.cell_mm * (np.array(made.body.shape[::-1]) - 1) - rim_mm
    return np.random.default_rng(3).uniform(low, high, size=(count, 3))


def errors(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return np.linalg.norm(found - truth, axis=1)
