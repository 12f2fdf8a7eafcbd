"""The cells of a grid around given places: what fits and searches gather."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import torch


def reach_of(radius_mm: float, cell_mm: np.ndarray) -> np.ndarray:
    """(3,) cells along i, j, k within a radius, one at least."""
    return np.maximum(radius_mm // cell_mm, 1).astype(int)


def box_offsets(reach: np.ndarray) -> torch.Tensor:
    """(m, 3) offsets i, j, k of the cells of a box that reaches so many cells to either side, k running fastest."""
    return _box(tuple(int(r) for r in reach))


@cache
def _box(reach: tuple[int, int, int]) -> torch.Tensor:
    return torch.tensor(list(product(*(range(-r, r + 1) for r in reach))))


def vertex(low: torch.Tensor, middle: torch.Tensor, high: torch.Tensor, free: torch.Tensor) -> torch.Tensor:
    """(n,) offset in cells, at most half of one, to the vertex of the parabola through three neighbouring values.

    0 where the middle is no peak, a neighbour is not finite, or `free` (n,) is False.
    """
    bend = low + high - 2 * middle
    usable = free & torch.isfinite(bend) & (bend < -1e-9)
    return torch.where(usable, (0.5 * (low - high) / bend).clamp(-0.5, 0.5), 0.0)
