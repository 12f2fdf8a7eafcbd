"""The same anatomical points in another scan: nearest coordinate over body cells, then a sub-cell answer.

Retrieval is the paper's (Goncharov 2024, section 2.2): the cell whose embedding is nearest in Euclidean distance.
Two steps are ours. The query is read from an affine fit of the template's map about the point, which averages the
map's error. Then the target's map is fitted likewise about the nearest cell and solved for the query's coordinate,
which frees the answer from the grid. Where both maps hold descriptors, those of the tissue around the point settle the
last centimetres (`block_matching`), or the point's own alone (`descriptor_matching`) where speed counts more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from . import descriptor_matching
from .block_matching import Blocks, describe_blocks, match_blocks
from .embedding import EmbeddingMap, as_points
from .errors import MapError
from .local_affine import fit_around
from .volume import transform_points

_MAX_MOVE_MM = 12.0  # of one fit; further than about a cell the affine function is an extrapolation
_FITS = 2
_RIDGE = 0.03
_SCORE_MM = 10.0
_AT_ONCE = 2000  # points: what is read of the template for them is kept, 13 kB each
_CHUNK_DISTANCES = 30_000_000
_HALF_CELL = 0.499  # as far from a cell's centre as still rounds to that cell


@dataclass(frozen=True, eq=False)
class Matches:
    """Answers for N points in one target scan.

    points_ras: (N, 3) RAS mm. score: (N,) in 0..1, how well the place found agrees with the template's point: in
    coordinates, or in appearance where the weights have descriptors (1: exactly).
    status, expected_error_mm, probability: (N,) each, or None where the weights carry no calibration.
    """

    points_ras: np.ndarray
    score: np.ndarray
    status: tuple[str, ...] | None = None
    expected_error_mm: np.ndarray | None = None
    probability: np.ndarray | None = None


def match_points(template: EmbeddingMap, points_ras: np.ndarray, target: EmbeddingMap, fast: bool = False) -> Matches:
    """Find points of one scan in another, all in one call.

    points_ras: (N, 3) RAS mm in the template; continuous, never snapped to a voxel.
    fast: compare the points' own descriptors alone, not the tissue around them: a tenth of a millisecond a point
    instead of half of one, and less exact; for crosshairs that follow the mouse, and for tens of thousands of points.
    Every answer lies in the target scan and in one of its body cells.
    Raises PointsError for a point outside the template, MapError when the maps are of different weights or the target
    holds no body.
    """
    if template.provenance.weights_hash != target.provenance.weights_hash:
        raise MapError(
            f"maps of {template.provenance.scan!r} and {target.provenance.scan!r} were made by different weights "
            f"({template.provenance.model}, {target.provenance.model}); embed both with the same model."
        )
    points_ras = as_points(points_ras)
    if len(points_ras) > _AT_ONCE:
        parts = [
            match_points(template, p, target, fast)
            for p in np.split(points_ras, range(_AT_ONCE, len(points_ras), _AT_ONCE))
        ]
        return Matches(np.concatenate([p.points_ras for p in parts]), np.concatenate([p.score for p in parts]))
    if target.coordinate is None:
        _refuse_empty(target)
        cells, similarity = descriptor_matching.search(*template.describe(points_ras), target)
    else:
        question = _question(template, points_ras)
        first = find_coordinates(question.coordinates, target)
        if target.local is None or not len(question.coordinates):
            return first
        cells = torch.from_numpy(transform_points(target.ras_to_cell, first.points_ras))
        if fast:
            cells, similarity = descriptor_matching.refine(question.descriptors, target, cells)
        else:
            found = match_blocks(question.blocks, target, cells)
            cells, similarity = found.cells, found.similarity
    cells = _into_body(cells, target)
    return Matches(transform_points(target.cell_to_ras, cells.numpy()), similarity.clamp(0, 1).double().numpy())


class _Question:
    """Points of a template and what is read there, each when it is first asked for."""

    def __init__(self, template: EmbeddingMap, points_ras: np.ndarray) -> None:
        self._template, self._points_ras = template, points_ras

    @cached_property
    def coordinates(self) -> np.ndarray:
        return _query(self._template, self._points_ras)

    @cached_property
    def descriptors(self) -> torch.Tensor:
        return self._template.describe(self._points_ras)[0]

    @cached_property
    def blocks(self) -> Blocks:
        cells = transform_points(self._template.ras_to_cell, self._points_ras)
        return describe_blocks(self._template, torch.from_numpy(cells))


def _question(template: EmbeddingMap, points_ras: np.ndarray) -> _Question:
    """The question of these points; kept with the template, so that several targets are asked with one reading."""
    key = points_ras.tobytes()
    last = template.asked.get("last")
    if last is None or last[0] != key:
        last = key, _Question(template, points_ras.copy())
        template.asked["last"] = last
    return last[1]


def _query(template: EmbeddingMap, points_ras: np.ndarray) -> np.ndarray:
    """Coordinates (N, 3) of template points: smoothed where the body around a point allows, else as sampled."""
    sampled = template.sample(points_ras)
    cells = transform_points(template.ras_to_cell, points_ras)
    if not len(cells):
        return sampled
    fit = fit_around(template, torch.from_numpy(cells))
    return torch.where(fit.supported[:, None], fit.level, torch.from_numpy(sampled)).numpy()


def find_coordinates(coordinates: np.ndarray, target: EmbeddingMap) -> Matches:
    """Where a scan holds given coordinates (N, 3), in the unit of its map."""
    _refuse_empty(target)
    index, cell_coordinates = target.body_cells
    if not len(coordinates):
        return Matches(np.zeros((0, 3)), np.zeros(0))
    query = torch.from_numpy(np.asarray(coordinates, dtype=np.float32))
    start = index[_nearest(query, cell_coordinates)].double()
    cells, residual = start, torch.empty(0)
    for _ in range(_FITS):
        cells, residual = _step(query.double(), cells, target)
    scale = _SCORE_MM if target.provenance.metric else float(cell_coordinates.std()) * 0.1
    return Matches(transform_points(target.cell_to_ras, cells.numpy()), torch.exp(-residual / scale).double().numpy())


def _refuse_empty(target: EmbeddingMap) -> None:
    if not len(target.body_index):
        raise MapError(f"{target.provenance.scan or 'target'}: holds no body, so nothing can be found in it.")


def _nearest(query: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """Index of the nearest row of `cells` for each row of `query`, in chunks of bounded memory.

    |q - c|^2 = |q|^2 - 2 q.c + |c|^2: one matrix product, its rounding harmless once both are centred.
    """
    middle = cells.mean(0)
    cells, query = cells - middle, query - middle
    norms = cells.square().sum(1) / 2
    rows = max(1, _CHUNK_DISTANCES // len(cells))
    return torch.cat([torch.addmm(norms, part, cells.T, alpha=-1).argmin(1) for part in query.split(rows)])


def _step(query: torch.Tensor, start: torch.Tensor, target: EmbeddingMap) -> tuple[torch.Tensor, torch.Tensor]:
    """One sub-cell step for each query (n, 3) from cells (n, 3): the new place in cells, and what is left of the query.

    The offset d with slope @ d + level = query, ridge-damped where the map hardly varies, kept short and in the body.
    """
    cell_mm = torch.from_numpy(target.cell_mm.copy())
    fit = fit_around(target, start)
    square = fit.slope.transpose(1, 2) @ fit.slope
    ridge = _RIDGE * square.diagonal(dim1=1, dim2=2).mean(1) + 1e-12
    damped = square + ridge[:, None, None] * torch.eye(3, dtype=torch.double)
    difference = query - fit.level
    move = torch.linalg.solve(damped, (fit.slope.transpose(1, 2) @ difference[..., None]))[..., 0]
    move = move * (_MAX_MOVE_MM / move.norm(dim=1, keepdim=True).clamp_min(_MAX_MOVE_MM))
    place = _into_body(start + move / cell_mm, target)
    left = difference - (fit.slope @ ((place - start) * cell_mm)[..., None])[..., 0]
    return place, left.norm(dim=1).float()


def _into_body(place: torch.Tensor, target: EmbeddingMap) -> torch.Tensor:
    """Places (n, 3) in cells, those in the air or outside the scan brought back into the nearest body cell.

    The coordinate of what a scan does not hold continues into the air beside the body; air is never an answer.
    """
    cell = place.round().long()
    on_grid = torch.minimum(cell.clamp(min=0), torch.tensor(target.body.shape[::-1]) - 1)
    i, j, k = on_grid.unbind(-1)
    beyond = ~target.body[k, j, i] | (cell != on_grid).any(dim=-1)
    if beyond.any():
        index = target.body_index
        cell_mm = torch.from_numpy(target.cell_mm.copy())
        nearest = index[_nearest((place[beyond] * cell_mm).float(), (index * cell_mm).float())]
        place[beyond] = torch.minimum(torch.maximum(place[beyond], nearest - _HALF_CELL), nearest + _HALF_CELL)
    ijk = transform_points(target.cell_to_scan, place.numpy())
    ijk = np.clip(ijk, -0.5, np.array(target.scan_shape[::-1]) - 0.5)
    return torch.from_numpy(transform_points(target.scan_to_cell, ijk))
