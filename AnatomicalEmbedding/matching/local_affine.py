"""The coordinate map about a place, as an affine function fitted to the body cells around it.

Cells are large and each carries the network's own error; an affine function over a neighbourhood averages that error
and gives the map a value and a slope between cells, and a little way beyond the skin.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..embedding.grid_reading import flat_index
from ..embedding.map import EmbeddingMap
from .neighbourhood import box_offsets, reach_of
from .target_rows import TargetRows

_RADIUS_MM = 24.0  # cells around a place that take part in the fit
_SIGMA_MM = 14.0
_ENOUGH = 4.0  # sum of weights that pins down the four unknowns of a row


@dataclass(frozen=True)
class LocalAffine:
    """coordinate(place + d mm) = level + slope @ d near each of n places.

    level: (n, 3). slope: (n, 3, 3), coordinate per mm along R, A, S. supported: (n,) bool, false where too few body
    cells lie around a place for the fit to mean anything.
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
    """(n, m, 4) coordinate of whole cells (n, m, 3), and 1 where they are body; nothing beside the grid."""
    index, inside = flat_index(cells, embedding.body.shape)
    return embedding.coordinate_rows[index] * inside[..., None]
