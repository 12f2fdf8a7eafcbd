"""Answers in a film: a smooth displacement that follows the matches of the whole film.

A place of a film shows several structures on top of each other, so the match of a single point errs more than in a CT.
So the films are aligned first, by affine functions of R and S that fit their body coordinates. Then the descriptors
are compared on a grid, around the places to which the alignment leads, and an affine transform with a smooth
displacement is fitted to the matches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch

from ..embedding.coverage import cell_points, robust_affine
from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError
from ..matching import EFFORTS
from ..matching.blocks import describe_blocks, match_blocks
from ..matching.coordinates import into_body
from ..matching.match import Matches, match_all
from ..matching.status import ABSENT, at_most_uncertain
from ..matching.target_batch import TargetRows
from ..scan.geometry import bounds_of, transform_points
from .affine import GridMatches, fit_affine
from .register import KNOT_MM, fit_field
from .spline import Lattice, SplineField

_GRIDS_MM = (28.0, 24.0)  # spacing of the points in each round
_LEAST_SIMILARITY = 0.05
_SMOOTH, _KNEE_MM = 0.03, 8.0  # arguments of `fit_field`: the shapes of hearts and lungs differ much


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
    for spacing_mm in _GRIDS_MM:
        best = _improved(template, target, best, spacing_mm)
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


def _improved(template: EmbeddingMap, target: EmbeddingMap, start: FilmTransform, spacing_mm: float) -> FilmTransform:
    """Compare the descriptors around the places to which `start` leads, on a grid of points."""
    body_low, body_high = template.body_bounds_ras
    lattice = Lattice.within(body_low, body_high, spacing_mm)
    low, high = bounds_of(template.scan_to_ras, template.scan_shape)
    points = lattice.points_ras()
    points[:, 1] = (low[1] + high[1]) / 2
    kept = template.in_body(points)
    index, points = np.column_stack(np.unravel_index(np.flatnonzero(kept), lattice.shape)[::-1]), points[kept]
    rows = TargetRows.each([target], len(points))
    places = transform_points(target.ras_to_cell, start.transform_points(points))
    blocks = describe_blocks(template, torch.from_numpy(transform_points(template.ras_to_cell, points)))
    found = match_blocks(blocks, rows, into_body(target, torch.from_numpy(places)))
    moving = transform_points(target.cell_to_ras, found.cells.numpy())
    weight = found.similarity.double().clamp_min(_LEAST_SIMILARITY).square().numpy()
    matches = GridMatches(lattice, index, points, moving, weight, weight, len(points))
    affine = fit_affine(matches)
    return FilmTransform(affine, fit_field(matches, affine, low, high, _SMOOTH, _KNEE_MM))
