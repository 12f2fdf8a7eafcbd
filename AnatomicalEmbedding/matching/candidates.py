"""What thorough matching adds: a candidate far from the first answer, and matching each answer back.

An organ may lie far from its usual place: a sunken kidney is outside the range of the fine step. So the place elsewhere
that looks most like the point is matched as well, and taken where it is clearly more similar. And matching is not
symmetric: the answer, matched back, ends next to the point; moving the answer against half of that distance improves it
(Bai 2023 iterates the same to a fixed point).
"""

from dataclasses import fields

import numpy as np
import torch

from ..embedding.map import EmbeddingMap
from .blocks import BlockAnswers, Blocks, match_blocks
from .coordinates import into_body
from .target_batch import TargetRows

_FAR_MM = 100.0  # of the common body: the range of the search
_NEAR_MM = 25.0  # of the first answer: the range of the fine step
_DISTANCE_MM = 40.0
_SEARCH_COST = 0.1  # similarity that one such distance costs where candidates are looked for
_COST = 0.15  # and where they are compared with the first answer
_CORRECTED_MM = 15.0  # where the way back ends further from the point, no correction
_CHUNK_SIMILARITIES = 8_000_000


def elsewhere(
    found: BlockAnswers, blocks: Blocks, descriptors: torch.Tensor, query: torch.Tensor, rows: TargetRows
) -> BlockAnswers:
    """The answers, replaced where a place elsewhere looks more like the point.

    descriptors: (n, l) of the points. query: (n, 3) their coordinates, in mm; in another unit there is no search.
    """
    if not rows.maps[0].provenance.metric:
        return found
    cells, away = rows.read(_candidate, descriptors, query.float(), found.cells)
    other = match_blocks(blocks, rows, cells)
    better = other.similarity - _COST * (away / _DISTANCE_MM).square() > found.similarity
    if not better.any():
        return found
    chosen = {}
    for field in fields(BlockAnswers):
        one, two = getattr(other, field.name), getattr(found, field.name)
        chosen[field.name] = torch.where(better.view(-1, *[1] * (one.ndim - 1)), one, two)
    return BlockAnswers(**chosen)


def _candidate(
    target: EmbeddingMap, descriptors: torch.Tensor, query: torch.Tensor, answer: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The body cell (n, 3) elsewhere that looks most like each point, and how far from it in the common body, mm."""
    index, coordinate = target.body_cells
    cell_mm = torch.from_numpy(target.cell_mm.copy()).float()
    size = max(1, _CHUNK_SIMILARITIES // len(index))
    best, far = [], []
    for own, at, place in zip(descriptors.split(size), query.split(size), answer.float().split(size), strict=True):
        away = torch.cdist(at, coordinate)
        judged = own @ target.body_descriptors.T - _SEARCH_COST * (away / _DISTANCE_MM).square()
        near = torch.cdist(place * cell_mm, index * cell_mm) < _NEAR_MM
        judged = judged.masked_fill(near | (away > _FAR_MM), -torch.inf)
        best.append(judged.argmax(1))
        far.append(away.gather(1, best[-1][:, None])[:, 0])
    return index[torch.cat(best)].double(), torch.cat(far)


def corrected(cells: torch.Tensor, off_mm: np.ndarray, rows: TargetRows) -> tuple[torch.Tensor, torch.Tensor]:
    """Answers in cells (n, 3) moved against half the error of the way back (n, 3) RAS mm; and that distance."""
    off = torch.from_numpy(off_mm)
    cycle_mm = off.norm(dim=1)
    cell_mm = torch.from_numpy(rows.maps[0].cell_mm.copy())
    moved = cells - 0.5 * off / cell_mm * (cycle_mm < _CORRECTED_MM)[:, None]
    return rows.read(into_body, moved), cycle_mm
