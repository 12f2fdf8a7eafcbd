"""Values of grids between their cells: linear, the border cells' values beyond the border. Cells are i, j, k."""

from __future__ import annotations

from functools import cache
from itertools import product

import torch
import torch.nn.functional as F


def read_linear(grids: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """(b, n, c) values of grids (b, c, k, j, i) at continuous cells (b, n, 3); with gradients, for training."""
    at = (cells + 0.5) * (2 / torch.tensor(grids.shape[:1:-1], device=cells.device)) - 1
    read = F.grid_sample(grids, at[:, :, None, None], padding_mode="border", align_corners=False)
    return read[..., 0, 0].transpose(1, 2)


def read_rows(rows: torch.Tensor, shape: torch.Size, cells: torch.Tensor) -> torch.Tensor:
    """(..., c) float values of a grid at continuous cells (..., 3), from its rows (k * j * i, c), one for each cell.

    Only the rows around the cells are touched: for a few places in a large grid of half floats.
    """
    last = _last_cell(tuple(shape), cells.device)
    place = torch.minimum(cells.clamp(min=0), last)
    low = torch.minimum(place.floor().long(), (last - 1).clamp(min=0))
    part = (place - low).to(torch.float32)
    found = torch.zeros(*cells.shape[:-1], rows.shape[1], device=rows.device)
    for corner in product((0, 1), repeat=3):
        step = torch.tensor(corner, device=cells.device)
        weight = torch.where(step == 1, part, 1 - part).prod(-1)
        index, _ = flat_index(low + step, shape)
        found += rows[index] * weight[..., None]
    return found


def flat_index(cells: torch.Tensor, shape: torch.Size) -> tuple[torch.Tensor, torch.Tensor]:
    """Row of whole cells (..., 3), moved onto a grid of shape (k, j, i), and which of them lie on it."""
    on_grid, inside = onto_grid(cells, shape)
    i, j, k = on_grid.unbind(-1)
    return (k * shape[1] + j) * shape[2] + i, inside


def onto_grid(cells: torch.Tensor, shape: torch.Size) -> tuple[torch.Tensor, torch.Tensor]:
    """Whole cells (..., 3) moved onto a grid of shape (k, j, i), and which of them lay on it."""
    on_grid = torch.minimum(cells.clamp(min=0), _last_cell(tuple(shape), cells.device))
    return on_grid, (on_grid == cells).all(-1)


@cache
def _last_cell(shape: tuple[int, int, int], device: torch.device) -> torch.Tensor:
    """(3,) i, j, k; kept, as a click reads the same grids dozens of times."""
    return torch.tensor(shape[::-1], device=device) - 1


def rows_of(grid: torch.Tensor) -> torch.Tensor:
    """(k * j * i, c) a row for each cell of a grid (c, k, j, i): whole rows are gathered several times as fast."""
    return grid.movedim(0, -1).reshape(-1, grid.shape[0])


def in_rows(grid: torch.Tensor | None) -> torch.Tensor | None:
    """The same grid (c, k, j, i), the values of each cell side by side in memory, as `read_rows` reads them."""
    return None if grid is None else grid.movedim(0, -1).contiguous().movedim(-1, 0)
