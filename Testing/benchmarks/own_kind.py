"""Measure weights of the kind "any" on scans with landmarks: answers from one scan, from five, and their stated errors.

python Testing/benchmarks/own_kind.py WEIGHTS FOLDER [--unseen NAME,NAME]

FOLDER holds NAME.nii.gz with NAME.landmarks.mrk.json. Targets are the scans NAME of --unseen, by default all scans.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.evaluation.confidence import auroc, calibration_error
from AnatomicalEmbedding.landmarks.landmark_set import make_landmark_set
from AnatomicalEmbedding.matching.match import match_all
from AnatomicalEmbedding.matching.status import ABSENT, MATCHED_MM
from AnatomicalEmbedding.scan.points import read_points

EXAMPLES = 5
FAILURE_MM = 1.0


def summary(errors_mm: np.ndarray) -> str:
    """Return the mean, the median, the 90th percentile and the share of failures of errors, in words."""
    mean, median, high = errors_mm.mean(), np.median(errors_mm), np.quantile(errors_mm, 0.9)
    failures = 100 * (errors_mm > FAILURE_MM).mean()
    return f"{mean:.3f} / {median:.3f} / {high:.3f} mm, {failures:.2f} % above {FAILURE_MM:g} mm"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--unseen", default="")
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
