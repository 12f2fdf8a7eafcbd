"""The last step of matching: moves the answer to where the images themselves agree best.

Descriptors belong to half cells of 6 x 6 x 8 mm, which is too coarse to show where exactly an airway divides. So the
image around the point is compared with the image around its answer at every small displacement, by normalised
correlation in a Gaussian window. The answer moves to the best displacement only if the correlation there is clearly
higher than at all displacements that are some mm away. In uniform tissue the answer does not move.
"""

import math
from functools import cache

import torch

from ..embedding.grid_reading import (
    box_offsets,
    flat_index,
    peak_offsets,
    reach_of,
    read_linear,
    to_parts,
)
from ..embedding.map import EmbeddingMap
from .target_batch import TargetRows

_WINDOW_MM, _SIGMA_MM = 16.0, 8.0
# largest displacement; by hand: answers farther off are not rescued (LOG, Matching between patients)
_SEARCH_MM = 16.0
# a displacement of _PRIOR_MM lowers the correlation by _PRIOR_WEIGHT
_PRIOR_MM, _PRIOR_WEIGHT = 8.0, 0.05
_APART_MM = 8.0  # displacements farther than this from the best displacement are its competitors
# lead over competitors: up to the first the answer stays, from the second it moves fully
_UNCLEAR, _CLEAR = 0.1, 0.14
_ALIKE = 0.4  # least correlation at which the answer moves
_FLAT = 1e-4  # variance of a window without structure, for grey values of 0 to 1


@cache
class _Layout:
    """Index tables for one size of voxels. Offsets are in voxels i, j, k. Moves are tested displacements of an answer.

    window: (m, 3) offsets from a point to the m voxels that are compared. weight: (m,) weights of these voxels; their
    sum is 1. moves: (d, 3) all moves. cost: (d,) penalty of each move, subtracted from its correlation. far: (d, d)
    bool, whether two moves are far apart. shape: size of the smallest grid that contains all moves. place: (d,) flat
    index of each move in this grid. box: (b, 3) offsets from the answer to all target voxels that are read. cell:
    (d * m,) row of `box` to read, for each move and each compared voxel.
    """

    def __init__(self, voxel_mm: tuple[float, ...]) -> None:
        mm = torch.tensor(voxel_mm)
        self.moves = _ball(mm, _SEARCH_MM)
        window = _ball(mm, _WINDOW_MM)
        # half of the voxels suffice, in half of the time
        self.window = window[window.sum(1) % 2 == 0]
        square = (self.window * mm).square().sum(1)
        self.weight = torch.exp(-square / (2 * _SIGMA_MM**2))
        self.weight /= self.weight.sum()
        self.cost = _PRIOR_WEIGHT * (self.moves * mm).square().sum(1) / _PRIOR_MM**2
        self.far = torch.cdist(self.moves * mm, self.moves * mm) > _APART_MM
        reach = self.window.amax(0) + self.moves.amax(0)
        size = 2 * reach + 1
        self.box = box_offsets(reach.flip(0)).flip(1)
        voxels = self.moves[:, None] + self.window + reach
        self.cell = flat_index(voxels, size.tolist()[::-1])[0].flatten()
        farthest = self.moves.amax(0)
        self.shape = (2 * farthest + 1).tolist()
        i, j, k = (self.moves + farthest).unbind(1)
        self.place = (i * self.shape[1] + j) * self.shape[2] + k


def _ball(mm: torch.Tensor, radius_mm: float) -> torch.Tensor:
    """Return the offsets (n, 3), voxels i, j, k, of the voxels in a ball. mm: (3,) size of a voxel."""
    offsets = box_offsets(reach_of(radius_mm, mm.numpy()))
    return offsets[(offsets * mm).norm(dim=1) <= radius_mm]


def read_windows(template: EmbeddingMap, cells: torch.Tensor) -> torch.Tensor:
    """Read the m voxels (the window) of the template's image around each of n places (n, 3), in cells. Returns (n, m).

    The window's mean is subtracted from each voxel. Then the voxel is multiplied by its weight and divided by the
    window's standard deviation. The scalar product with a target window, divided by the standard deviation of the
    target window, is the correlation of the two windows.
    """
    layout = _Layout(template.part_mm(template.voxels_per_cell))
    window = _read(template, cells, layout.window)
    window = window - (window @ layout.weight)[:, None]
    return window * layout.weight / (window.square() @ layout.weight + _FLAT).sqrt()[:, None]


def sharpen(windows: torch.Tensor, rows: TargetRows, cells: torch.Tensor) -> torch.Tensor:
    """Move answers to where the images agree best. Returns (n, 3), in target cells.

    Args:
        windows: (n, m), from `read_windows`.
        rows: the target of each answer.
        cells: (n, 3) answers, in target cells.
    """
    voxels_per_cell = rows.maps[0].voxels_per_cell
    layout = _Layout(rows.maps[0].part_mm(voxels_per_cell))
    correlation = _correlations(windows, rows, cells, layout)
    score = correlation - layout.cost  # (n, d)
    best = score.argmax(1)
    row = torch.arange(len(best))
    competitor = score.masked_fill(~layout.far[best], -torch.inf).amax(1)
    lead = score[row, best] - competitor
    # (n,): the share of the move that the answer makes
    share = ((lead - _UNCLEAR) / (_CLEAR - _UNCLEAR)).clamp(0, 1)
    share = share * (correlation[row, best] >= _ALIKE)
    # the peak is located between voxels in a grid that has all moves, and -inf elsewhere
    score_grid = torch.full((len(best), math.prod(layout.shape)), -torch.inf)
    score_grid[:, layout.place] = score
    move = layout.moves[best] + peak_offsets(score_grid, layout.place[best], layout.shape)
    return cells + (move * share[:, None]).double() / voxels_per_cell


def _correlations(
    windows: torch.Tensor, rows: TargetRows, cells: torch.Tensor, layout: _Layout
) -> torch.Tensor:
    """Return the correlations of n windows with the target at d moves, (n, d). Arguments: see `sharpen`."""
    correlation = torch.empty(len(cells), len(layout.moves))
    values = torch.empty(len(layout.cell))
    for n, (target, window, cell) in enumerate(zip(rows, windows, cells.split(1), strict=True)):
        torch.index_select(_read(target, cell, layout.box)[0], 0, layout.cell, out=values)
        moved = values.view(len(layout.moves), -1)  # (d, m): the window at each move
        product, mean = (moved @ torch.stack([window, layout.weight], dim=1)).unbind(1)
        variance = moved.square() @ layout.weight - mean.square()
        correlation[n] = product / (variance.clamp_min(0) + _FLAT).sqrt()
    return correlation


def _read(embedding: EmbeddingMap, cells: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Return the grey values (n, m) of m voxels around each of n places in an image. cells: (n, 3) i, j, k of the
    places, in cells of the map. offsets: (m, 3) voxels, from a place to the voxels that are read."""
    voxels = to_parts(cells.double(), embedding.voxels_per_cell).float()[:, None] + offsets
    return read_linear(embedding.grey_values, voxels.view(1, -1, 3)).view(voxels.shape[:2])
