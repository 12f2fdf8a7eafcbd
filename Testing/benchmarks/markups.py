"""Measure lengths and angles between organ centres of labelled scans and between landmarks of synthetic patients.

python Testing/benchmarks/markups.py DIR [--trials 30]

DIR is a folder of labelled scans. In each trial, the examples and the target are scans of one source (or synthetic
patients), half of the trials each; lines and angles between the landmarks that all of them show are drawn at random.
How often does the true value lie in the stated 90 % interval?
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.landmarks.landmark_set import make_landmark_set
from AnatomicalEmbedding.landmarks.markups import ANGLE, LINE, Markup, measure, measurements
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.scan.points import PointList
from AnatomicalEmbedding.structures.labelled_scans import load_cases, source_of

_SEEDS, _SPACING_MM, _COVERAGE_MM = range(9001, 9009), (3.0, 3.0, 3.0), (-100.0, 620.0)
_LINES, _ANGLES, _MOST_LANDMARKS = 6, 4, 12  # in each trial
_SHORTEST_MM = 20.0  # arms of angles and lines are at least this long
SYNTHETIC = "synthetic"


@dataclass(frozen=True)
class Scan:
    """A map, and the true places of landmarks: name -> (3,) RAS mm."""

    source: str
    embedding: EmbeddingMap
    places: dict[str, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=30)
    options = parser.parse_args()
    scans = list(load_scans(options.folder))
    print(
        "| examples | scans | markup | number | error, mean / median | margin | in the interval |"
    )
    for count in (1, 3, 5):
        rng = np.random.default_rng(count)
        rows = defaultdict(list)
        for trial in range(options.trials):
            chosen = draw_scans(scans, count, trial % 2 == 0, rng)
            if chosen is None:
                continue
            for kind, error, margin in measure_trial(*chosen, rng):
                source = chosen[1].source
                for group in ("all", source) if source == SYNTHETIC else ("all", "real", source):
                    rows[group, kind].append((error, margin))
        for (group, kind), values in sorted(rows.items()):
            errors, margins = np.array(values).T
            print(
                f"| {count} | {group} | {kind} | {len(errors)} | {errors.mean():.1f} / {np.median(errors):.1f} | "
                f"{margins.mean():.1f} | {(errors <= margins).mean():.2f} |",
                flush=True,
            )


def load_scans(folder: Path) -> Iterator[Scan]:
    """Embed the labelled scans of a folder and the synthetic patients."""
    model = load_model("ct-open", "cpu")
    for case in load_cases(folder):
        places = {name: case.structures[name][0] for name in case.structures}
        places = {name: place for name, place in places.items() if np.isfinite(place).all()}
        if len(places) > 2:
            yield Scan(source_of(case.id), model.embed(case.volume), places)
    for seed in _SEEDS:
        phantom = make_phantom(seed, spacing=_SPACING_MM, coverage_mm=_COVERAGE_MM)
        embedding = model.embed(replace(phantom.volume, name=f"patient {seed}"))
        yield Scan(SYNTHETIC, embedding, dict(phantom.points_ras))


def draw_scans(
    scans: list[Scan], count: int, is_synthetic: bool, rng: np.random.Generator
) -> tuple[list[Scan], Scan, list[str]] | None:
    """Draw examples, a target, and names of landmarks that all of them show; None if no source has enough scans."""
    groups = defaultdict(list)
    for scan in scans:
        if (scan.source == SYNTHETIC) == is_synthetic:
            groups[scan.source].append(scan)
    large = [group for group in groups.values() if len(group) > count]
    if not large:
        return None
    sizes = np.array([len(group) for group in large])
    group = large[rng.choice(len(large), p=sizes / sizes.sum())]
    target, *examples = (group[n] for n in rng.choice(len(group), count + 1, replace=False))
    names = sorted(set.intersection(*(set(scan.places) for scan in (target, *examples))))
    if len(names) < 3:
        return None
    drawn = rng.permutation(names)[:_MOST_LANDMARKS].tolist()
    return examples, target, drawn


def measure_trial(
    examples: list[Scan], target: Scan, names: list[str], rng: np.random.Generator
) -> Iterator[tuple[str, float, float]]:
    """Give the kind, the error and the margin of lines and angles in the target."""
    markups = []
    for number in range(_LINES + _ANGLES):
        kind, size = (LINE, 2) if number < _LINES else (ANGLE, 3)
        labels = tuple(rng.choice(names, size, replace=False).tolist())
        places = np.array([target.places[label] for label in labels])
        if np.linalg.norm(np.diff(places, axis=0), axis=1).min() >= _SHORTEST_MM:
            markups.append(Markup(kind, str(number), labels))
    scans = [
        (scan.embedding, PointList(tuple(names), [scan.places[name] for name in names]))
        for scan in examples
    ]
    landmark_set = make_landmark_set(scans)
    matches = landmark_set.find(target.embedding)
    for markup, measured in zip(
        markups, measurements(markups, landmark_set.names, matches), strict=True
    ):
        if measured.value is not None:
            true_value = measure(markup, np.array([target.places[name] for name in markup.labels]))
            yield markup.kind, abs(measured.value - float(true_value)), measured.margin


if __name__ == "__main__":
    main()
