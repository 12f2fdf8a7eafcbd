"""The fine step of matching: compares the descriptors around a point with the target.

A single descriptor is ambiguous; the descriptors of the surrounding tissue together are less ambiguous. So a lattice of
nodes is laid around the template's point. The descriptor of each node is compared with the target at every displacement
in a small box around the **first answer**, which was found by body coordinates. Each node chooses the displacement with
the highest mean similarity over the node's neighbours (its **block**). A robust affine function is fitted to the chosen
displacements and gives the displacement of the point. (UAE, Bai 2023, fits a function to the answers of neighbouring
points in the same way.) A **local cell** is a half cell of the map: each half cell has its own local descriptor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.grid_reading import (
    box_offsets,
    flat_index,
    peak_offsets,
    reach_of,
    read_rows,
    to_cells,
    to_parts,
)
from ..embedding.map import EmbeddingMap
from ..errors import MapError
from .target_batch import TargetRows

_NODE_STEP = 2  # distance between nodes, in local cells
_NODE_MM = 30.0  # radius around the point in which nodes choose a displacement
# radius of a node's block; 16 to 24 mm were alike (LOG, Matching between patients)
_BLOCK_MM = 16.0
_BLOCK_SIGMA_MM = 14.0  # of the weights in a block; by hand
_SEARCH_MM = 16.0  # half size of the box of displacements
# if the answer moved farther than this, the search is repeated around the new answer
_AGAIN_MM = 6.0
_PRIOR_MM = 12.0  # usual distance of the truth from the first answer
_PRIOR_WEIGHT = 0.03  # how much a displacement of _PRIOR_MM lowers the mean similarity
_UNSEEN = 0.2  # strength of the penalty if a displacement moves a part of the block out of the body
# of the weights of nodes; chosen with _NODE_MM on 33 scans (LOG, Matching between patients: blocks)
_FIT_SIGMA_MM = 22.0
_FIT_ROUNDS = 6  # of the robust fit; after these, it hardly changes
_FIT_KNEE_MM = 4.0  # residual at which a node's weight has halved
# mm^2; keeps the fitted displacement uniform if only few nodes choose a displacement
_SLOPE_PRIOR = 300.0
# evenly spread in 3-D (Roberts 2018)
_DITHER = torch.tensor([0.8191725134, 0.6710436067, 0.5497004779])
# The nodes are divided into this number of groups; each group is compared with the target in one matrix product. More
# groups need fewer multiplications but more matrix products.
_GROUPS = 2
_CHUNK_POINTS = 128  # compared at a time; only limits memory


@dataclass(frozen=True)
class Blocks:
    """The tissue at m places (nodes) around each of n template points.

    descriptors: (n, m, l), l numbers for each node. in_body: (n, m) bool, whether the node lies in the body.
    """

    descriptors: torch.Tensor
    in_body: torch.Tensor

    def repeat(self, times: int) -> Blocks:
        return Blocks(self.descriptors.repeat(times, 1, 1), self.in_body.repeat(times, 1))

    def select(self, index: torch.Tensor) -> Blocks:
        return Blocks(self.descriptors[index], self.in_body[index])

    @classmethod
    def join(cls, parts: Sequence[Blocks]) -> Blocks:
        """Join the blocks of several templates into one."""
        return cls(
            torch.cat([part.descriptors for part in parts]),
            torch.cat([part.in_body for part in parts]),
        )


@dataclass(frozen=True)
class BlockAnswers:
    """Answers for n points, improved by comparing the tissue around the points.

    Args:
        cells: (n, 3) answers in target cells i, j, k.
        similarity: (n,) -1 to 1, mean similarity of the tissue around the point and the tissue around the answer.
        spread_mm: (n,) root mean square error of the affine function fitted to the displacements around the point.
        moved_mm: (n,) distance of the answer from the first answer, which was found by body coordinates.
    """

    cells: torch.Tensor
    similarity: torch.Tensor
    spread_mm: torch.Tensor
    moved_mm: torch.Tensor


class _Group(NamedTuple):
    """Nodes that are compared with the target in one product (cells, nodes), and the cells of the box they reach."""

    nodes: slice
    cells: slice

    @property
    def size(self) -> tuple[int, int]:
        """Number of cells, and of nodes."""
        return self.cells.stop - self.cells.start, self.nodes.stop - self.nodes.start


@cache
class _Layout:
    """The places and displacements that are compared when a point is matched, for one size of local cells.

    All offsets are in local cells i, j, k. mm: (3,) size of a local cell along R, A, S.

    nodes: (m, 3) offsets from the point to m nodes, the places where descriptors are compared. dither: (m, 3)
    fraction of a cell, added to each node when the template is read, so that the mean rounding error is about 0.
    answering: (a,) indices in `nodes` of the a nodes near the point; only these choose a displacement. block: (a, m)
    weights of all nodes in the choice of each of the a nodes; each row sums to 1. low, size: (3,) lowest corner and
    size of the box of target cells that is read. displacements: (d, 3) all compared displacements; k changes slowest.
    flat: (3,) bool, axes along which nothing moves: A in a film. shape: number of displacements along k, j and i.

    groups: the nodes, ordered by k, in groups. cell: (m * d,) index in the box of the cell that a node reaches by a
    displacement. pick: (m * d,) index of the similarity of node and cell in the list of all groups' products.
    """

    def __init__(self, local_mm: tuple[float, ...]) -> None:
        self.mm = torch.tensor(local_mm)
        thin = np.array(local_mm) <= _SEARCH_MM
        self.flat = torch.from_numpy(~thin)

        radius_mm = _NODE_MM + _BLOCK_MM
        node_reach = reach_of(radius_mm, np.array(local_mm) * _NODE_STEP) * thin
        nodes = box_offsets(node_reach) * _NODE_STEP
        nodes = nodes[(nodes * self.mm).norm(dim=1) <= radius_mm]
        self.nodes = nodes[nodes[:, 2].argsort(stable=True)]
        dither = torch.arange(1, len(nodes) + 1)[:, None] * _DITHER % 1 - 0.5
        self.dither = dither.float() * ~self.flat

        nodes_mm = self.nodes * self.mm
        self.answering = torch.nonzero(nodes_mm.norm(dim=1) <= _NODE_MM).flatten()
        distance = torch.cdist(nodes_mm[self.answering], nodes_mm)
        block = torch.exp(-distance.square() / (2 * _BLOCK_SIGMA_MM**2)) * (distance <= _BLOCK_MM)
        self.block = block / block.sum(1, keepdim=True)

        reach = torch.from_numpy(reach_of(_SEARCH_MM, np.array(local_mm)) * thin)
        self.displacements = box_offsets(reach.flip(0)).flip(1)
        self.shape = (2 * reach + 1).flip(0).tolist()
        self.low = self.nodes.amin(0) - reach
        self.size = self.nodes.amax(0) + reach - self.low + 1
        self.groups, self.cell, self.pick = self._products()

    def _products(self) -> tuple[list[_Group], torch.Tensor, torch.Tensor]:
        """Plan the products of descriptors of nodes and cells; returns `groups`, `cell` and `pick`."""
        reached = self.nodes[:, None] + self.displacements - self.low
        cell, _ = flat_index(reached, self.size.tolist()[::-1])
        plane = int(self.size[0] * self.size[1])  # cells in a plane of the box
        groups = []
        pick = torch.empty_like(cell)
        done = 0  # number of products in the groups before
        for members in torch.arange(len(self.nodes)).tensor_split(_GROUPS):
            planes = reached[members, :, 2]
            group = _Group(
                nodes=slice(int(members[0]), int(members[-1]) + 1),
                cells=slice(int(planes.min()) * plane, (int(planes.max()) + 1) * plane),
            )
            row = cell[members] - group.cells.start
            column = (members - group.nodes.start)[:, None]
            pick[members] = done + row * len(members) + column
            groups.append(group)
            done += math.prod(group.size)
        return groups, cell.flatten(), pick.flatten()


def describe_blocks(template: EmbeddingMap, cells: torch.Tensor) -> Blocks:
    """Read the template's descriptors on a lattice around each of n points, and which places lie in the body.

    cells: (n, 3) i, j, k of the points.
    """
    layout = _Layout(template.part_mm(2))  # descriptors belong to half cells
    place = to_parts(cells.double(), 2)
    around = place[:, None] + layout.nodes + layout.dither
    descriptors = read_rows(template.local_rows, template.local.shape[1:], around)
    index, on_grid = flat_index(around.round().long(), template.local_body.shape)
    return Blocks(F.normalize(descriptors, dim=2), on_grid & template.local_body.flatten()[index])


def match_blocks(blocks: Blocks, rows: TargetRows, first_cells: torch.Tensor) -> BlockAnswers:
    """Improve first answers by comparing descriptors.

    Args:
        blocks: the tissue around the n points.
        rows: the target of each point.
        first_cells: (n, 3) i, j, k of the first answers in the target.
    """
    layout = _Layout(rows.maps[0].part_mm(2))
    first = to_parts(first_cells.double(), 2)
    answers = _in_parts(blocks, rows, first, first, layout)
    # an answer far from the first answer may lie at the border of the box: search again around the new answer
    far = torch.nonzero(answers.moved_mm > _AGAIN_MM).flatten()
    if len(far):
        second = _in_parts(
            blocks.select(far), rows.select(far), answers.cells[far], first[far], layout
        )
        for name, values in vars(second).items():
            getattr(answers, name)[far] = values
    return replace(answers, cells=to_cells(answers.cells, 2))


def _in_parts(
    blocks: Blocks, rows: TargetRows, centres: torch.Tensor, first: torch.Tensor, layout: _Layout
) -> BlockAnswers:
    """Match n points in batches, to save memory.

    Args:
        centres: (n, 3), in half cells of the target, the places around which the points are searched for.
        first: (n, 3), in half cells, the first answers, found by body coordinates.
    """
    if blocks.in_body.shape[1] != len(layout.nodes):
        raise MapError(
            "the maps have cells of different sizes, or the points were prepared by another version of this program; "
            "embed both scans again with the same weights."
        )
    parts = [
        _match(blocks.select(batch), rows.select(batch), centres[batch], first[batch], layout)
        for batch in torch.arange(len(first)).split(_CHUNK_POINTS)
    ]
    return BlockAnswers(*(torch.cat(values) for values in zip(*parts, strict=True)))


def _match(
    blocks: Blocks, rows: TargetRows, centres: torch.Tensor, first: torch.Tensor, layout: _Layout
) -> tuple[torch.Tensor, ...]:
    """Match one batch of n points. Returns the fields of `BlockAnswers`, with cells in half cells.

    Shapes in the code: n points, m nodes of each, of which a choose a displacement, and d displacements. The arguments
    are those of `_in_parts`.
    """
    start = centres.round().long()
    # weighted sum over the block of each node of what the template shows, (n, a, 1)
    template_share = layout.block @ blocks.in_body[..., None].float()
    score = _scores(blocks, rows, start, template_share, layout)
    # along an axis without displacements, the answer stays at the first answer
    begin = torch.where(layout.flat, first, start)
    away_mm = (layout.displacements + (begin - first)[:, None]) * layout.mm
    displacement, peak = _choose(score, away_mm, layout)
    # subtract the mean dither of the block, because the template was read at the dithered places
    dither = layout.block @ (layout.dither * blocks.in_body[..., None])
    mean_dither = dither / template_share.clamp_min(1e-6)
    displaced_mm = (displacement - mean_dither) * layout.mm
    answers = torch.isfinite(peak)  # (n, a), False for a node that reaches no cell of the body
    peak = peak.masked_fill(~answers, 0.0)
    place_mm = (layout.nodes[layout.answering] * layout.mm).double()
    nearness = torch.exp(-place_mm.square().sum(1) / (2 * _FIT_SIGMA_MM**2))
    trust = nearness * peak.clamp_min(0.02).square() * answers
    moved_mm, spread_mm = _agree(place_mm, displaced_mm.double(), trust.double())
    # without any node that answers, the first answer stays
    answer = torch.where(answers.any(1, keepdim=True), begin + moved_mm / layout.mm, first)
    similarity = (peak * trust).sum(1) / trust.sum(1).clamp_min(1e-9)
    away_mm = ((answer - first) * layout.mm).norm(dim=1)
    return answer, similarity, spread_mm.float(), away_mm.float()


def _scores(
    blocks: Blocks,
    rows: TargetRows,
    start: torch.Tensor,
    template_share: torch.Tensor,
    layout: _Layout,
) -> torch.Tensor:
    """Return the score of each displacement of each node, (n, a, d): the mean similarity over the node's block.

    Where the target does not show a part of the block, the score is lower; where the node leaves the body, it is -inf.

    Args:
        blocks, rows: as in `_in_parts`.
        start: (n, 3) half cells of the target around which the points are searched for.
        template_share: (n, a, 1) weighted share of the block that the template shows.
    """
    similarity, body = _similarities(blocks.descriptors, rows, start + layout.low, layout)
    by_node = (len(start), len(layout.nodes), -1)  # (n, m, d)
    # 1 if both the node and the cell that it reaches lie in the body
    in_body = body.index_select(1, layout.cell).float().view(by_node) * blocks.in_body[..., None]
    similarity = layout.block @ (similarity.view(by_node) * in_body)
    share = layout.block @ in_body
    score = (1 + _UNSEEN) * similarity / (share + _UNSEEN * template_share).clamp_min(1e-6)
    return score.masked_fill(in_body[:, layout.answering] == 0, -torch.inf)


def _choose(
    score: torch.Tensor, away_mm: torch.Tensor, layout: _Layout
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose a displacement for each node, (n, a, 3) half cells, near the first answer. Also returns its score (n, a).

    Args:
        score: (n, a, d), see `_scores`.
        away_mm: (n, d, 3) from the first answer to the place of each displacement.
    """
    prior = _PRIOR_WEIGHT * away_mm.square().sum(-1).float() / _PRIOR_MM**2
    best = (score - prior[:, None]).argmax(2)
    # The prior is used only to choose the cell; within the cell, it would shift the answer towards the first answer.
    step_kji = peak_offsets(score.flatten(0, 1), best.flatten(), layout.shape)
    step = step_kji.flip(1).view(*best.shape, 3)
    return layout.displacements[best] + step, score.gather(2, best[..., None])[..., 0]


def _similarities(
    descriptors: torch.Tensor, rows: TargetRows, corners: torch.Tensor, layout: _Layout
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compare descriptors of the template, at m nodes around each of n points, with the target at d displacements.

    descriptors: (n, m, l), l numbers for each node. corners: (n, 3), lowest corner of each point's box of b target
    cells. Returns similarities (n, m * d); and bool (n, b), True for each cell of a box that lies in the body.
    """
    shape = layout.size.tolist()[::-1]
    length = descriptors.shape[2]
    # buffers are reused: allocating memory for each point takes longer than filling it
    box = torch.empty(*shape, length)
    # the product (cells, nodes) of each group is a part of one buffer, as `pick` expects
    lengths = [math.prod(group.size) for group in layout.groups]
    buffer = torch.empty(sum(lengths))
    products = [
        part.view(group.size)
        for part, group in zip(buffer.split(lengths), layout.groups, strict=True)
    ]
    similarities = torch.empty(len(descriptors), len(layout.pick))
    body = torch.empty(len(descriptors), *shape, dtype=torch.bool)
    batch = zip(rows, descriptors.transpose(1, 2), corners.flip(1).tolist(), strict=True)
    for n, (target, nodes, corner) in enumerate(batch):
        _copy_box(target.local_rows.view(*target.local_body.shape, length), corner, box)
        _copy_box(target.local_body, corner, body[n])
        cells = box.flatten(0, 2)
        # the product nodes x cells would take three times as long as cells x nodes
        for group, product in zip(layout.groups, products, strict=True):
            torch.mm(cells[group.cells], nodes[:, group.nodes], out=product)
        torch.index_select(buffer, 0, layout.pick, out=similarities[n])
    return similarities, body.flatten(1)


def _copy_box(grid: torch.Tensor, corner: list[int], box: torch.Tensor) -> None:
    """Fill `box` (k, j, i, ...) with the part of `grid` that begins at `corner` (k, j, i); outside `grid`, with 0."""
    in_grid, in_box = [], []
    for first, grid_size, box_size in zip(corner, grid.shape, box.shape, strict=False):
        low = max(first, 0)
        high = max(min(first + box_size, grid_size), low)
        in_grid.append(slice(low, high))
        in_box.append(slice(low - first, high - first))
    part = grid[tuple(in_grid)]
    if part.shape != box.shape:
        box.zero_()
    box[tuple(in_box)] = part


def _agree(
    place: torch.Tensor, displaced: torch.Tensor, trust: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Estimate the displacements of n points by a robust affine fit to the displacements of places around each point.

    place: (a, 3) mm, from the point to the places. displaced: (n, a, 3) mm, displacements of the places. trust: (n, a)
    weights. Returns the displacements (n, 3) of the points and the root mean square errors (n,) of the fits, in mm.
    """
    design = torch.cat([place, torch.ones_like(place[:, :1])], dim=1)
    damping = torch.diag(torch.tensor([_SLOPE_PRIOR] * 3 + [1e-9], dtype=place.dtype))
    weight = trust
    for _ in range(_FIT_ROUNDS):
        weighted = (design * weight[..., None]).transpose(1, 2)
        fit = torch.linalg.solve(weighted @ design + damping, weighted @ displaced)
        error = (displaced - design @ fit).norm(dim=2)
        # the median error of the places that count, at least _FIT_KNEE_MM
        median = error.masked_fill(trust == 0, torch.nan).nanmedian(1, keepdim=True).values
        knee = median.nan_to_num(_FIT_KNEE_MM).clamp_min(_FIT_KNEE_MM)
        weight = trust / (1 + (error / knee).square())
    spread = ((error.square() * trust).sum(1) / trust.sum(1).clamp_min(1e-12)).sqrt()
    return fit[:, 3], spread
