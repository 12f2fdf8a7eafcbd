"""The fine step of effort "fast": compares only the point's own local descriptor with the target (Yan 2022).

This step finds the place with the most similar descriptor in a small box. The box lies around the first answer, which
was found by body coordinates. Similar places far away lie outside the box.
"""

import numpy as np
import torch

from ..embedding.grid_reading import (
    box_offsets,
    flat_index,
    peak_offsets,
    reach_of,
    to_cells,
    to_parts,
)
from ..embedding.map import EmbeddingMap
from .target_batch import TargetRows

_RADIUS_MM = 21.0  # half size of the box around the first answer
_PRIOR_MM = 12.0  # usual distance of the truth from the first answer
_PRIOR_WEIGHT = 0.3  # how much a distance of _PRIOR_MM lowers the similarity
_CHUNK_SIMILARITIES = 4_000_000  # numbers at a time; only limits memory


def refine(
    query: torch.Tensor, rows: TargetRows, cells: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Find places with similar descriptors near first answers.

    Returns the better places (n, 3), in cells, and their similarities (n,), -1..1.

    Args:
        query: (n, l) local descriptors of the template's points.
        rows: the target of each point.
        cells: (n, 3) first answers, in target cells i, j, k.
    """
    local_mm = rows.maps[0].cell_mm / 2
    reach = reach_of(_RADIUS_MM, local_mm)
    size = max(1, _CHUNK_SIMILARITIES // (int(np.prod(2 * reach + 1)) * query.shape[1]))
    first = to_parts(cells.double(), 2)  # in half cells
    parts = [
        _peak_near(
            query[batch], first[batch], reach, torch.from_numpy(local_mm), rows.select(batch)
        )
        for batch in torch.arange(len(query)).split(size)
    ]
    places, similarity = (torch.cat(values) for values in zip(*parts, strict=True))
    return to_cells(places, 2), similarity


def _peak_near(
    query: torch.Tensor,
    first: torch.Tensor,
    reach: np.ndarray,
    local_mm: torch.Tensor,
    rows: TargetRows,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the place near each first answer whose descriptor is most similar; places far from it need more similarity.

    Args:
        query: (n, l) descriptors of the points.
        first: (n, 3) first answers, in half cells of the target.
        reach: (3,) half size of the box that is searched, in half cells.
        local_mm: (3,) size of a half cell.
        rows: the target of each point.

    Returns:
        The places (n, 3) in half cells, and the similarities (n,). Without a body cell in the box, the first answer
        and 0.
    """
    around = first.round().long()[:, None] + box_offsets(reach)
    similarity = rows.apply(_similarity, around, query)
    distance = ((around - first[:, None]) * local_mm).square().sum(-1).float() / _PRIOR_MM**2
    score = similarity - _PRIOR_WEIGHT * distance
    best = score.argmax(1)
    row = torch.arange(len(query))
    places = around[row, best] + peak_offsets(score, best, (2 * reach + 1).tolist())
    similarity = similarity[row, best]
    lost = torch.isinf(similarity)
    places = torch.where(lost[:, None], first, places.double())
    return places, similarity.masked_fill(lost, 0.0)


def _similarity(target: EmbeddingMap, around: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Return the similarities (n, m) of n descriptors to those of m half cells of each; -inf outside the body.

    Args:
        target: map of the half cells.
        around: (n, m, 3) i, j, k of the half cells.
        query: (n, l) descriptors.
    """
    index, inside = flat_index(around, target.local_body.shape)
    similarity = (target.local_rows[index].float() @ query[..., None])[..., 0]
    in_body = inside & target.local_body.flatten()[index]
    return similarity.masked_fill(~in_body, -torch.inf)
