"""Measure matching in chest films (JSRT, 166 landmarks each), and from CTs to films.

    python Testing/benchmarks/films.py jsrt DATA/xray/jsrt170.npz [--model FILE]
    python Testing/benchmarks/films.py projections DATA [--model FILE]

jsrt: 50 films, drawn once, are the targets; five other films are the templates, one by one, then all five at once
(median of the five answers). projections: points of unseen CTs and synthetic patients in their
projected films, and back. Point error: distance of each answer from its landmark. Curve error: from its contour.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from AnatomicalEmbedding.embedding.inference import Model, load_model
from AnatomicalEmbedding.films.patient import ProjectedCT
from AnatomicalEmbedding.films.projection import Tissue, film_of, random_beam
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.registration.films import FilmPair
from AnatomicalEmbedding.relations.one_patient import MappedScan
from AnatomicalEmbedding.relations.relate import ProjectedScan, relate
from AnatomicalEmbedding.scan.film import film_matrix
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.volume import Film, Volume

PIXEL_MM, FILMS, TEMPLATES, SEED = 1.4, 50, 5, 0
UNSEEN = (
    "train/rjs_chest", "train/lung1_141", "train/segthor_04", "train/segthor_06", "dev/segthor_10", "dev/segthor_35",
    "train/lung1_002",
)  # fmt: skip
PHANTOM_SEEDS = range(90_000, 90_004)
Finder = Callable[[int, int], np.ndarray]  # numbers of template and target -> (166, 3) RAS mm


class Jsrt:
    """The films with their landmarks. tests, templates: numbers of the films."""

    def __init__(self, path: Path) -> None:
        data = np.load(path)
        self.images = data["images"]
        self.points = data["landmarks"] / 4
        self.group = np.repeat(np.arange(len(data["counts"])), data["counts"])
        order = np.random.default_rng(SEED).permutation(len(self.images))
        self.tests = order[:FILMS]
        self.templates = order[FILMS : FILMS + TEMPLATES]
        self.matrix = film_matrix(self.images.shape[1:], (PIXEL_MM, PIXEL_MM))

    def film(self, number: int) -> Film:
        return Film(self.images[number][None].astype(np.float32), self.matrix, f"jsrt {number}")

    def landmarks(self, number: int) -> np.ndarray:
        pixels = self.points[number]
        return transform_points(self.matrix, np.column_stack([pixels, np.zeros(len(pixels))]))

    def errors(self, found: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the point errors and the curve errors (166,) mm of answers in a film; NaN without a landmark."""
        truth = self.landmarks(number)
        curve = np.full(len(truth), np.nan)
        for group in np.unique(self.group):
            rows = (self.group == group) & np.isfinite(truth).all(1)
            curve[rows] = distance_to_curve(found[rows], truth[rows])
        return np.linalg.norm(found - truth, axis=1), curve


def distance_to_curve(points: np.ndarray, curve: np.ndarray) -> np.ndarray:
    """Return the distances (n,) of points (n, 3) from the closed curve through (m, 3)."""
    along = np.roll(curve, -1, axis=0) - curve
    off = points[:, None] - curve
    share = np.clip((off * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-9), 0, 1)
    return np.linalg.norm(off - share[..., None] * along, axis=-1).min(axis=1)


def ours(data: Jsrt, model: Model) -> tuple[Finder, Callable[[], str]]:
    """Return a finder, and a function that states its CPU time."""
    maps = {}
    seconds = {"embed": [], "match": []}

    def embedded(number: int):
        if number not in maps:
            start = time.process_time()
            maps[number] = model.embed(data.film(number))
            seconds["embed"].append(time.process_time() - start)
        return maps[number]

    def found(template: int, target: int) -> np.ndarray:
        points = data.landmarks(template)
        one = embedded(template)
        other = embedded(target)
        start = time.process_time()
        places = FilmPair(one, other).points(np.nan_to_num(points)).points_ras
        seconds["match"].append(time.process_time() - start)
        return np.where(np.isfinite(points), places, np.nan)

    return found, lambda: ", ".join(f"{name} {np.mean(of):.2f} s" for name, of in seconds.items())


def measure_jsrt(options: argparse.Namespace) -> None:
    data = Jsrt(options.data)
    methods = {
        "ours": ours(data, load_model(options.model)),
        "no registration": (lambda template, target: data.landmarks(template), lambda: "0 s"),
    }
    print("| method | templates | point mean | point median | curve mean | curve median | CPU |")
    print("|---|---|---|---|---|---|---|")
    for name, (find, seconds) in methods.items():
        answered = {(a, b): find(a, b) for b in data.tests for a in data.templates}
        single = []
        for template in data.templates:
            errors = [data.errors(answered[template, test], test) for test in data.tests]
            single.append(np.stack(errors, axis=1))
            report(name, f"film {template}", single[-1], "")
        report(name, f"one (mean of {TEMPLATES})", np.concatenate(single, axis=1), seconds())
        joined = [
            np.nanmedian([answered[a, b] for a in data.templates], axis=0) for b in data.tests
        ]
        every = np.stack(
            [data.errors(found, b) for found, b in zip(joined, data.tests, strict=True)], axis=1
        )
        report(name, "five at once", every, "")


def report(name: str, templates: str, errors: np.ndarray, seconds: str) -> None:
    """Print a row. errors: (2, films, points) point and curve errors, mm."""
    point, curve = (of[np.isfinite(of)] for of in errors)
    numbers = (point.mean(), np.median(point), curve.mean(), np.median(curve))
    print(
        f"| {name} | {templates} | "
        + " | ".join(f"{value:.1f}" for value in numbers)
        + f" | {seconds} |",
        flush=True,
    )


def measure_projections(options: argparse.Namespace) -> None:
    model = load_model(options.model)
    rng = np.random.default_rng(SEED)
    cts = [
        (name, lambda name=name: Volume.read(options.data / f"{name}.nii.gz")) for name in UNSEEN
    ]
    cts += [
        (f"phantom {s}", lambda s=s: make_phantom(s, (3, 3, 3), (330, 600)).volume)
        for s in PHANTOM_SEEDS
    ]
    print("| scan | CT point to film, mm: mean | median | film place to line, mm: mean | median |")
    print("|---|---|---|---|---|")
    total = list[np.ndarray]()
    for name, read in cts:
        volume = read()
        projected = ProjectedCT.of(volume)
        beam = random_beam(projected.tissue, rng)
        film = film_of(projected.tissue, beam, name, rng)
        points = random_points(projected.tissue, rng)
        truth = beam.to_film(points)
        target = model.embed(film)
        shown = film.contains(truth)
        shown[shown] = target.in_body(truth[shown])
        relation = relate(
            ProjectedScan(projected, model.embed(projected.film)), MappedScan(film, target)
        )
        found = relation.points(points)
        errors = np.linalg.norm(found.points_ras - truth, axis=1)[shown]
        inverse = relation.inverse()
        rays = inverse.rays(inverse.points(truth[shown]))
        along = rays.ends_ras[:, 1] - rays.ends_ras[:, 0]
        along /= np.linalg.norm(along, axis=1, keepdims=True)
        off = np.linalg.norm(np.cross(points[shown] - rays.ends_ras[:, 0], along), axis=1)
        total.append(np.stack([errors, off]))
        numbers = (errors.mean(), np.median(errors), off.mean(), np.median(off))
        print(
            f"| {name} | " + " | ".join(f"{value:.1f}" for value in numbers) + " |",
            flush=True,
        )
    every = np.concatenate(total, axis=1)
    numbers = (every[0].mean(), np.median(every[0]), every[1].mean(), np.median(every[1]))
    print("| all | " + " | ".join(f"{value:.1f}" for value in numbers) + " |")


def random_points(tissue: Tissue, rng: np.random.Generator, count: int = 200) -> np.ndarray:
    """Return points (n, 3), RAS mm, in the tissue of a CT."""
    filled = np.argwhere(tissue.values[0, 0].numpy() > 0.5)[:, ::-1]
    return transform_points(tissue.grid_to_ras, filled[rng.integers(len(filled), size=count)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("jsrt", "projections"))
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="film-open")
    options = parser.parse_args()
    {"jsrt": measure_jsrt, "projections": measure_projections}[options.kind](options)


if __name__ == "__main__":
    main()
