"""The first step: finds the places of body coordinates in scans, by affine fits of the coordinate around a place.

Retrieval is the paper's (Goncharov 2024, section 2.2): the cell whose embedding is nearest in Euclidean distance. Two
steps are ours. The query is read from an affine fit of the template's map around the point, which averages the map's
error. Then the target's map is fitted likewise around the nearest cell and solved for the query's coordinate, for an
answer between cells.
"""

from dataclasses import dataclass

import numpy as np
import torch

from ..embedding.grid_reading import box_offsets, flat_index, reach_of
from ..embedding.map import EmbeddingMap
from ..scan.geometry import transform_points
from .target_batch import TargetRows

_RADIUS_MM = 24.0  # cells around a place that take part in the fit
_SIGMA_MM = 14.0
_ENOUGH = 4.0  # sum of weights that pins down the four unknowns of a row


@dataclass(frozen=True)
class LocalAffine:
    """coordinate(place + d mm) = level + slope @ d near each of n places.

    level: (n, 3). slope: (n, 3, 3), coordinate per mm along R, A, S. supported: (n,) bool, false where too few body
    cells lie around a place.
    """

    level: torch.Tensor
    slope: torch.Tensor
    supported: torch.Tensor


def fit_around(rows: TargetRows, cells: torch.Tensor) -> LocalAffine:
    """Weighted least squares over the body cells around each of (n, 3) continuous cells (i, j, k), float64."""
    cell_mm = torch.from_numpy(rows.maps[0].cell_mm.copy())
    cells = cells.double()
    around = cells.round().long()[:, None] + box_offsets(reach_of(_RADIUS_MM, rows.maps[0].cell_mm))
    found = rows.read(_coordinates_and_body, around).double()
    distance_mm = (around - cells[:, None]) * cell_mm
    weight = torch.exp(-distance_mm.square().sum(-1) / (2 * _SIGMA_MM**2)) * found[..., 3]
    design = torch.cat([distance_mm, torch.ones_like(distance_mm[..., :1])], dim=-1)
    weighted = (design * weight[..., None]).transpose(1, 2)
    normal = weighted @ design + 1e-6 * torch.eye(4, dtype=torch.double)
    solution = torch.linalg.solve(normal, weighted @ found[..., :3])  # (n, 4, 3)
    return LocalAffine(solution[:, 3], solution[:, :3].transpose(1, 2), weight.sum(1) > _ENOUGH)


def _coordinates_and_body(embedding: EmbeddingMap, cells: torch.Tensor) -> torch.Tensor:
    """(n, m, 4) coordinate of whole cells (n, m, 3), and 1 where they are body; zero outside the grid."""
    index, inside = flat_index(cells, embedding.body.shape)
    return embedding.coordinate_rows[index] * inside[..., None]


_MAX_MOVE_MM = 12.0  # of one fit; further than about a cell the affine function is an extrapolation
_FITS = 2
_RIDGE = 0.03
_CHUNK_DISTANCES = 30_000_000
_HALF_CELL = 0.499  # the largest distance from a cell's centre that rounds to that cell


@dataclass(frozen=True)
class CoordinateAnswers:
    """First answers for n points.

    Args:
        cells: (n, 3) float64, places in target cells i, j, k.
        residual: (n,) distance of the coordinate at the place from the query, in the unit of the map.
        size: (n,) volume of the body frame in a unit volume of the target: determinant of the map's slope.
    """

    cells: torch.Tensor
    residual: torch.Tensor
    size: torch.Tensor


def read_coordinates(template: EmbeddingMap, points_ras: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Read coordinates (n, 3), float64, of template points: smoothed, or as sampled where few body cells are near.

    Also returns the determinants (n,) of the map's slope at the points.
    """
    sampled = torch.from_numpy(template.sample(points_ras))
    cells = torch.from_numpy(transform_points(template.ras_to_cell, points_ras))
    fit = fit_around(TargetRows((template,), (len(cells),)), cells)
    return torch.where(fit.supported[:, None], fit.level, sampled), torch.linalg.det(fit.slope)


def find_coordinates(coordinates: torch.Tensor, rows: TargetRows) -> CoordinateAnswers:
    """Find the places of coordinates (n, 3), in the unit of the maps. Each map holds body; n is at least 1."""
    query = coordinates.double()
    cells = rows.read(_nearest_cell, query.float()).double()
    residual = size = torch.empty(0)
    for _ in range(_FITS):
        cells, residual, size = _step(query, cells, rows)
    return CoordinateAnswers(cells, residual, size)


def _nearest_cell(target: EmbeddingMap, query: torch.Tensor) -> torch.Tensor:
    """Find the body cells (n, 3) with the nearest coordinates.

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
    """Move cells (n, 3) towards queries (n, 3). Returns places, remaining distances and determinants of the slope.

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
    """Move places (n, 3), in cells, that lie in the air or outside the scan into the nearest body cell.

    Coordinates outside the scan's part of the body continue into the air around it; air is never an answer.
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
