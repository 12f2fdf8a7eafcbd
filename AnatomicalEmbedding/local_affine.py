"""The coordinate map about a place, as an affine function fitted to the body cells around it.

Cells are large and each carries the network's own error; an affine function over a neighbourhood averages that error
and gives the map a value and a slope between cells, and a little way beyond the skin.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .embedding import EmbeddingMap
from .neighbourhood import box_offsets, cells_around, reach_of

_RADIUS_MM = 24.0  # cells around a place that take part in the fit
_SIGMA_MM = 14.0
_ENOUGH = 4.0  # sum of weights that pins down the four unknowns of a row
_CHUNK_NEIGHBOURS = 1_000_000


@dataclass(frozen=True)
class LocalAffine:
    """coordinate(place + d mm) = level + slope @ d near each of n places.

    level: (n, 3). slope: (n, 3, 3), coordinate per mm along R, A, S. supported: (n,) bool, false where too few body
    cells lie around a place for the fit to mean anything.
    """

    level: torch.Tensor
    slope: torch.Tensor
    supported: torch.Tensor


def fit_around(embedding: EmbeddingMap, cells: torch.Tensor) -> LocalAffine:
    """Weighted least squares over the body cells around each of (n, 3) continuous cells (i, j, k), float64."""
    cell_mm = torch.from_numpy(embedding.cell_mm.copy())
    offsets = box_offsets(reach_of(_RADIUS_MM, embedding.cell_mm))
    rows = max(1, _CHUNK_NEIGHBOURS // len(offsets))
    parts = [_fit(embedding, part, offsets, cell_mm) for part in cells.double().split(rows)]
    return LocalAffine(*(torch.cat(values) for values in zip(*parts, strict=True)))


def _fit(
    embedding: EmbeddingMap, cells: torch.Tensor, offsets: torch.Tensor, cell_mm: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    around, on_grid, inside = cells_around(cells, offsets, embedding.body.shape)
    i, j, k = on_grid.unbind(-1)
    distance_mm = (around - cells[:, None]) * cell_mm
    weight = torch.exp(-distance_mm.square().sum(-1) / (2 * _SIGMA_MM**2)) * (inside & embedding.body[k, j, i])
    values = embedding.coordinate[:, k, j, i].permute(1, 2, 0).double()
    design = torch.cat([distance_mm, torch.ones_like(distance_mm[..., :1])], dim=-1)
    weighted = (design * weight[..., None]).transpose(1, 2)
    normal = weighted @ design + 1e-6 * torch.eye(4, dtype=torch.double)
    solution = torch.linalg.solve(normal, weighted @ values)  # (n, 4, 3)
    return solution[:, 3], solution[:, :3].transpose(1, 2), weight.sum(1) > _ENOUGH
