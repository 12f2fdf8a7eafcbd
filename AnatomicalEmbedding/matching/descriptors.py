"""The quick fine step: finds the place most similar to a point, near a first answer or in a scan (Yan 2022, III-D).

Coordinates limit the search of the local descriptor to a small box, which excludes similar places far away. For weights
without coordinates, the peak of the summed similarity S_global + S_local over the whole body is the answer, as in the
paper.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.grid_reading import box_offsets, flat_index, reach_of, vertex
from ..embedding.map import EmbeddingMap
from .target_batch import TargetRows

_RADIUS_MM = 21.0  # of the box about the first answer
_PRIOR_MM = 12.0  # how far the truth is usually from the first answer
_PRIOR_WEIGHT = 0.3  # similarity that one such distance costs
_CHUNK_SIMILARITIES = 4_000_000


def refine(query: torch.Tensor, rows: TargetRows, cells: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Find better places near first answers.

    query: (n, l) local descriptors of the template's points. cells: (n, 3) continuous target cells (i, j, k).
    Returns the places in cells (n, 3) and their similarity (n,), -1..1.
    """
    local_mm = torch.from_numpy(rows.maps[0].cell_mm.copy()) / 2
    reach = reach_of(_RADIUS_MM, local_mm.numpy())
    offsets = box_offsets(reach)
    size = max(1, _CHUNK_SIMILARITIES // (len(offsets) * query.shape[1]))
    first = (cells.double() + 0.5) * 2 - 0.5  # in local cells
    parts = [
        _peak_near(q, f, offsets, reach, local_mm, part)
        for q, f, part in zip(query.split(size), first.split(size), rows.split(size), strict=True)
    ]
    places, similarity = (torch.cat(values) for values in zip(*parts, strict=True))
    return (places + 0.5) / 2 - 0.5, similarity


def search(
    local: torch.Tensor, global_: torch.Tensor | None, target: EmbeddingMap
) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the peak of S_global + S_local over all body cells, for descriptors (n, l) and (n, g).

    Returns the places in cells (n, 3), i, j, k, and their mean similarity (n,), -1..1.
    """
    grid, body = target.local.float().flatten(1), target.local_body
    shape = body.shape
    rows = max(1, _CHUNK_SIMILARITIES // body.numel())
    places, similarities = [], []
    for number, query in enumerate(local.split(rows)):
        similarity = (query @ grid).view(-1, *shape)
        if global_ is not None:
            coarse = torch.einsum("ng,gkji->nkji", global_.split(rows)[number], target.global_.float())
            up = F.interpolate(coarse[:, None], scale_factor=4, mode="trilinear")[:, 0]
            similarity = (similarity + up[:, : shape[0], : shape[1], : shape[2]]) / 2
        best = similarity.masked_fill(~body, -2.0).flatten(1).max(1)
        k, j, i = np.unravel_index(best.indices.numpy(), shape)
        index = torch.from_numpy(np.stack([i, j, k], axis=1))
        places.append(index + _parabola(partial(_at, similarity), index, torch.tensor(shape).flip(0)))
        similarities.append(best.values)
    return (torch.cat(places).double() + 0.5) / 2 - 0.5, torch.cat(similarities)


def _peak_near(
    query: torch.Tensor,
    first: torch.Tensor,
    offsets: torch.Tensor,
    reach: np.ndarray,
    local_mm: torch.Tensor,
    rows: TargetRows,
) -> tuple[torch.Tensor, torch.Tensor]:
    around = first.round().long()[:, None] + offsets
    similarity, inside = rows.read(_similarity, around, query)
    distance = ((around - first[:, None]) * local_mm).square().sum(-1).float() / _PRIOR_MM**2
    score = (similarity - _PRIOR_WEIGHT * distance).masked_fill(~inside, -torch.inf)
    best = score.argmax(1)
    row = torch.arange(len(query))
    box = score.view(len(query), *(2 * int(r) + 1 for r in reach))
    peak = offsets[best] + torch.from_numpy(reach)
    step = _parabola(lambda at: _at(box.permute(0, 3, 2, 1), at), peak, torch.tensor(box.shape[1:]))
    found = around[row, best] + step
    lost = ~inside.any(1)  # no body in the box: the first answer stays
    return torch.where(lost[:, None], first, found.double()), similarity[row, best].masked_fill(lost, 0.0)


def _similarity(target: EmbeddingMap, around: torch.Tensor, query: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of local cells (n, m, 3) with descriptors (n, l): (n, m), and which of the cells may be an answer."""
    index, inside = flat_index(around, target.local_body.shape)
    similarity = (target.local_rows[index].float() @ query[..., None])[..., 0]
    return similarity, inside & target.local_body.flatten()[index]


def _at(values: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """(n,) value of row n of values (n, k, j, i) at index (n, 3), i, j, k."""
    i, j, k = at.unbind(-1)
    return values[torch.arange(len(at)), k, j, i]


def _parabola(value: Callable[[torch.Tensor], torch.Tensor], peak: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    """Offset (n, 3) to the vertex of the parabola through a peak and its neighbours on each axis, at most half a cell.

    value(index (n, 3)) -> (n,). At a border, or next to a cell that is no answer, the peak stays on its cell.
    """
    offset = torch.zeros(len(peak), 3)
    for axis in range(3):
        unit = torch.zeros(3, dtype=torch.long)
        unit[axis] = 1
        free = (peak[:, axis] > 0) & (peak[:, axis] < shape[axis] - 1)
        low = value(torch.where(free[:, None], peak - unit, peak))
        high = value(torch.where(free[:, None], peak + unit, peak))
        offset[:, axis] = vertex(low, value(peak), high, free)
    return offset
