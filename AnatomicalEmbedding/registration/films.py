"""Answers in a film: a smooth displacement that follows the matches of the whole film.

A place of a film shows several structures on top of each other, so the match of a single point errs more than in a CT.
So the films are aligned first, by affine functions of R and S that fit their body coordinates. Then the descriptors
of all places are compared, around the places to which the alignment leads, and an affine transform with a smooth
displacement is fitted to the matches. `matching.blocks` compares descriptors in the same way around single points;
here, the target is first moved onto the template, so that one shift of the whole film moves all places.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.coverage import cell_points, robust_affine
from ..embedding.grid_reading import peak_offsets
from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError
from ..matching import EFFORTS
from ..matching.match import Matches, match_all
from ..matching.status import ABSENT, at_most_uncertain
from ..scan.geometry import bounds_of, transform_points
from .affine import GridMatches, fit_affine
from .register import KNOT_MM, fit_field
from .spline import Lattice, SplineField

_REACH = (4, 3, 3)  # largest shift along R and S in each round, in cells
_BLOCK_MM, _BLOCK_CELLS = 10.0, 2  # standard deviation and radius of the Gaussian with which similarities are averaged
_PRIOR_WEIGHT, _PRIOR_MM = 0.05, 12.0  # a shift of _PRIOR_MM lowers the similarity by _PRIOR_WEIGHT
_UNSEEN = 0.2  # strength of the penalty if a part of the block is not shown in the target
_LEAST_SIMILARITY = 0.05
# arguments of `fit_field`: the shapes of hearts and lungs differ much
_SMOOTH, _KNEE_MM, _ROUNDS, _STEPS = 0.15, 8.0, 2, 8


@dataclass(frozen=True, eq=False)
class FilmTransform:
    """The places of one film in another film: an affine transform (4, 4), RAS mm, and a displacement after it."""

    affine: np.ndarray
    field: SplineField

    def transform_points(self, points_ras: np.ndarray) -> np.ndarray:
        """Transform points (n, 3) RAS mm."""
        return transform_points(self.affine, points_ras) + self.field.at(points_ras)


@dataclass(frozen=True, eq=False)
class FilmPair:
    """Two films that were registered once. The answers are those of `film_answers`.

    there, back: from the template to the target, and back; None if the films have too few places in common.
    """

    template: EmbeddingMap
    target: EmbeddingMap
    there: FilmTransform | None
    back: FilmTransform | None

    @classmethod
    def of(cls, template: EmbeddingMap, target: EmbeddingMap) -> Self:
        """Register two films in both directions."""
        return cls(template, target, _transform(template, target), _transform(target, template))

    def points(self, points_ras: np.ndarray) -> Matches:
        """Find points (n, 3), RAS mm of the template, in the target."""
        found = match_all(self.template, points_ras, [self.target])[0]
        return _following(self.there, points_ras, self.target, found)

    def inverse(self) -> Self:
        """Return the pair with template and target exchanged."""
        return type(self)(self.target, self.template, self.back, self.there)


def film_answers(
    template: EmbeddingMap, points_ras: np.ndarray, target: EmbeddingMap, found: Matches, effort: str
) -> Matches:
    """Return the answers for points (n, 3), RAS mm of a film, from their matches `found`.

    With the efforts "standard" and "thorough", the answers follow the displacement of the whole film, if the films have
    enough in common. No answer is "matched", because the program does not recognise films of other parts of the body.
    """
    return _following(None if effort in EFFORTS[:2] else _transform(template, target), points_ras, target, found)


def _transform(template: EmbeddingMap, target: EmbeddingMap) -> FilmTransform | None:
    try:
        return register_films(template, target)
    except AnatomicalEmbeddingError:
        return None


def _following(
    transform: FilmTransform | None, points_ras: np.ndarray, target: EmbeddingMap, found: Matches
) -> Matches:
    """Return the matches `found`, moved to where `transform` leads; at their places if it is None."""
    if found.status is not None:
        found = replace(found, status=at_most_uncertain(found.status, np.full(len(found), True)))
    if transform is None:
        return found
    places = transform.transform_points(points_ras)
    places[:, 1] = found.points_ras[:, 1]
    if found.status is None:
        return replace(found, points_ras=places)
    beyond = ~target.in_body(places)  # outside the film, or behind the collimator
    return replace(
        found,
        points_ras=np.where(beyond[:, None], found.points_ras, places),
        status=np.where(beyond, ABSENT, found.status),
        probability=np.where(beyond, 0.0, found.probability),
    )


def register_films(template: EmbeddingMap, target: EmbeddingMap) -> FilmTransform:
    """Register two films: by their body coordinates, then by their descriptors.

    Raises AnatomicalEmbeddingError if the films have too few places in common.
    """
    low, high = bounds_of(template.scan_to_ras, template.scan_shape)
    best = FilmTransform(_align_coordinates(template, target), SplineField.over(low, high, KNOT_MM))
    for reach in _REACH:
        matches = _compared(template, target, best, reach)
        affine = fit_affine(matches)
        best = FilmTransform(affine, fit_field(matches, affine, low, high, _SMOOTH, _KNEE_MM, _ROUNDS, _STEPS))
    return best


def _align_coordinates(template: EmbeddingMap, target: EmbeddingMap) -> np.ndarray:
    """Align two films by the affine functions of R and S that fit their body coordinates.

    Returns the matrix (4, 4) from RAS mm of the template to RAS mm of the target.
    """
    plane = [0, 2]
    (one, _), (other, _) = (robust_affine(*(of[:, plane] for of in cell_points(film))) for film in (template, target))
    back = np.linalg.pinv(other[:2])
    matrix = np.eye(4)
    matrix[np.ix_(plane, plane)] = (one[:2] @ back).T
    matrix[plane, 3] = (one[2] - other[2]) @ back
    return matrix


def _compared(template: EmbeddingMap, target: EmbeddingMap, start: FilmTransform, reach: int) -> GridMatches:
    """Find the cells of the template in the target, at most `reach` cells from where `start` leads."""
    own, seen = _plane(template)
    rows, columns = seen.shape
    k, i = np.indices(seen.shape).reshape(2, -1)
    cells = np.column_stack([i, np.full_like(i, template.body.shape[1] // 2), k])
    places = transform_points(template.cell_to_ras, cells)
    lattice = Lattice(tuple(places[0].tolist()), tuple(template.cell_mm.tolist()), (columns, 1, rows))

    # the target's descriptors, moved onto the template
    there = transform_points(start.affine, places) + start.field.on(lattice).flatten(1).T.numpy()
    there = transform_points(target.ras_to_cell, there)[:, [0, 2]]
    grid, shown = _plane(target)
    at = (torch.from_numpy(there).float() + 0.5) * (2 / torch.tensor(grid.shape[:0:-1])) - 1
    grid = torch.cat([grid, shown[None]])[None]
    moved = F.grid_sample(grid, at.view(1, rows, columns, 2), align_corners=False)[0]
    shown = (moved[-1:] > 0.5).float()
    moved = F.pad(torch.cat([F.normalize(moved[:-1], dim=0) * shown, shown]), (reach,) * 4)

    shifts = list(product(range(2 * reach + 1), repeat=2))  # along k and i
    parts = [moved[:, k : k + rows, i : i + columns] for k, i in shifts]
    held = torch.stack([part[-1] for part in parts]) * seen
    alike = torch.stack([(own * part[:-1]).sum(0) for part in parts]) * held
    down, across = (_block_weights(n, float(template.cell_mm[0])) for n in (rows, columns))
    alike, share, whole = (down @ each @ across for each in (alike, held, seen))
    score = (1 + _UNSEEN) * alike / (share + _UNSEEN * whole).clamp_min(1e-6)
    score = score.masked_fill(held == 0, -torch.inf).flatten(1).T
    kept = torch.nonzero(torch.isfinite(score).any(1)).flatten()
    score, shift_mm = score[kept], (torch.tensor(shifts) - reach) * float(template.cell_mm[0])
    best = (score - _PRIOR_WEIGHT * (shift_mm / _PRIOR_MM).square().sum(1)).argmax(1)
    shift_mm = shift_mm[best] + peak_offsets(score, best, (2 * reach + 1,) * 2) * float(template.cell_mm[0])

    fixed = places[kept.numpy()]
    moving = start.transform_points(fixed + np.insert(shift_mm.numpy()[:, ::-1], 1, 0.0, axis=1))
    similarity = score.gather(1, best[:, None])[:, 0]
    weight = similarity.double().clamp_min(_LEAST_SIMILARITY).square().numpy()
    index = cells[kept.numpy()] * (1, 0, 1)
    return GridMatches(lattice, index, fixed, moving, weight, weight, len(fixed))


def _plane(film: EmbeddingMap) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean descriptors of a film's cells, (l, k, i) of length 1, and 1.0 in the body, else 0.0, (k, i)."""
    local, body = F.normalize(film.local[:, :, 0].float(), dim=0), film.body[:, 0].float()
    return F.normalize(F.avg_pool2d(local, 2), dim=0), body


def _block_weights(count: int, cell_mm: float) -> torch.Tensor:
    """Return the weights (count, count) of the cells of a row in the averages around each of them."""
    apart = torch.arange(count) - torch.arange(count)[:, None]
    gauss = torch.exp(-(apart * cell_mm).square() / (2 * _BLOCK_MM**2)) * (apart.abs() <= _BLOCK_CELLS)
    return gauss / gauss[count // 2].sum()
