"""The first step: where scans hold given coordinates of the common body.

Retrieval is the paper's (Goncharov 2024, section 2.2): the cell whose embedding is nearest in Euclidean distance. Two
steps are ours. The query is read from an affine fit of the template's map about the point, which averages the map's
error. Then the target's map is fitted likewise about the nearest cell and solved for the query's coordinate, which
frees the answer from the grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..embedding.grid_reading import flat_index
from ..embedding.map import EmbeddingMap
from ..scan.geometry import transform_points
from .local_affine import fit_around
from .target_rows import TargetRows

_MAX_MOVE_MM = 12.0  # of one fit; further than about a cell the affine function is an extrapolation
_FITS = 2
_RIDGE = 0.03
_CHUNK_DISTANCES = 30_000_000
_HALF_CELL = 0.499  # as far from a cell's centre as still rounds to that cell


@dataclass(frozen=True)
class CoordinateAnswers:
    """cells: (n, 3) places in target cells (i, j, k), float64. residual: (n,) what is left of the query there, in the
    unit of the map. size: (n,) coordinate volume that a volume of the target holds (determinant of the map's slope).
    """

    cells: torch.Tensor
    residual: torch.Tensor
    size: torch.Tensor


def read_coordinates(template: EmbeddingMap, points_ras: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Coordinates (n, 3) of template points, float64: smoothed where the body around a point allows, else as sampled.

    Also returns the determinant (n,) of the map's slope there.
    """
    sampled = torch.from_numpy(template.sample(points_ras))
    cells = torch.from_numpy(transform_points(template.ras_to_cell, points_ras))
    fit = fit_around(TargetRows((template,), (len(cells),)), cells)
    return torch.where(fit.supported[:, None], fit.level, sampled), torch.linalg.det(fit.slope)


def find_coordinates(coordinates: torch.Tensor, rows: TargetRows) -> CoordinateAnswers:
    """Where scans hold given coordinates (n, 3), in the unit of their maps; each map holds body, n is 1 or more."""
    query = coordinates.double()
    cells = rows.read(_nearest_cell, query.float()).double()
    residual = size = torch.empty(0)
    for _ in range(_FITS):
        cells, residual, size = _step(query, cells, rows)
    return CoordinateAnswers(cells, residual, size)


def _nearest_cell(target: EmbeddingMap, query: torch.Tensor) -> torch.Tensor:
    """(n, 3) the body cell with the nearest coordinate.

    |q - c|^2 = |q|^2 - 2 q.c + |c|^2: one matrix product, its rounding harmless once both are centred.
    """
    middle, cells, norms = target.centred_cells
    return target.body_index[_nearest(query - middle, cells, norms)]


def _nearest(query: torch.Tensor, cells: torch.Tensor, half_squares: torch.Tensor) -> torch.Tensor:
    """Index of the nearest row of `cells` for each row of `query`, in chunks of bounded memory."""
    rows = max(1, _CHUNK_DISTANCES // len(cells))
    return torch.cat([torch.addmm(half_squares, part, cells.T, alpha=-1).argmin(1) for part in query.split(rows)])


def _step(
    query: torch.Tensor, start: torch.Tensor, rows: TargetRows
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One sub-cell step for each query (n, 3) from cells (n, 3): the new place in cells, and what is left of the query.

    The offset d with slope @ d + level = query, ridge-damped where the map hardly varies, kept short and in the body.
    """
    cell_mm = torch.from_numpy(rows.maps[0].cell_mm.copy())
    fit = fit_around(rows, start)
    square = fit.slope.transpose(1, 2) @ fit.slope
    ridge = _RIDGE * square.diagonal(dim1=1, dim2=2).mean(1) + 1e-12
    damped = square + ridge[:, None, None] * torch.eye(3, dtype=torch.double)
    difference = query - fit.level
    move = torch.linalg.solve(damped, (fit.slope.transpose(1, 2) @ difference[..., None]))[..., 0]
    move = move * (_MAX_MOVE_MM / move.norm(dim=1, keepdim=True).clamp_min(_MAX_MOVE_MM))
    place = rows.read(into_body, start + move / cell_mm)
    left = difference - (fit.slope @ ((place - start) * cell_mm)[..., None])[..., 0]
    return place, left.norm(dim=1), torch.linalg.det(fit.slope)


def into_body(target: EmbeddingMap, place: torch.Tensor) -> torch.Tensor:
    """Places (n, 3) in cells, those in the air or outside the scan brought back into the nearest body cell.

    The coordinate of what a scan does not hold continues into the air beside the body; air is never an answer.
    """
    row, inside = flat_index(place.round().long(), target.body.shape)
    beyond = ~(inside & target.body.flatten()[row])
    if beyond.any():
        index = target.body_index
        cell_mm = torch.from_numpy(target.cell_mm.copy())
        body = (index * cell_mm).float()
        nearest = index[_nearest((place[beyond] * cell_mm).float(), body, body.square().sum(1) / 2)]
        place = place.clone()
        place[beyond] = torch.minimum(torch.maximum(place[beyond], nearest - _HALF_CELL), nearest + _HALF_CELL)
    ijk = transform_points(target.cell_to_scan, place.numpy())
    ijk = np.clip(ijk, -0.5, np.array(target.scan_shape[::-1]) - 0.5)
    return torch.from_numpy(transform_points(target.scan_to_cell, ijk))
