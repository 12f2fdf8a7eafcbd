"""Registers two scans of one patient with each other, in both directions, as exactly as the images allow.

The matches of both scans give an affine and a coarse transform. One level of `instance_optimisation` refines each
direction, starting from its own matches. The last step compares small neighbourhoods of each place at a resolution of
2 mm. The two directions are then joined: each answer moves by half of the distance by which it is matched back to
another place, and the last step is used only where both directions agree on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import torch

from ..embedding.grid_reading import read_linear
from ..embedding.map import EmbeddingMap
from ..errors import ProgressCallback
from ..fields.comparison import WHERE, Comparison, Features, windowed
from ..fields.spline import Lattice, SplineField
from ..scan.volume import Volume
from .affine import GridMatches, fit_affine
from .instance_optimisation import image_features, refine
from .register import fit_field

# of the grid of matches; few matches suffice, as the images follow
STEPS_MM = (48.0, 36.0, 24.0, 16.0, 12.0)
_LEVELS, _ROUNDS = ((3.0, 12.0),), 2  # a coarser level, or more rounds, made the answers worse
_FINE_MM, _EVERY = 2.0, 2  # spacing of the images of the last step; every second voxel is compared
_DAMPING = 0.5  # relative to the mean of the blocks' matrices; where images show less, the answer moves less
_FARTHEST_MM = 1.0  # largest change in the last step
_DISAGREE_MM = 0.7  # if the moves of the two directions differ by this length, only half of the move is applied
_WAYS = ((0, 1), (1, 0))  # indices of fixed and moving scan in each direction


@dataclass(frozen=True, eq=False)
class Coarse:
    """The coarse transform of one direction: an affine transform (4, 4), RAS mm fixed -> moving, and a displacement."""

    affine: np.ndarray
    field: SplineField

    @classmethod
    def of(cls, matches: GridMatches, fixed: Volume) -> Coarse:
        """Fit a transform to at least 16 matches."""
        affine = fit_affine(matches)
        return cls(affine, fit_field(matches, affine, *fixed.bounds_ras))


@dataclass(frozen=True, eq=False)
class Places:
    """Answers at the points of a lattice.

    places: (3, k, j, i) RAS mm in the other scan. doubts: (2, k, j, i) mm: the distance by which the other direction
    led the answer past its point before the directions were joined; the distance of the answer from the coarse answer.
    """

    lattice: Lattice
    places: torch.Tensor
    doubts: torch.Tensor

    def on(self, lattice: Lattice) -> Places:
        """Interpolate the answers at the points of another lattice."""
        points = lattice.places
        values = torch.cat([self.places - self.lattice.places, self.doubts])
        samples = read_at(values, self.lattice, points)
        return Places(lattice, points + samples[:3], samples[3:])


def read_at(values: torch.Tensor, lattice: Lattice, places: torch.Tensor) -> torch.Tensor:
    """Interpolate values at places. Returns (c, ...).

    Args:
        values: (c, k, j, i), at the points of the lattice.
        lattice: the lattice.
        places: (3, ...) RAS mm.
    """
    index = lattice.index(places.flatten(1)).T
    return read_linear(values[None], index[None])[0].T.reshape(-1, *places.shape[1:])


def join_directions(
    coarse: Sequence[Coarse],
    volumes: tuple[Volume, Volume],
    maps: tuple[EmbeddingMap, EmbeddingMap],
    threads: Executor,
    step: ProgressCallback,
) -> list[Places]:
    """Refine the coarse transforms of both directions.

    Args:
        coarse: the transforms, from the first scan to the second and back.
        volumes, maps: of the two scans.
        threads: run both directions at a time.
        step: called with the share of the work that is done, 0 to 1, and the stage.

    Returns:
        The answers of each direction, at points 4 mm apart.
    """

    def refined(
        start: Coarse, scans: tuple[Volume, Volume], pair: tuple[EmbeddingMap, EmbeddingMap]
    ) -> SplineField:
        """Refine the coarse field of one direction by comparing the images."""
        return refine(
            start.field,
            start.affine,
            scans,
            pair,
            torch.device("cpu"),
            lambda share: step(0.3 + 0.3 * share, "comparing the images"),
            _LEVELS,
            _ROUNDS,
        )

    def compare(fixed: Features, moving: Features, start: Coarse) -> Comparison:
        """Prepare the comparison of small neighbourhoods in one direction."""
        step(0.65, "comparing small neighbourhoods")
        return Comparison(fixed, moving, start.affine, _EVERY)

    # lists have one entry for each direction: first scan -> second scan, and back
    fields = list(threads.map(refined, coarse, (volumes, volumes[::-1]), (maps, maps[::-1])))
    step(0.6, "comparing small neighbourhoods")
    features = list(threads.map(image_features, volumes, maps, (_FINE_MM,) * 2))
    comparisons = list(threads.map(compare, features, features[::-1], coarse))
    lattices = [comparison.fixed.lattice for comparison in comparisons]
    # answers of the two directions, before they are joined
    separate = [comparisons[n].start + fields[n].on(lattices[n]) for n in range(2)]
    pasts = [_past(separate[a], lattices[a], separate[b], lattices[b]) for a, b in _WAYS]
    joined = [separate[n] - pasts[n] / 2 for n in range(2)]
    step(0.7, "comparing small neighbourhoods")
    moves = list(threads.map(_last_move, comparisons, joined))
    directions = []
    for way, back in _WAYS:
        reverse = read_at(moves[back], lattices[back], joined[way])
        places = joined[way] + _agreed_move(moves[way], reverse)
        moved = places - comparisons[way].start - coarse[way].field.on(lattices[way])
        doubts = torch.stack([pasts[way].norm(dim=0), moved.norm(dim=0)])
        directions.append(Places(lattices[way], places, doubts))
    return directions


def _agreed_move(move: torch.Tensor, reverse: torch.Tensor) -> torch.Tensor:
    """Return the mean move, (3, k, j, i) mm, of two directions; where they disagree, it is shorter.

    reverse: (3, k, j, i) mm, the move of the other direction, which is opposite if both agree.
    """
    disagreement_mm = (move + reverse).norm(dim=0)
    trust = 1 / (1 + (disagreement_mm / _DISAGREE_MM).square())
    return (move - reverse) / 2 * trust


def _past(
    places: torch.Tensor, lattice: Lattice, reverse: torch.Tensor, back_lattice: Lattice
) -> torch.Tensor:
    """Compute (3, k, j, i) mm, by which the other direction leads answers past their points.

    places: answers at the points of `lattice`. reverse: answers of the other direction at the points of `back_lattice`.
    """
    displacement = read_at(reverse - back_lattice.places, back_lattice, places)
    return places + displacement - lattice.places


def _last_move(comparison: Comparison, places: torch.Tensor) -> torch.Tensor:
    """Compute for each place, (3, k, j, i) mm, the move after which its neighbourhood of 20 mm fits better.

    This is a step of Lucas and Kanade (1981), with the mean slope of both images.
    """
    terms = torch.cat(comparison.terms(places - comparison.start))
    terms = windowed(terms[None])[0]  # means over the neighbourhoods
    force = terms[:3].permute(1, 2, 3, 0)[..., None]  # (k, j, i, 3, 1)
    matrix = terms[3:][WHERE].permute(2, 3, 4, 0, 1)  # (k, j, i, 3, 3)
    body = comparison.fixed.weight > 0
    scale = float(matrix.diagonal(dim1=3, dim2=4).mean(-1)[body].mean())
    matrix = matrix + torch.eye(3) * (_DAMPING * scale + 1e-9)
    move = -torch.linalg.solve(matrix, force)[..., 0].permute(3, 0, 1, 2)
    return move * _FARTHEST_MM / move.norm(dim=0).clamp_min(_FARTHEST_MM) * body
