"""The cells of a grid around given places: what fits, searches and contrasts gather."""

from __future__ import annotations

from itertools import product

import numpy as np
import torch

from .grid_reading import onto_grid


def reach_of(radius_mm: float, cell_mm: np.ndarray) -> np.ndarray:
    """(3,) cells along i, j, k within a radius, one at least."""
    return np.maximum(radius_mm // cell_mm, 1).astype(int)


def box_offsets(reach: np.ndarray) -> torch.Tensor:
    """(m, 3) offsets i, j, k of the cells of a box that reaches so many cells to either side, k running fastest."""
    return torch.tensor(list(product(*(range(-r, r + 1) for r in reach))))


def cells_around(
    cells: torch.Tensor, offsets: torch.Tensor, shape: torch.Size
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The cells at offsets (m, 3) from the cells nearest to (n, 3) places, on a grid of shape (k, j, i).

    Returns their indices i, j, k (n, m, 3), the same moved onto the grid, and which lie on it (n, m).
    """
    around = cells.round().long()[:, None] + offsets
    return around, *onto_grid(around, shape)
