"""Calibrate weights for films: matches between projected films, whose true places are known.

There are three kinds of pairs: films of two CTs that are registered with one atlas, two films of one CT, and films of
two synthetic patients. The collimator cuts some films, so that points are absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import torch

from ..embedding.calibration import Calibration
from ..embedding.inference import Model, load_model
from ..embedding.map import EmbeddingMap
from ..errors import ProgressCallback
from ..matching.match import Matches
from ..phantom import make_phantom
from ..registration.films import FilmPair
from ..scan.geometry import transform_points
from ..scan.sources import find_scans
from ..scan.volume import Film, Volume
from ..structures.label_names import LANDMARK
from ..training.calibrate import BENT, LABELLED, PHANTOMS, learn
from ..training.known_matches import Trial
from .preparation import CHEST_MM, PHANTOM_MM, Atlas, ToBody
from .projection import Tissue, cut_film, film_of, random_beam

_POINTS, _PIXEL_MM = 150, 2.0
_SAME = 3  # pairs of films of each CT
# points of a CT among which the counterparts of another CT's points are searched
_CANDIDATES = 20_000
_APART_MM = 3.0  # largest distance of counterparts in the atlas
_NEAR_MM = 10.0  # points this near to the collimator are left out


@dataclass(frozen=True, eq=False)
class Patient:
    """A CT with the function from its RAS mm to body coordinates."""

    tissue: Tissue
    to_body: ToBody

    def points(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return random points (n, 3), RAS mm, in the tissue."""
        filled = torch.nonzero(self.tissue.values[0, 0] > 0.5).flip(1).numpy()  # i, j, k
        chosen = filled[rng.integers(len(filled), size=count)]
        return transform_points(self.tissue.grid_to_ras, chosen)

    def counterparts(
        self, points_ras: np.ndarray, partner: Patient, rng: np.random.Generator
    ) -> np.ndarray:
        """Return the places (n, 3) of points in the other patient, RAS mm; NaN for points without counterpart.

        Args:
            points_ras: (n, 3) RAS mm.
            partner: the other patient.
            rng: random numbers.
        """
        if self is partner:
            return points_ras
        candidates = partner.points(_CANDIDATES, rng)
        body, candidate_body = (
            torch.from_numpy(points).float()
            for points in (self.to_body(points_ras), partner.to_body(candidates))
        )
        distance, nearest = torch.cdist(body, candidate_body).min(1)
        is_near = (distance <= _APART_MM).numpy()
        return np.where(is_near[:, None], candidates[nearest.numpy()], np.nan)


def calibrate_films(
    model: Model,
    folders: Sequence[Path],
    atlas: Path,
    weights: str,
    phantom_seeds: Sequence[int],
    progress: ProgressCallback,
) -> Calibration:
    """Learn the calibration of a model for films from the CTs in folders and from synthetic patients.

    Args:
        atlas: CT with which the CTs are registered.
        weights: name or file of the weights that register the CTs.
        phantom_seeds: the synthetic patients.

    Raises the errors of `training.calibrate.learn`.
    """
    skipped: list[str] = []
    scans = find_scans(folders, skipped.append)
    registering = load_model(weights, "cpu")
    reference = Atlas.of(Volume.read(atlas), registering)

    volumes = [source.read() for source in scans.values()]
    cts = [Patient(Tissue.of(ct), reference.body_of(ct, registering)) for ct in volumes]
    phantoms = [make_phantom(seed, PHANTOM_MM, CHEST_MM) for seed in phantom_seeds]
    synthetic = [Patient(Tissue.of(phantom.volume), phantom.to_body) for phantom in phantoms]
    pairs = {
        LABELLED: list(permutations(cts, 2)),
        BENT: [(patient, patient) for patient in cts for _ in range(_SAME)],
        PHANTOMS: list(pairwise(synthetic)),
    }
    trials = {}  # films are made when `learn` asks for them
    for seed, (source, patients) in enumerate(pairs.items()):
        trials[source] = film_trials(patients, seed, model)
    expected = 2 * sum(map(len, pairs.values()))
    return learn(
        model, trials, expected, {"scans": list(scans), "skipped": skipped}, progress, _find
    )


def _find(
    template: EmbeddingMap, points_ras: np.ndarray, target: EmbeddingMap, effort: str
) -> Matches:
    """Match points as `training.calibrate.learn` needs it."""
    return FilmPair(template, target, effort).points(points_ras)


@dataclass(frozen=True, eq=False)
class KnownFilms:
    """Three films with known matches: of one patient, of another patient, and the latter cut by the collimator.

    first_ras, second_ras: (n, 3) RAS mm, places of the same points in the first film and in the other films.
    """

    films: tuple[Film, Film, Film]
    first_ras: np.ndarray
    second_ras: np.ndarray


def project_pair(patient: Patient, partner: Patient, seed: Sequence[int]) -> KnownFilms:
    """Make films of two patients, or two films of one patient, and random points that both patients have.

    Args:
        patient, partner: the patients.
        seed: seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    beams = random_beam(patient.tissue, rng), random_beam(partner.tissue, rng)
    first, second = (
        film_of(tissue, beam, "film", rng, _PIXEL_MM)
        for tissue, beam in zip((patient.tissue, partner.tissue), beams, strict=True)
    )
    points = patient.points(_POINTS, rng)
    truth = patient.counterparts(points, partner, rng)
    is_known = np.isfinite(truth).all(axis=1)
    places = beams[0].to_film(points[is_known]), beams[1].to_film(truth[is_known])
    return KnownFilms((first, second, cut_film(second, rng)), *places)


def film_trials(
    pairs: Iterable[tuple[Patient, Patient]], seed: int, model: Model
) -> Iterator[Trial]:
    """Yield for each pair of patients a trial with the whole second film, and one with the cut film.

    Args:
        pairs: the patients.
        seed: seed of the random numbers.
        model: the model for films.
    """
    for n, (patient, partner) in enumerate(pairs):
        known = project_pair(patient, partner, [seed, n])
        template, whole, cut = map(model.embed, known.films)
        visible = known.films[0].contains(known.first_ras) & template.in_body(known.first_ras)
        first = known.first_ras[visible]
        second = known.second_ras[visible]
        for target in (whole, cut):
            # points near the collimator count neither as shown nor as absent
            below, inside, above = (
                target.in_body(second + np.array((0, 0, z))) for z in (-_NEAR_MM, 0, _NEAR_MM)
            )
            clear = (inside == below) & (inside == above)
            places = np.where(inside[:, None], second, np.nan)
            kinds = (LANDMARK,) * int(clear.sum())
            yield Trial(template, first[clear], target, places[clear], target is whole, kinds)
