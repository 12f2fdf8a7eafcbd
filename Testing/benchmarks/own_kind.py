"""Measure weights of the kind "any" on scans with landmarks: answers from one scan, from five, and their stated errors.

python Testing/benchmarks/own_kind.py WEIGHTS FOLDER [--unseen NAME,NAME] [--broken N]

FOLDER holds NAME.nii.gz with NAME.landmarks.mrk.json. Targets are the scans NAME of --unseen, by default all scans.
With --broken, only the statuses in broken copies of the targets are measured, N of each kind of break.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbedding.evaluation.confidence import auroc, calibration_error
from AnatomicalEmbedding.landmarks.landmark_set import make_landmark_set
from AnatomicalEmbedding.matching.match import match, match_all
from AnatomicalEmbedding.matching.status import ABSENT, MATCHED, MATCHED_MM
from AnatomicalEmbedding.scan.geometry import mask_box, transform_points
from AnatomicalEmbedding.scan.points import PointList, read_points
from AnatomicalEmbedding.scan.volume import Volume

EXAMPLES = 5
FAILURE_MM = 1.0
BROKEN = (0.2, 0.45)  # share of the points beyond a plane
BALL = 0.25  # radius of a hole, in radii of the object
SHOWN, LACKING = 2.0, 10.0  # distance of points from a break that count, in the unit of the kind


def summary(errors_mm: np.ndarray) -> str:
    """Return the mean, the median, the 90th percentile and the share of failures of errors, in words."""
    mean, median, high = errors_mm.mean(), np.median(errors_mm), np.quantile(errors_mm, 0.9)
    failures = 100 * (errors_mm > FAILURE_MM).mean()
    return f"{mean:.3f} / {median:.3f} / {high:.3f} mm, {failures:.2f} % above {FAILURE_MM:g} mm"


def broken_copies(
    volume: Volume, points_ras: np.ndarray, radius_mm: float, rng: np.random.Generator
) -> Iterator[tuple[str, Volume, np.ndarray]]:
    """Yield copies of a scan that lack a part: how it was removed, the copy, and how deep points lie in this part, mm.

    Args:
        volume: the scan.
        points_ras: (n, 3).
        radius_mm: radius of the objects.
        rng: random numbers.
    """
    voxels_ras = transform_points(
        volume.ijk_to_ras, np.indices(volume.shape).reshape(3, -1).T[:, ::-1]
    )

    def depth(normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        limit = np.quantile(points_ras @ normal, 1 - rng.uniform(*BROKEN))
        return points_ras @ normal - limit, (voxels_ras @ normal - limit).reshape(volume.shape)

    of_points, of_voxels = depth(np.eye(3)[rng.integers(3)] * rng.choice((-1, 1)))
    box = mask_box(of_voxels < 0)
    first = np.array([part.start for part in reversed(box)])
    matrix = volume.ijk_to_ras.copy()
    matrix[:3, 3] = transform_points(volume.ijk_to_ras, first[None])[0]
    yield (
        "cut by the edge",
        replace(volume, voxels=volume.voxels[box].copy(), ijk_to_ras=matrix),
        of_points,
    )
    normal = rng.normal(size=3)
    of_points, of_voxels = depth(normal / np.linalg.norm(normal))
    background = volume.voxels.min()
    yield (
        "broken off",
        replace(volume, voxels=np.where(of_voxels > 0, background, volume.voxels)),
        of_points,
    )
    centre = points_ras[rng.integers(len(points_ras))]
    of_points, of_voxels = (
        BALL * radius_mm - np.linalg.norm(places - centre, axis=1)
        for places in (points_ras, voxels_ras)
    )
    hole = (of_voxels > 0).reshape(volume.shape)
    yield "a hole", replace(volume, voxels=np.where(hole, background, volume.voxels)), of_points


def measure_broken(
    model: Model,
    maps: list[EmbeddingMap],
    points: list[PointList],
    paths: dict[int, Path],
    count: int,
) -> None:
    """Print the share of absent points in and outside the missing parts of broken targets.

    Args:
        model: the weights.
        maps: of all scans.
        points: of all scans.
        paths: number of a target -> its file.
        count: breaks of each kind.
    """
    rng = np.random.default_rng(0)
    unit_mm = model.network.unit_mm
    tables: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for target, path in paths.items():
        volume = Volume.read(path, check=model.check_scan)
        for _ in range(count):
            copies = broken_copies(
                volume, points[target].points_ras, model.network.spec.radius_mm, rng
            )
            for kind, copy, depth_mm in copies:
                try:
                    embedding = model.embed(copy)
                except VolumeError as error:
                    print(f"{kind}: {error}")
                    continue
                for n, template in enumerate(maps):
                    if n != target:
                        status = match(template, points[n].points_ras, embedding).status
                        tables.setdefault(kind, []).append((depth_mm / unit_mm, status))
    for kind, rows in tables.items():
        depth, status = (np.concatenate(column) for column in zip(*rows, strict=True))
        missing, shown = status[depth > LACKING], status[depth < -SHOWN]
        print(
            f"{kind}: {100 * (missing == ABSENT).mean():.1f} % absent and {100 * (missing == MATCHED).mean():.1f} % "
            f"matched of {len(missing)} missing points, {100 * (shown == ABSENT).mean():.1f} % absent and "
            f"{100 * (shown == MATCHED).mean():.1f} % matched of {len(shown)} other points"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--unseen", default="")
    parser.add_argument("--broken", type=int, default=0)
    options = parser.parse_args()
    model = load_model(options.weights, "cpu")
    paths = sorted(options.folder.glob("*.nii.gz"))
    names = [path.name.removesuffix(".nii.gz") for path in paths]
    points = [
        read_points(path.with_name(f"{name}.landmarks.mrk.json"))
        for name, path in zip(names, paths, strict=True)
    ]
    start = time.perf_counter()
    maps = [model.embed(path) for path in paths]
    print(f"{(time.perf_counter() - start) / len(maps):.1f} s to embed a scan")
    unseen = [n for n, name in enumerate(names) if name in options.unseen.split(",")]
    targets = unseen or list(range(len(paths)))
    if options.broken:
        measure_broken(model, maps, points, {n: paths[n] for n in targets}, options.broken)
        return
    start = time.perf_counter()
    errors, stated, expected, absent, pairs = [], [], [], [], 0
    for n, template in enumerate(maps):
        numbers = [target for target in targets if target != n]
        answers = match_all(template, points[n].points_ras, [maps[target] for target in numbers])
        for target, matches in zip(numbers, answers, strict=True):
            errors.append(np.linalg.norm(matches.points_ras - points[target].points_ras, axis=1))
            stated.append(matches.probability)
            expected.append(matches.expected_error_mm)
            absent.append(matches.status == ABSENT)
            pairs += 1
    print(f"{pairs} pairs, {(time.perf_counter() - start) / pairs:.3f} s a pair")
    error_mm = np.concatenate(errors)
    print(f"one template: {summary(error_mm)}, {100 * np.concatenate(absent).mean():.1f} % absent")
    right = error_mm < MATCHED_MM * model.network.unit_mm
    worst = error_mm > np.quantile(error_mm, 0.8)
    print(
        f"within {MATCHED_MM * model.network.unit_mm:.2f} mm: {right.mean():.3f}, stated "
        f"{np.concatenate(stated).mean():.3f}, ECE {calibration_error(np.concatenate(stated), right):.3f}; "
        f"stated error {np.concatenate(expected).mean():.3f} mm, AUROC of the worst fifth "
        f"{auroc(np.concatenate(expected), worst):.2f}"
    )
    rng = np.random.default_rng(0)
    combined = []
    for target in targets:
        examples = rng.permutation([n for n in range(len(maps)) if n != target])[:EXAMPLES]
        landmark_set = make_landmark_set([(maps[n], points[n]) for n in examples])
        answers = landmark_set.find(maps[target])
        order = [points[target].labels.index(name) for name in landmark_set.names]
        combined.append(
            np.linalg.norm(answers.points_ras - points[target].points_ras[order], axis=1)
        )
    print(f"{EXAMPLES} templates: {summary(np.concatenate(combined))}")


if __name__ == "__main__":
    main()
