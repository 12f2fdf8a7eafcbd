"""Functions on grids: linear interpolation, smoothing, boxes of cells, and peaks between cells.

Cells are given as i, j, k. Beyond the border of a grid, interpolation returns the value of the nearest border cell.
"""

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F

_CHUNK_DISTANCES = 30_000_000  # distances in memory at a time: 120 MB


def read_linear(grids: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """Interpolate grids (b, c, k, j, i) linearly. cells: (b, n, 3) fractional i, j, k. Returns values (b, n, c)."""
    positions = sample_positions(cells, grids.shape)[:, :, None, None]
    values = F.grid_sample(grids, positions, padding_mode="border", align_corners=False)
    return values[..., 0, 0].transpose(1, 2)


def sample_positions(cells: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Convert cells to positions for `F.grid_sample` with `align_corners=False`: -1 and 1 at the grid's outer edges.

    cells: (..., 3) fractional i, j, k. shape: of the grid (b, c, k, j, i). Planes have i, k and (b, c, k, i).
    """
    return (cells + 0.5) * (2 / torch.tensor(shape[:1:-1], device=cells.device)) - 1


def smoothed(grids: torch.Tensor, sigma_cells: Sequence[float]) -> torch.Tensor:
    """Smooth grids (c, k, j, i) by a Gaussian, with zeros beyond the border. sigma_cells: (3,) along i, j, k."""
    grids = grids[:, None]
    for axis, sigma in zip((2, 3, 4), reversed(sigma_cells), strict=True):
        reach = int(np.ceil(2.5 * sigma))
        kernel = torch.exp(-torch.arange(-reach, reach + 1.0).square() / (2 * sigma**2))
        kernel = kernel / kernel.sum()
        shape = [1] * 5
        shape[axis] = len(kernel)
        grids = F.conv3d(grids, kernel.reshape(shape), padding="same")
    return grids[:, 0]


def read_rows(rows: torch.Tensor, shape: torch.Size, cells: torch.Tensor) -> torch.Tensor:
    """Interpolate the values of a grid at positions. Reads only the 8 rows around each position. Returns (..., c).

    Args:
        rows: (k * j * i, c), c values of each cell.
        shape: k, j, i.
        cells: (..., 3) fractional i, j, k.
    """
    last = torch.tensor(shape[::-1], device=cells.device) - 1  # i, j, k of the last cell
    place = torch.minimum(cells.clamp(min=0), last)
    lowest = torch.minimum(place.floor().long(), (last - 1).clamp(min=0))
    fraction = (place - lowest).to(torch.float32)
    values = torch.zeros(*cells.shape[:-1], rows.shape[1], device=rows.device)
    for step in product((0, 1), repeat=3):  # from the lowest of the 8 cells around a place to each
        corner = torch.tensor(step, device=cells.device)
        weight = torch.where(corner == 1, fraction, 1 - fraction).prod(-1)
        index, _ = flat_index(lowest + corner, shape)
        values += rows[index] * weight[..., None]
    return values


def flat_index(cells: torch.Tensor, shape: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the row number (...) of each integer cell (..., 3), and whether the cell is inside a grid of size `shape`.

    A cell outside the grid gets the row of the nearest border cell.
    """
    last = torch.tensor(shape[::-1], device=cells.device) - 1
    on_grid = torch.minimum(cells.clamp(min=0), last)
    i, j, k = on_grid.unbind(-1)
    return (k * shape[1] + j) * shape[2] + i, (on_grid == cells).all(-1)


def rows_of(grid: torch.Tensor) -> torch.Tensor:
    """Return a grid (c, k, j, i) as rows (k * j * i, c), one row per cell. Cells are read much faster from rows."""
    return grid.movedim(0, -1).reshape(-1, grid.shape[0])


def in_rows(grid: torch.Tensor) -> torch.Tensor:
    """Store the c values of each cell of a grid (c, k, j, i) adjacent in memory. This makes `rows_of` fast."""
    return grid.movedim(0, -1).contiguous().movedim(-1, 0)


def to_parts(cells: torch.Tensor, parts: int) -> torch.Tensor:
    """Convert places in cells to places in the parts of cells. parts: number of parts of a cell along each axis."""
    return (cells + 0.5) * parts - 0.5


def to_cells(places: torch.Tensor, parts: int) -> torch.Tensor:
    """Convert places in the parts of cells to places in cells; see `to_parts`."""
    return (places + 0.5) / parts - 0.5


def nearest_rows(
    query: torch.Tensor, rows: torch.Tensor, half_squares: torch.Tensor
) -> torch.Tensor:
    """Return the index (n,) of the nearest row for each row of a query.

    Args:
        query: (n, c).
        rows: (m, c).
        half_squares: (m,) half of the squared length of each of `rows`.
    """
    chunk = max(1, _CHUNK_DISTANCES // len(rows))
    return torch.cat(
        [torch.addmm(half_squares, part, rows.T, alpha=-1).argmin(1) for part in query.split(chunk)]
    )


def reach_of(radius_mm: float, cell_mm: np.ndarray) -> np.ndarray:
    """Return (3,): how many whole cells fit into a radius along i, j and k, but at least 1."""
    return np.maximum(radius_mm // cell_mm, 1).astype(int)


def box_offsets(reach: Iterable[int]) -> torch.Tensor:
    """Return the offsets (m, 3), whole cells, up to `reach` (3,) away along each axis; the last one varies fastest."""
    return torch.cartesian_prod(*(torch.arange(-int(r), int(r) + 1) for r in reach))


def peak_offsets(scores: torch.Tensor, best: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Locate peaks between cells: fit a parabola through each peak cell and its two neighbours along each axis.

    Returns the offsets (n, 3), at most half a cell, from the peak cells to the vertices of the parabolas. An offset is
    0 along an axis where the cell is no maximum, lies at the border, or has a neighbour that is not finite.

    Args:
        scores: (n, cells) scores in n boxes of shape `shape`, whose last axis is the fastest.
        best: (n,) index of each peak cell in its box.
    """
    row = torch.arange(len(best))
    offsets = []
    stride = int(np.prod(shape))  # from a cell to its neighbour along the axis, in indices
    middle = scores[row, best]
    for size in shape:
        stride //= size
        position = best // stride % size
        has_neighbours = (position > 0) & (position < size - 1)
        step = has_neighbours * stride
        low = scores[row, best - step]
        high = scores[row, best + step]
        bend = low + high - 2 * middle
        vertex = (0.5 * (low - high) / bend).clamp(-0.5, 0.5)
        is_peak = has_neighbours & torch.isfinite(bend) & (bend < -1e-9)
        offsets.append(torch.where(is_peak, vertex, 0.0))
    return torch.stack(offsets, dim=1)
