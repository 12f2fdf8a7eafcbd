"""Answers in a film: a smooth displacement that follows the matches of the whole film.

A place of a film shows several structures on top of each other, so the match of a single point errs more than in a CT.
So the films are aligned first, by affine functions of R and S that fit their body coordinates. Then the descriptors
of all places are compared, around the places to which the alignment leads, and an affine transform with a smooth
displacement is fitted to the matches. `matching.blocks` compares descriptors in the same way around single points;
here, the target is first moved onto the template, so that one shift of the whole film moves all places.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.coverage import cell_points, robust_affine
from ..embedding.grid_reading import peak_offsets, sample_positions
from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError
from ..fields.spline import Lattice, SplineField
from ..matching.match import Matches, match_all
from ..matching.status import ABSENT, at_most_uncertain
from ..scan.geometry import bounds_of, transform_points
from . import BY_MATCH
from .affine import GridMatches, fit_affine
from .register import KNOT_MM, fit_field

_REACH = (4, 3, 3)  # largest shift along R and S in each round that compares descriptors, in cells
# standard deviation of the Gaussian that averages similarities
_BLOCK_MM, _EDGE_BLOCK_MM = 10.0, 7.0
_PRIOR_WEIGHT, _PRIOR_MM = 0.05, 12.0  # a shift of _PRIOR_MM lowers the similarity by _PRIOR_WEIGHT
_UNSEEN = 0.2  # strength of the penalty if a part of the block is not shown in the target
# a smaller similarity of descriptors, or of edges, counts as this
_LEAST_SIMILARITY, _LEAST_EDGES = 0.05, 0.02
_SHOWN = 0.7  # places are compared where the target should show at least this share of their surroundings
_EVERY = 2  # edges are compared around each pixel of this number of pixels along R and S
_FLAT = 0.03  # a gradient of this length, in shares of the whole range of grey levels, has half the weight of an edge
# largest shift in steps of _EVERY pixels, and distance of the knots
_EDGE_REACH, _EDGE_KNOT_MM = 3, 16.0
_LEAST_ALIKE = 0.54  # mean similarity of chest films: 0.57 to 0.69; of a chest film and a film of another kind: to 0.53
# smooth, knee_mm, rounds and steps of `fit_field`: the shapes of hearts and lungs differ much
_FIT = (0.15, 8.0, 2, 8)


@dataclass(frozen=True, eq=False)
class FilmTransform:
    """The places of one film in another film: an affine transform (4, 4), RAS mm, and a displacement after it.

    similarity: mean similarity of the descriptors at the same places of both films, 0 to 1.
    """

    affine: np.ndarray
    field: SplineField
    similarity: float = 0.0

    def transform_points(self, points_ras: np.ndarray) -> np.ndarray:
        """Transform points (n, 3) RAS mm."""
        return transform_points(self.affine, points_ras) + self.field.at(points_ras)


@dataclass(frozen=True, eq=False)
class FilmPair:
    """A relation of two films. No answer is "matched", because the expected errors were learned from projected films.

    With the effort "standard", the answers follow the displacement of the whole film, if the films have enough in
    common; the films are registered at the first use. If the films are not alike, such as films of a chest and of
    another part of the body, all points are absent.

    Args:
        template, target: maps of the films.
        effort: see `match_all`.
        same_patient: the films are known to show one patient's chest, so they are not tested for being alike. Projected
            films and radiographs of one patient are less alike than radiographs of two patients.
    """

    template: EmbeddingMap
    target: EmbeddingMap
    effort: str = "standard"
    same_patient: bool = False
    found_by = BY_MATCH
    refusal = ""

    def points(self, points_ras: np.ndarray) -> Matches:
        """Find points (n, 3), RAS mm of the template, in the target."""
        # places are replaced by those of the whole displacement, but the expected errors are those of the matches
        matches = match_all(self.template, points_ras, [self.target], self.effort)[0]
        if matches.status is not None:
            matches = replace(matches, status=at_most_uncertain(matches.status, True))
        if self.transform is None:
            return matches
        places = self.transform.transform_points(points_ras)
        places[:, 1] = matches.points_ras[:, 1]  # a film has no depth
        if matches.status is None:
            return replace(matches, points_ras=places)
        is_absent = ~self.target.in_body(places)  # outside the film, or behind the collimator
        if not self.same_patient and self.transform.similarity < _LEAST_ALIKE:
            is_absent[:] = True
        return replace(
            matches,
            points_ras=np.where(is_absent[:, None], matches.points_ras, places),
            status=np.where(is_absent, ABSENT, matches.status),
            probability=np.where(is_absent, 0.0, matches.probability),
            probability_20=np.where(is_absent, 0.0, matches.probability_20),
            present=np.where(is_absent, 0.0, matches.present),
        )

    @cached_property
    def transform(self) -> FilmTransform | None:
        """The displacement of the whole film; None if it is not used, or if the films have too few places in common."""
        if self.effort != "standard":
            return None
        try:
            return register_films(self.template, self.target)
        except AnatomicalEmbeddingError:
            return None

    @cached_property
    def _inverse(self) -> Self:
        """The result of `inverse`, always the same object, so that its `transform` is computed only once."""
        return replace(self, template=self.target, target=self.template)

    def inverse(self) -> Self:
        """Return the pair with template and target exchanged."""
        return self._inverse

    def prepare(self) -> None:
        """Register the films in both directions; `transform` keeps the result."""
        for pair in (self, self.inverse()):
            _ = pair.transform


def register_films(template: EmbeddingMap, target: EmbeddingMap) -> FilmTransform:
    """Register two films: by their body coordinates, then by their descriptors, then by the edges in their images.

    Raises AnatomicalEmbeddingError if the films have too few places in common.
    """
    low, high = bounds_of(template.scan_to_ras, template.scan_shape)
    best = FilmTransform(_align_coordinates(template, target), SplineField.over(low, high, KNOT_MM))
    planes = _descriptor_plane(template), _descriptor_plane(target)
    for reach in _REACH:
        matches = _compare(*planes, best, reach, _BLOCK_MM, _LEAST_SIMILARITY)
        affine = fit_affine(matches)
        field = fit_field(matches, affine, low, high, *_FIT)
        best = FilmTransform(affine, field)
    edges = _edge_plane(template), _edge_plane(target)
    matches = _compare(*edges, best, _EDGE_REACH, _EDGE_BLOCK_MM, _LEAST_EDGES, _EVERY)
    field = fit_field(matches, affine, low, high, *_FIT, _EDGE_KNOT_MM)
    best = FilmTransform(affine, field)
    # without a shift, only to measure the similarity, whose square is the weight
    weight = _compare(*planes, best, 0, _BLOCK_MM, 0.0).weight
    return replace(best, similarity=float(np.sqrt(weight).mean()))


def _align_coordinates(template: EmbeddingMap, target: EmbeddingMap) -> np.ndarray:
    """Align two films by the affine functions of R and S that fit their body coordinates.

    Returns the matrix (4, 4) from RAS mm of the template to RAS mm of the target.
    """
    plane = [0, 2]  # R and S
    fits = []  # (3, 2) of each film: body coordinates = [r, s, 1] @ fit
    for film in (template, target):
        ras, body = cell_points(film)
        fit, _ = robust_affine(ras[:, plane], body[:, plane])
        fits.append(fit)
    template_fit, target_fit = fits
    inverse = np.linalg.pinv(target_fit[:2])
    matrix = np.eye(4)
    matrix[np.ix_(plane, plane)] = (template_fit[:2] @ inverse).T  # for points as columns
    matrix[plane, 3] = (template_fit[2] - target_fit[2]) @ inverse
    return matrix


@dataclass(frozen=True, eq=False)
class _Plane:
    """Vectors on a grid of places of a film. Two places are compared by the scalar product of their vectors.

    vectors: (c, k, i). body: (k, i), 1.0 in the body, else 0.0. first_ras: (3,) mm, place (0, 0). step_mm: distance of
    neighbouring places along R and S.
    """

    vectors: torch.Tensor
    body: torch.Tensor
    first_ras: np.ndarray
    step_mm: float

    def lattice(self, every: int = 1) -> Lattice:
        """Return a grid of each `every`-th place."""
        rows, columns = (-(-n // every) for n in self.body.shape)
        return Lattice(
            tuple(self.first_ras.tolist()), (self.step_mm * every,) * 3, (columns, 1, rows)
        )

    def read(self, places_ras: np.ndarray, shape: torch.Size) -> torch.Tensor:
        """Return the vectors at places (n, 3) RAS mm, and 1.0 if they are shown: (c + 1, *shape); 0 elsewhere."""
        index = (places_ras - self.first_ras)[:, [0, 2]] / self.step_mm  # i, k
        grid = torch.cat([self.vectors, self.body[None]])[None]
        positions = sample_positions(torch.from_numpy(index).float(), grid.shape)
        samples = F.grid_sample(grid, positions.view(1, *shape, 2), align_corners=False)[0]
        inside = (samples[-1:] > 0.5).float()
        return torch.cat([samples[:-1] * inside, inside])


def _descriptor_plane(film: EmbeddingMap) -> _Plane:
    """Return the mean descriptors of a film's cells, of length 1."""
    local = F.normalize(film.local[:, :, 0].float(), dim=0)  # 2 x 2 descriptors in each cell
    first = transform_points(film.cell_to_ras, np.array([[0, film.body.shape[1] // 2, 0]]))[0]
    vectors = F.normalize(F.avg_pool2d(local, 2), dim=0)
    return _Plane(vectors, film.body[:, 0].float(), first, float(film.cell_mm[0]))


def _edge_plane(film: EmbeddingMap) -> _Plane:
    """Return the directions of the gradient of a film's grey levels; the vectors of flat places are short."""
    image = film.image[:, 0].float() / 255
    down = F.pad(image[2:] - image[:-2], (0, 0, 1, 1))
    across = F.pad(image[:, 2:] - image[:, :-2], (1, 1))
    gradient = torch.stack([down, across])  # (2, k, i)
    vectors = gradient / (gradient.norm(dim=0) + _FLAT)
    body = film.body[:, 0].float()
    share = vectors.shape[-1] / body.shape[-1]  # places in a cell, along R and S
    pixels_body = F.interpolate(body[None, None], scale_factor=share)[0, 0]
    first = (1 / share - 1) / 2  # centre of the first pixel, in cells
    cell = np.array([[first, film.body.shape[1] // 2, first]])
    first_ras = transform_points(film.cell_to_ras, cell)[0]
    return _Plane(vectors, pixels_body, first_ras, float(film.cell_mm[0]) / share)


def _compare(
    template: _Plane,
    target: _Plane,
    start: FilmTransform,
    reach: int,
    block_mm: float,
    least: float,
    every: int = 1,
) -> GridMatches:
    """Find each `every`-th place of the template in the target.

    The target is moved onto the template. Then it is shifted by each number of steps up to `reach`, and compared.

    Args:
        template, target: the films.
        start: where the places of the template lie in the target, about.
        reach: how many steps, of `every` places each, an answer may be away from there, along R and S.
        block_mm: standard deviation of the Gaussian that averages the similarities around a place.
        least: smaller similarities get the weight of this similarity.
        every: distance of the compared places, in places.

    Raises AnatomicalEmbeddingError if the target shows no place of the template.
    """
    lattice = template.lattice(every)
    # s shifts along k and i, in steps; the middle one is no shift
    shifts = torch.cartesian_prod(*[torch.arange(-reach, reach + 1)] * 2)
    score, overlaps = _scores(template, target, start, shifts, block_mm, every)
    usable = torch.nonzero(torch.isfinite(score).any(1) & overlaps).flatten()
    if not len(usable):
        raise AnatomicalEmbeddingError(
            "the films have no places in common; choose films of one part of the body."
        )
    score = score[usable]
    step_mm = lattice.spacing_mm[0]
    shift_mm = shifts * step_mm
    prior = _PRIOR_WEIGHT * (shift_mm / _PRIOR_MM).square().sum(1)
    best = (score - prior).argmax(1)
    shift_mm = shift_mm[best] + peak_offsets(score, best, (2 * reach + 1,) * 2) * step_mm
    similarity = score.gather(1, best[:, None])[:, 0]
    weight = similarity.double().clamp_min(least).square().numpy()

    places = usable.numpy()
    k, i = np.unravel_index(places, lattice.shape[::2])
    index = np.column_stack([i, np.zeros_like(i), k])
    fixed = lattice.points_ras()[places]
    shift_ras = np.insert(shift_mm.numpy()[:, ::-1], 1, 0.0, axis=1)  # from S, R to R, A, S
    moving = start.transform_points(fixed + shift_ras)
    return GridMatches(lattice, index, fixed, moving, weight, weight, len(fixed))


def _scores(
    template: _Plane,
    target: _Plane,
    start: FilmTransform,
    shifts: torch.Tensor,
    block_mm: float,
    every: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean similarity around each of n places at each of s shifts, (n, s), and whether the unshifted target
    shows most of the surroundings of each place, (n,) bool.

    The similarity is lowered where the target does not show a part of the block, and -inf where it shows nothing.

    Args:
        template, target, start, block_mm, every: as in `_compare`.
        shifts: (s, 2) along k and i, in steps of `every` places; the middle one is 0.
    """
    rows, columns = template.body.shape
    margin = int(shifts.max()) * every
    # (c + 1, k, i): the target on the template, with a margin for the shifts
    moved = F.pad(_moved_onto(template, target, start), (margin,) * 4)
    alike, shown = [], []
    for k, i in (shifts * every + margin).tolist():
        shifted = moved[:, k : k + rows, i : i + columns]
        alike.append((template.vectors * shifted[:-1]).sum(0))
        shown.append(shifted[-1])
    both_shown = torch.stack(shown) * template.body  # (s, k, i)
    deviation = block_mm / template.step_mm
    down = _block_weights(rows, every, deviation)
    across = _block_weights(columns, every, deviation).T
    # sums over the block around each place
    similarity = down @ (torch.stack(alike) * both_shown) @ across
    share = down @ both_shown @ across
    template_share = down @ template.body @ across
    score = (1 + _UNSEEN) * similarity / (share + _UNSEEN * template_share).clamp_min(1e-6)
    score = score.masked_fill(both_shown[:, ::every, ::every] == 0, -torch.inf)
    overlaps = share[len(shifts) // 2] > _SHOWN * template_share
    return score.flatten(1).T, overlaps.flatten()


def _moved_onto(template: _Plane, target: _Plane, start: FilmTransform) -> torch.Tensor:
    """Return what `_Plane.read` reads of the target where `start` leads the places of the template: (c + 1, k, i)."""
    lattice = template.lattice()
    displacement = start.field.on(lattice).flatten(1).T.numpy()
    places = transform_points(start.affine, lattice.points_ras()) + displacement
    return target.read(places, template.body.shape)


def _block_weights(count: int, every: int, deviation: float) -> torch.Tensor:
    """Return the weights (n, count) of the `count` places of a row in the averages around each `every`-th place.

    deviation: standard deviation, in places.
    """
    distance = (torch.arange(count) - torch.arange(0, count, every)[:, None]).abs() / deviation
    gauss = torch.exp(-distance.square() / 2) * (distance < 2)
    return gauss / gauss[len(gauss) // 2].sum()
