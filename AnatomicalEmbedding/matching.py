"""The same anatomical points in another scan: nearest coordinate over body cells, then a sub-cell answer.

Retrieval is the paper's (Goncharov 2024, section 2.2): the cell whose embedding is nearest in Euclidean distance.
The sub-cell step is ours: around that cell the coordinate map is fitted by an affine function, which is solved for
the query's coordinate; it averages the map's noise and frees the answer from the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import torch

from .embedding import EmbeddingMap
from .errors import MapError

_RADIUS_MM = 24.0  # cells around the nearest one that take part in the fit
_SIGMA_MM = 14.0
_MAX_MOVE_MM = 12.0  # of one fit; further than about a cell the affine function is an extrapolation
_FITS = 2
_RIDGE = 0.03
_SCORE_MM = 10.0
_CHUNK_DISTANCES = 30_000_000


@dataclass(frozen=True, eq=False)
class Matches:
    """Answers for N points in one target scan.

    points_ras: (N, 3) RAS mm. score: (N,) in 0..1, how well the target's coordinates hold the template's (1: exactly).
    status, expected_error_mm, probability: (N,) each, or None where the weights carry no calibration.
    """

    points_ras: np.ndarray
    score: np.ndarray
    status: tuple[str, ...] | None = None
    expected_error_mm: np.ndarray | None = None
    probability: np.ndarray | None = None


def match_points(template: EmbeddingMap, points_ras: np.ndarray, target: EmbeddingMap) -> Matches:
    """Find points of one scan in another, all in one call.

    points_ras: (N, 3) RAS mm in the template; continuous, never snapped to a voxel.
    Raises PointsError for a point outside the template, MapError when the maps are of different weights or the target
    holds no body.
    """
    if template.provenance.weights_hash != target.provenance.weights_hash:
        raise MapError(
            f"maps of {template.provenance.scan!r} and {target.provenance.scan!r} were made by different weights "
            f"({template.provenance.model}, {target.provenance.model}); embed both with the same model."
        )
    return find_coordinates(template.sample(points_ras), target)


def find_coordinates(coordinates: np.ndarray, target: EmbeddingMap) -> Matches:
    """Where a scan holds given coordinates (N, 3), in the unit of its map."""
    index, cell_coordinates = target.body_cells
    if not len(index):
        raise MapError(f"{target.provenance.scan or 'target'}: holds no body, so nothing can be found in it.")
    if not len(coordinates):
        return Matches(np.zeros((0, 3)), np.zeros(0))
    query = torch.from_numpy(np.asarray(coordinates, dtype=np.float32))
    cells = index[_nearest(query, cell_coordinates)].double()
    residual = torch.empty(len(query))
    for _ in range(_FITS):
        cells, residual = _fit(query, cells, target)
    points = cells.numpy() @ target.cell_to_ras[:3, :3].T + target.cell_to_ras[:3, 3]
    scale = _SCORE_MM if target.provenance.metric else float(cell_coordinates.std()) * 0.1
    return Matches(points, torch.exp(-residual / scale).double().numpy())


def _nearest(query: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """Index of the nearest row of `cells` for each row of `query`, in chunks of bounded memory.

    |q - c|^2 = |q|^2 - 2 q.c + |c|^2: one matrix product, its rounding harmless once both are centred.
    """
    middle = cells.mean(0)
    cells, query = cells - middle, query - middle
    norms = cells.square().sum(1) / 2
    rows = max(1, _CHUNK_DISTANCES // len(cells))
    return torch.cat([torch.addmm(norms, part, cells.T, alpha=-1).argmin(1) for part in query.split(rows)])


def _fit(query: torch.Tensor, start: torch.Tensor, target: EmbeddingMap) -> tuple[torch.Tensor, torch.Tensor]:
    """One sub-cell step for each query (n, 3) from cells (n, 3): the new place in cells, and what is left in coordinate.

    Weighted least squares for coordinate = slope @ offset + level over the body cells around the start, then the offset
    with slope @ offset + level = query, ridge-damped where the map hardly varies, kept within a cell and inside the scan.
    """
    cell_mm = torch.from_numpy(target.cell_mm.copy())
    shape = torch.tensor(target.body.shape[::-1])
    reach = (_RADIUS_MM / cell_mm).floor().long().clamp(min=1)
    offsets = torch.tensor(list(product(*(range(-int(r), int(r) + 1) for r in reach))))
    centre = start.round().long()
    around = centre[:, None] + offsets[None]
    inside = ((around >= 0) & (around < shape)).all(-1)
    i, j, k = torch.minimum(around.clamp(min=0), shape - 1).unbind(-1)
    offset_mm = offsets * cell_mm
    weight = torch.exp(-offset_mm.square().sum(1) / (2 * _SIGMA_MM**2)) * (inside & target.body[k, j, i])
    values = target.coordinate[:, k, j, i].permute(1, 2, 0).double()
    design = torch.cat([offset_mm, torch.ones(len(offsets), 1, dtype=torch.double)], dim=1)
    weighted = design[None] * weight[..., None]
    normal = weighted.transpose(1, 2) @ design + 1e-6 * torch.eye(4, dtype=torch.double)
    solution = torch.linalg.solve(normal, weighted.transpose(1, 2) @ values)  # (n, 4, 3)
    slope, level = solution[:, :3].transpose(1, 2), solution[:, 3]
    square = slope.transpose(1, 2) @ slope
    ridge = _RIDGE * square.diagonal(dim1=1, dim2=2).mean(1) + 1e-12
    damped = square + ridge[:, None, None] * torch.eye(3, dtype=torch.double)
    difference = query.double() - level
    move = torch.linalg.solve(damped, (slope.transpose(1, 2) @ difference[..., None]))[..., 0]
    move = move * (_MAX_MOVE_MM / move.norm(dim=1, keepdim=True).clamp_min(_MAX_MOVE_MM))
    place = torch.minimum((centre + move / cell_mm).clamp(min=-0.5), shape - 0.5)
    left = difference - (slope @ move[..., None])[..., 0]
    return place, left.norm(dim=1).float()
