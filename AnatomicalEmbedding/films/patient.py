"""Points of a CT in a film of the patient, and places of a film as lines through the CT.

The CT is projected to a film with known rays. This film and the patient's film are then matched as any two films.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..matching.match import Matches
from ..registration import BY_MATCH
from ..registration.films import FilmPair
from ..scan.geometry import LPS_FROM_RAS, transform_points
from ..scan.markups import control_point, markup
from ..scan.volume import Film, Volume
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
class ProjectedCT:
    """A CT, its film, and the rays between both."""

    volume: Volume
    tissue: Tissue
    beam: Beam
    film: Film

    @classmethod
    def of(cls, volume: Volume) -> ProjectedCT:
        """Project a CT. Raises VolumeError if the CT shows no patient."""
        tissue = Tissue.of(volume)
        beam = straight_beam(tissue)
        film = replace(film_of(tissue, beam, volume.name), path=volume.path)
        return cls(volume, tissue, beam, film)

    def rays(self, film_ras: np.ndarray) -> Rays:
        """Return the lines that places (n, 3), RAS mm of the projected film, show."""
        depths, _ = self.tissue.depths(self.beam)
        # (d, n, 3) RAS mm of the CT, from the back to the front
        places = self.beam.at_depth(film_ras, depths[:, None])
        density = read_volume(self.tissue.values, self.tissue.grid_to_ras, places).sum(0).numpy()
        # for each ray, the indices of the first and the last depth in the body, and of the middle of the mass
        dense = density > _LEAST_DENSITY
        first = dense.argmax(axis=0)
        last = len(depths) - 1 - dense[::-1].argmax(axis=0)
        mass = np.cumsum(density, axis=0)
        middle = (mass >= _CENTRAL * mass[-1]).argmax(axis=0)
        ray = np.arange(len(film_ras))
        return Rays(places[middle, ray], np.stack([places[first, ray], places[last, ray]], axis=1))


@dataclass(frozen=True, eq=False)
class _CTAndFilm:
    """A CT and a film of the patient. projection: the film of the CT. films: relates this film and the patient's."""

    projection: ProjectedCT
    films: FilmPair
    found_by = BY_MATCH
    refusal = ""

    def prepare(self) -> None:
        """Register the two films in both directions."""
        self.films.prepare()


class CTInFilm(_CTAndFilm):
    """The relation of a CT to a film of the patient. films: from the film of the CT to the patient's film."""

    def points(self, points_ras: np.ndarray) -> Matches:
        """Find points (n, 3), RAS mm of the CT, in the film."""
        return self.films.points(self.projection.beam.to_film(points_ras))

    def inverse(self) -> FilmInCT:
        """Return the relation of the film to the CT."""
        return FilmInCT(self.projection, self.films.inverse())


class FilmInCT(_CTAndFilm):
    """The relation of a film to a CT of the patient. films: from the patient's film to the film of the CT.

    A place of a film is a line through the CT. The answer is the likeliest point of this line.
    """

    def points(self, points_ras: np.ndarray) -> Matches:
        """Find the likeliest points of places (n, 3), RAS mm of the film, in the CT."""
        matches = self.films.points(points_ras)
        return replace(matches, points_ras=self.projection.rays(matches.points_ras).likeliest_ras)

    def rays(self, matches: Matches) -> Rays:
        """Return the lines on which answers in the CT lie."""
        return self.projection.rays(self.projection.beam.to_film(matches.points_ras))

    def inverse(self) -> CTInFilm:
        """Return the relation of the CT to the film."""
        return CTInFilm(self.projection, self.films.inverse())
