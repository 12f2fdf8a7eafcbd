"""The fine step: blocks of local descriptors around a point, compared with the target and made to agree.

A single descriptor has look-alikes nearby; the tissue around a point has fewer. Descriptors of a lattice of nodes
around the template's point are compared with the target at every displacement of a small box about the first answer.
Each node then judges by the mean similarity over the nodes around it (a block), and a robust affine function fitted to
the nodes' answers gives the point's own (UAE, Bai 2023, does so with the answers of neighbouring points).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F

from .embedding import EmbeddingMap
from .grid_reading import flat_index, read_rows
from .neighbourhood import box_offsets, reach_of

_NODE_STEP = 2  # local cells between nodes
_NODE_MM = 22.0  # nodes that answer lie within, about the point
_BLOCK_MM = 16.0  # nodes that take part in a node's answer lie within, about it
_BLOCK_SIGMA_MM = 14.0
_SEARCH_MM = 16.0
_AGAIN_MM = 6.0  # from the first answer, beyond which the search is repeated about what was found
_PRIOR_MM = 12.0  # how far the truth is usually from the first answer
_PRIOR_WEIGHT = 0.02  # mean similarity that one such distance costs
_UNSEEN = 0.2  # share of a block's weight that counts against displacements that put it outside the body
_FIT_SIGMA_MM = 20.0
_FIT_ROUNDS = 6
_FIT_KNEE_MM = 4.0  # residual at which a node's weight has halved
_SLOPE_PRIOR = 300.0  # mm^2: keeps the displacement uniform where few nodes answer
_CHUNK_POINTS = 128
_TOGETHER = 2


@dataclass(frozen=True)
class Blocks:
    """What is known around n template points: descriptors (n, m, l) of nodes, and which of them lie in the body."""

    descriptors: torch.Tensor
    seen: torch.Tensor


@dataclass(frozen=True)
class BlockAnswers:
    """cells: (n, 3) places in target cells (i, j, k). similarity: (n,) mean of the nodes' blocks where they answer,
    -1..1. spread_mm: (n,) how far the nodes' answers lie from the affine function. moved_mm: (n,) from the first
    answer.
    """

    cells: torch.Tensor
    similarity: torch.Tensor
    spread_mm: torch.Tensor
    moved_mm: torch.Tensor


@dataclass(frozen=True)
class _Layout:
    """Fixed index tables for local cells of one size. Offsets are local cells i, j, k; displacements k slowest.

    nodes: (m, 3). answering: (a,) those that answer. block: (a, m) weights of their blocks, rows sum to 1.
    low, size: (3,) corner and extent i, j, k of the box of target cells that nodes reach. pick: (m, d) the cell of the
    box for node and displacement. displacements: (d, 3) and their shape (dk, dj, di).
    """

    nodes: torch.Tensor
    answering: torch.Tensor
    block: torch.Tensor
    low: torch.Tensor
    size: torch.Tensor
    pick: torch.Tensor
    displacements: torch.Tensor
    shape: tuple[int, int, int]


@cache
def _layout(local_mm: tuple[float, float, float]) -> _Layout:
    cell = torch.tensor(local_mm)
    nodes = box_offsets(reach_of(_NODE_MM + _BLOCK_MM, np.array(local_mm) * _NODE_STEP)) * _NODE_STEP
    place = nodes * cell
    nodes, place = (x[place.norm(dim=1) <= _NODE_MM + _BLOCK_MM] for x in (nodes, place))
    answering = torch.nonzero(place.norm(dim=1) <= _NODE_MM).flatten()
    apart = torch.cdist(place[answering], place)
    block = torch.exp(-apart.square() / (2 * _BLOCK_SIGMA_MM**2)) * (apart <= _BLOCK_MM)
    reach = torch.from_numpy(reach_of(_SEARCH_MM, np.array(local_mm)))
    i, j, k = (torch.arange(-int(r), int(r) + 1) for r in reach)
    displacements = torch.cartesian_prod(k, j, i).flip(1)
    low = nodes.amin(0) - reach
    size = nodes.amax(0) + reach - low + 1
    reached = nodes[:, None] + displacements - low
    pick = reached[..., 0] + size[0] * (reached[..., 1] + size[1] * reached[..., 2])
    block = block / block.sum(1, keepdim=True)
    return _Layout(nodes, answering, block, low, size, pick, displacements, (len(k), len(j), len(i)))


def describe_blocks(template: EmbeddingMap, cells: torch.Tensor) -> Blocks:
    """Nodes around template places, (n, 3) continuous cells (i, j, k)."""
    layout = _layout(_local_mm(template))
    place = (cells.double() + 0.5) * 2 - 0.5  # in local cells
    around = place[:, None] + layout.nodes
    found = read_rows(template.local_rows, template.local.shape[1:], around)
    index, on_grid = flat_index(around.round().long(), template.local_body.shape)
    return Blocks(F.normalize(found, dim=2), on_grid & template.local_body.flatten()[index])


def match_blocks(blocks: Blocks, target: EmbeddingMap, first_cells: torch.Tensor) -> BlockAnswers:
    """Places of the blocks' points in the target, near first answers (n, 3) in continuous target cells (i, j, k)."""
    layout = _layout(_local_mm(target))
    first = (first_cells.double() + 0.5) * 2 - 0.5
    found = _in_parts(blocks, target, first, first, layout)
    # far from the first answer the best displacement may lie beyond the box: look again, about what was found
    far = torch.nonzero(found.moved_mm > _AGAIN_MM).flatten()
    if len(far):
        these = Blocks(blocks.descriptors[far], blocks.seen[far])
        again = _in_parts(these, target, found.cells[far], first[far], layout)
        for name in ("cells", "similarity", "spread_mm", "moved_mm"):
            getattr(found, name)[far] = getattr(again, name)
    return replace(found, cells=(found.cells + 0.5) / 2 - 0.5)


def _in_parts(
    blocks: Blocks, target: EmbeddingMap, about: torch.Tensor, first: torch.Tensor, layout: _Layout
) -> BlockAnswers:
    """One round for all points, about places (n, 3) in local cells; the answers' cells are local ones."""
    every = (blocks.descriptors, blocks.seen, about, first)
    parts = [
        _match(Blocks(d, s), target, a, f, layout)
        for d, s, a, f in zip(*(values.split(_CHUNK_POINTS) for values in every), strict=True)
    ]
    return BlockAnswers(*(torch.cat(values) for values in zip(*parts, strict=True)))


def _match(
    blocks: Blocks, target: EmbeddingMap, about: torch.Tensor, first: torch.Tensor, layout: _Layout
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    local_mm = torch.tensor(_local_mm(target))
    start = about.round().long()
    index, body = _box_rows(start + layout.low, layout.size, target)
    similarity = _similarities(blocks.descriptors, target.local_rows, index, layout.pick)
    held = body.index_select(1, layout.pick.flatten()) & blocks.seen.repeat_interleave(layout.pick.shape[1], dim=1)
    similarity, held = (x.view(len(start), *layout.pick.shape) for x in (similarity, held.float()))
    # what each node sees at each displacement, then the mean over its block
    similarity = layout.block @ (similarity * held)
    share, seen = layout.block @ held, (layout.block @ blocks.seen[..., None].float())
    score = (1 + _UNSEEN) * similarity / (share + _UNSEEN * seen).clamp_min(1e-6)
    away = (layout.displacements + (start - first)[:, None]) * local_mm
    prior = _PRIOR_WEIGHT * away.square().sum(-1).float() / _PRIOR_MM**2
    possible = held[:, layout.answering] > 0
    judged = (score - prior[:, None]).masked_fill(~possible, -torch.inf)
    best = judged.argmax(2)
    step = _peaks(judged.flatten(0, 1), best.flatten(), layout).view(*best.shape, 3)
    displaced = (layout.displacements[best] + step) * local_mm
    answers = possible.any(2)
    peak = score.gather(2, best[..., None])[..., 0].masked_fill(~answers, 0.0)
    place = (layout.nodes[layout.answering] * local_mm).double()
    trust = torch.exp(-place.square().sum(1) / (2 * _FIT_SIGMA_MM**2)) * peak.clamp_min(0.02).square() * answers
    moved, spread = _agree(place, displaced.double(), trust.double())
    found = torch.where(answers.any(1, keepdim=True), start + moved / local_mm, first)
    mean = (peak * trust).sum(1) / trust.sum(1).clamp_min(1e-9)
    return found, mean, spread.float(), ((found - first) * local_mm).norm(dim=1).float()


def _similarities(
    descriptors: torch.Tensor, rows: torch.Tensor, index: torch.Tensor, pick: torch.Tensor
) -> torch.Tensor:
    """(n, m * d) similarity of nodes (n, m, l) to the cells that they may be displaced to.

    index: (n, b) rows of a box of cells. One product with the whole box is faster than gathering for each node; a few
    points at a time, because it is faster while it fits into the processor's cache.
    """
    nodes = torch.arange(len(pick))[:, None]
    chosen = (pick * len(nodes) + nodes).flatten()
    found = [
        # the other order of the product, nodes first, takes three times as long
        (rows[i].float() @ d.transpose(1, 2)).flatten(1).index_select(1, chosen)
        for i, d in zip(index.split(_TOGETHER), descriptors.split(_TOGETHER), strict=True)
    ]
    return torch.cat(found)


def _box_rows(corner: torch.Tensor, size: torch.Tensor, target: EmbeddingMap) -> tuple[torch.Tensor, torch.Tensor]:
    """(n, b) rows of the target's local cells in boxes with corners (n, 3), i, j, k, and which lie in the body."""
    shape = target.local_body.shape[::-1]
    rows, inside = 0, True
    for axis, stride in ((2, shape[0] * shape[1]), (1, shape[0]), (0, 1)):
        cells = corner[:, axis, None] + torch.arange(int(size[axis]))
        along = [1, 1, 1]
        along[2 - axis] = cells.shape[1]
        rows = rows + (cells.clamp(0, shape[axis] - 1) * stride).view(len(corner), *along)
        inside = ((cells >= 0) & (cells < shape[axis])).view(len(corner), *along) & inside
    rows = rows.flatten(1)
    return rows, inside.flatten(1) & target.local_body.flatten()[rows]


def _peaks(score: torch.Tensor, best: torch.Tensor, layout: _Layout) -> torch.Tensor:
    """Offset (n, 3) to the vertex of the parabola through the best displacement and its neighbours on each axis."""
    k, j, i = layout.shape
    at = torch.stack([best % i, best // i % j, best // (i * j)], dim=1)
    offset = torch.zeros(len(best), 3)
    row = torch.arange(len(best))
    for axis, (stride, size) in enumerate(((1, i), (i, j), (i * j, k))):
        free = (at[:, axis] > 0) & (at[:, axis] < size - 1)
        low, high = (score[row, torch.where(free, best + s, best)] for s in (-stride, stride))
        bend = low + high - 2 * score[row, best]
        usable = free & torch.isfinite(bend) & (bend < -1e-9)
        offset[:, axis] = torch.where(usable, (0.5 * (low - high) / bend).clamp(-0.5, 0.5), 0.0)
    return offset


def _agree(place: torch.Tensor, displaced: torch.Tensor, trust: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The displacement (n, 3) at the point itself of a robust affine fit, and the nodes' weighted spread about it (n,).

    place: (a, 3) nodes, mm from the point. displaced: (n, a, 3) mm. trust: (n, a) weights.
    """
    design = torch.cat([place, torch.ones(len(place), 1, dtype=place.dtype)], dim=1)
    damping = torch.diag(torch.tensor([_SLOPE_PRIOR] * 3 + [1e-9], dtype=place.dtype))
    weight, fit = trust, torch.zeros(len(displaced), 4, 3, dtype=place.dtype)
    error = torch.zeros_like(trust)
    for _ in range(_FIT_ROUNDS):
        weighted = design * weight[..., None]
        fit = torch.linalg.solve(weighted.transpose(1, 2) @ design + damping, weighted.transpose(1, 2) @ displaced)
        error = (displaced - design @ fit).norm(dim=2)
        knee = error.masked_fill(trust == 0, torch.nan).nanmedian(1, keepdim=True).values.nan_to_num(_FIT_KNEE_MM)
        weight = trust / (1 + (error / knee.clamp_min(_FIT_KNEE_MM)).square())
    spread = ((error.square() * trust).sum(1) / trust.sum(1).clamp_min(1e-12)).sqrt()
    return fit[:, 3], spread


def _local_mm(embedding: EmbeddingMap) -> tuple[float, float, float]:
    return tuple(float(s) / 2 for s in embedding.cell_mm)
