"""The first step of matching: finds the places in a target that have given body coordinates.

As in the paper (Goncharov 2024, section 2.2), the cell with the nearest coordinate is found first. We add two steps.
The coordinate of a point is read from an affine function fitted to the template's map around the point, which averages
out errors of the map. In the target, an affine function is fitted around the nearest cell and solved for the
place with the wanted coordinate, which gives an answer between cells.
"""

from dataclasses import dataclass

import numpy as np
import torch

from ..embedding.grid_reading import flat_index, nearest_rows
from ..embedding.map import EmbeddingMap
from ..scan.geometry import transform_points
from .local_affine import fit_around
from .target_batch import TargetRows

_MAX_MOVE_MM = 12.0  # largest move by one fit, about one cell: farther away, the affine function is an extrapolation
_FITS = 2  # moves from the nearest cell; by hand: the second one only corrects the first
_RIDGE = 0.03  # damping, relative to the mean square of the slopes; by hand, not tuned
_HALF_CELL = 0.499  # the largest distance from a cell's centre that rounds to that cell


@dataclass(frozen=True)
class CoordinateAnswers:
    """First answers for n points.

    Args:
        cells: (n, 3) float64, answers in target cells i, j, k.
        residual: (n,) distance between the body coordinates of the answer and of the point, in the unit of the map.
        size: (n,) volume in the body frame that corresponds to 1 mm^3 of the target: determinant of the map's slope.
    """

    cells: torch.Tensor
    residual: torch.Tensor
    size: torch.Tensor


def read_coordinates(
    template: EmbeddingMap, points_ras: np.ndarray
) -> tuple[torch.Tensor, torch.Tensor]:
    """Read body coordinates (n, 3), float64, at points of the template. Returns coordinates and sizes (n,).

    A coordinate comes from an affine fit or, if few body cells are near the point, from the map itself. A size is the
    volume in the body frame that corresponds to 1 mm^3 of the template at the point.
    """
    sampled = torch.from_numpy(template.sample(points_ras))
    rows = TargetRows.each([template], len(points_ras))
    fit = fit_around(rows, template.cells_at(points_ras))
    return torch.where(fit.supported[:, None], fit.value, sampled), torch.linalg.det(fit.slope)


def find_coordinates(coordinates: torch.Tensor, rows: TargetRows) -> CoordinateAnswers:
    """Find the places of n >= 1 body coordinates (n, 3). rows: target of each coordinate; all have body cells."""
    query = coordinates.double()
    cells = rows.apply(_nearest_cell, query.float()).double()
    for _ in range(_FITS):
        answers = _step(query, cells, rows)
        cells = answers.cells
    return answers


def _nearest_cell(target: EmbeddingMap, query: torch.Tensor) -> torch.Tensor:
    """Return, for each body coordinate in `query` (n, 3), the body cell i, j, k (n, 3) with the nearest body
    coordinate. Coordinates are centred first, to reduce rounding errors."""
    middle, cells, norms = target.centred_cells
    return target.body_index[nearest_rows(query - middle, cells, norms)]


def _step(query: torch.Tensor, start: torch.Tensor, rows: TargetRows) -> CoordinateAnswers:
    """Move each place `start` (n, 3), in cells, to where the body coordinate equals the same row of `query` (n, 3).

    Solves value + slope @ d = query for the move d, mm, by damped least squares: damping keeps d short where the
    coordinate hardly changes. The moved places lie in the body.
    """
    fit = fit_around(rows, start)
    transposed = fit.slope.transpose(1, 2)
    square = transposed @ fit.slope
    ridge = _RIDGE * square.diagonal(dim1=1, dim2=2).mean(1) + 1e-12
    damped = square + ridge[:, None, None] * torch.eye(3, dtype=torch.double)
    difference = query - fit.value
    move_mm = torch.linalg.solve(damped, transposed @ difference[..., None])[..., 0]
    farthest_mm = _MAX_MOVE_MM * rows.maps[0].unit_mm
    move_mm = move_mm * (farthest_mm / move_mm.norm(dim=1, keepdim=True).clamp_min(farthest_mm))
    place = rows.apply(into_body, start + move_mm / rows.cell_mm)
    moved_mm = (place - start) * rows.cell_mm
    residual = difference - (fit.slope @ moved_mm[..., None])[..., 0]
    return CoordinateAnswers(place, residual.norm(dim=1), torch.linalg.det(fit.slope))


def into_body(target: EmbeddingMap, place: torch.Tensor) -> torch.Tensor:
    """Move places (n, 3), in cells, that lie in air or outside the scan to the nearest body cell.

    This is needed for points that the scan does not show: air around the body may have the same body coordinates.
    """
    row, inside = flat_index(place.round().long(), target.body.shape)
    beyond = ~(inside & target.body.flatten()[row])
    if beyond.any():
        index = target.body_index
        cell_mm = torch.tensor(target.cell_mm)
        body = (index * cell_mm).float()
        half_squares = body.square().sum(1) / 2
        nearest = index[nearest_rows((place[beyond] * cell_mm).float(), body, half_squares)]
        place = place.clone()
        # the nearest place that still rounds to this cell
        place[beyond] = place[beyond].clamp(nearest - _HALF_CELL, nearest + _HALF_CELL)
    ijk = transform_points(target.cell_to_scan, place.numpy())
    ijk = np.clip(ijk, -0.5, np.array(target.scan_shape[::-1]) - 0.5)
    return torch.from_numpy(transform_points(target.scan_to_cell, ijk))
