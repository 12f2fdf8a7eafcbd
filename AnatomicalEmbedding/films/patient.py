"""Points of a CT in a film of the patient, and places of a film as lines through the CT.

The CT is projected to a film with known rays. This film and the patient's film are then matched as any two films.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..embedding.map import EmbeddingMap
from ..matching.match import Matches, match_all
from ..registration.films import FilmPair, film_answers
from ..scan.geometry import LPS_FROM_RAS, transform_points
from ..scan.markups import control_point, markup
from ..scan.volume import Volume
from .projection import Beam, Tissue, film_of, read_volume, straight_beam

_LEAST_DENSITY = 0.05  # relative to water; a ray enters the body where the density is higher
_CENTRAL = 0.5  # the likeliest depth divides the tissue along a ray in this proportion


@dataclass(frozen=True, eq=False)
class Rays:
    """Lines through a CT that n places of a film show.

    Args:
        likeliest_ras: (n, 3) RAS mm, the point of each line before and behind which there is the same mass of tissue.
        ends_ras: (n, 2, 3) RAS mm, where each line enters the body at the back and leaves it at the front.
    """

    likeliest_ras: np.ndarray
    ends_ras: np.ndarray

    def markups(self, labels: tuple[str, ...]) -> list[dict]:
        """Return the lines as markups of Slicer."""
        ends_lps = transform_points(LPS_FROM_RAS, self.ends_ras).tolist()
        return [
            markup("Line", label, [control_point(n + 1, label, end) for n, end in enumerate(ends)])
            for label, ends in zip(labels, ends_lps, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class CTAndFilm:
    """A CT and a film of the patient, registered once. films: the film of the CT, and the patient's film."""

    projected: ProjectedCT
    films: FilmPair

    def points(self, points_ras: np.ndarray) -> Matches:
        """Find points (n, 3), RAS mm of the CT, in the film."""
        return self.films.points(self.projected.beam.to_film(points_ras))

    def inverse(self) -> None:
        """Return None: a place of a film has no single place in a CT."""


@dataclass(frozen=True, eq=False)
class ProjectedCT:
    """A CT, its film, and the rays between both."""

    volume: Volume
    tissue: Tissue
    beam: Beam
    film: Volume

    @classmethod
    def of(cls, volume: Volume) -> ProjectedCT:
        """Project a CT. Raises VolumeError if the CT shows no patient."""
        tissue = Tissue.of(volume)
        beam = straight_beam(tissue)
        return cls(volume, tissue, beam, replace(film_of(tissue, beam, volume.name), path=volume.path))

    def find_in_film(self, points_ras: np.ndarray, own: EmbeddingMap, film: EmbeddingMap, effort: str) -> Matches:
        """Find points (n, 3) RAS mm of the CT in a film of the patient. Returns matches in RAS mm of the film.

        own: map of the projected film, `self.film`.
        """
        return _answers(own, self.beam.to_film(points_ras), film, effort)

    def find_lines(
        self, film: EmbeddingMap, points_ras: np.ndarray, own: EmbeddingMap, effort: str
    ) -> tuple[Matches, Rays]:
        """Find places (n, 3), RAS mm of a film of the patient, in the CT. own: as for `find_in_film`.

        Returns matches whose points are the likeliest points of the lines, RAS mm of the CT; and the lines.
        """
        found = _answers(film, points_ras, own, effort)
        rays = self.rays(found.points_ras)
        return replace(found, points_ras=rays.likeliest_ras), rays

    def rays(self, film_ras: np.ndarray) -> Rays:
        """Return the lines that places (n, 3), RAS mm of the projected film, show."""
        depths, _ = self.tissue.depths(self.beam)
        places = self.beam.at_depth(film_ras, depths[:, None])
        density = read_volume(self.tissue.values, self.tissue.grid_to_ras, places).sum(0).numpy()
        dense = density > _LEAST_DENSITY
        first = dense.argmax(axis=0)
        last = len(depths) - 1 - dense[::-1].argmax(axis=0)
        mass = np.cumsum(density, axis=0)
        middle = (mass >= _CENTRAL * mass[-1]).argmax(axis=0)
        row = np.arange(len(film_ras))
        return Rays(places[middle, row], np.stack([places[first, row], places[last, row]], axis=1))


def _answers(template: EmbeddingMap, points_ras: np.ndarray, target: EmbeddingMap, effort: str) -> Matches:
    """Find points (n, 3), RAS mm, of a film in another film of the patient."""
    found = match_all(template, points_ras, [target], effort)[0]
    return film_answers(template, points_ras, target, found, effort, same_patient=True)
