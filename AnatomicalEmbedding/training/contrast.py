"""Contrast between descriptors (Yan 2022, equation 1) with negatives from the neighbourhood."""

import torch
import torch.nn.functional as F

from ..embedding.grid_reading import flat_index, read_linear, rows_of
from ..embedding.models.network import Features
from .recipes import LossSpec
from .views import ViewBatch

_NEAR_CELLS, _FAR_CELLS = (3, 3, 3), (10, 10, 8)  # local cells (i, j, k) within which half of our negatives lie each


def info_nce(anchor: torch.Tensor, positive: torch.Tensor, negatives: torch.Tensor, temperature: float) -> torch.Tensor:
    """Equation 1 of Yan 2022: -mean_i log( e^(f_i.f_i' / t) / (e^(f_i.f_i' / t) + sum_j e^(f_i.h_ij / t)) ).

    anchor, positive: (p, d) unit vectors. negatives: (p, n) similarities f_i.h_ij; -inf: not a negative.
    """
    own = (anchor * positive).sum(1, keepdim=True)
    return -F.log_softmax(torch.cat([own, negatives], dim=1) / temperature, dim=1)[:, 0].mean()


def near_loss(found: Features, batch: ViewBatch, spec: LossSpec, generator: torch.Generator) -> torch.Tensor:
    """Contrast with negatives within decimetres of the anchor, the range in which the coordinate is uncertain.

    Local descriptors only: the coordinate replaces the global one. Half of the negatives in either view.
    """
    pairs = len(batch.first_cells)
    views = found.local.unbind()  # once: the gradient of each single index is as large as all views together
    losses = []
    for pair in range(pairs):
        maps = views[pair], views[pairs + pair]
        positions = batch.position_mm[pair], batch.position_mm[pairs + pair]
        cells = batch.first_cells[pair], batch.second_cells[pair]
        anchor, positive = (read_cells(m, c) for m, c in zip(maps, cells, strict=True))
        place = read_cells(positions[0], cells[0], unit=False)
        for query, other in ((anchor, positive), (positive, anchor)):
            negatives = [
                _similar_nearby(query, place, c, m, p, spec, generator)
                for m, p, c in zip(maps, positions, cells, strict=True)
            ]
            losses.append(info_nce(query, other, torch.cat(negatives, dim=1), spec.temperature))
    return torch.stack(losses).mean()


def _similar_nearby(
    query: torch.Tensor,
    place: torch.Tensor,
    cells: torch.Tensor,
    map_: torch.Tensor,
    position: torch.Tensor,
    spec: LossSpec,
    generator: torch.Generator,
) -> torch.Tensor:
    """(p, n) similarity of queries (p, d) to random cells about theirs; -inf outside the view or within exclude_mm."""
    count = spec.negatives // 4
    reach = torch.tensor([_NEAR_CELLS] * count + [_FAR_CELLS] * count)
    drawn = torch.rand(len(reach), 3, generator=generator)
    offsets = ((drawn * 2 - 1) * (reach + 0.5)).round().long().to(cells.device)
    row, valid = flat_index(cells.round().long()[:, None] + offsets, map_.shape[1:])
    apart = (rows_of(position)[row] - place[:, None]).norm(dim=-1)
    similarity = (query[:, None] * rows_of(map_)[row]).sum(-1)
    return similarity.masked_fill(~valid | (apart < spec.exclude_mm), -torch.inf)


def read_cells(grid: torch.Tensor, cells: torch.Tensor, unit: bool = True) -> torch.Tensor:
    """Value (p, d) of a grid (d, k, j, i) at continuous cells (p, 3), i, j, k; of unit length if `unit`."""
    read = read_linear(grid[None], cells[None])[0]
    return F.normalize(read, dim=1) if unit else read
