"""Measure matches and boxes at vertebrae between different patients, with and without the order of the spine.

python Testing/benchmarks/vertebrae.py FOLDER... [--model auto] [--effort standard]

Each FOLDER holds labelled scans; scans with fewer than three whole vertebrae are left out. "Before" reads the
coordinates as the network computed them.
"""

from __future__ import annotations

import argparse
from itertools import permutations
from pathlib import Path
from time import perf_counter

import numpy as np

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.anatomy.names import VERTEBRAE, whole_name
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.embedding.spine_reading import read_spine
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.matching.status import MATCHED
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.structures.labelled_scans import load_cases
from AnatomicalEmbedding.structures.library import shipped_library
from AnatomicalEmbedding.structures.locating import locate

_ASIDE_MM = 14.0  # half of the width of a vertebral body that counts
_DEPTH_MM = {"C": 16.0, "T": 26.0, "L": 32.0, "S": 32.0}  # of the vertebral body, from its front
_FEWEST, _FEWEST_VOXELS = 3, 50
_MEASURED = VERTEBRAE[1:-1]  # C1 has no body, S1 is a part of the sacrum

Middles = dict[str, np.ndarray]


def read_middles(labels: LabelMap) -> tuple[Middles, Middles]:
    """The middles (3,), RAS mm, of the bodies of the vertebrae that no end of the scan cuts, and of all vertebrae."""
    whole = {}
    every = {}
    for label, value in labels.values.items():
        name = whole_name(label).removeprefix("vertebrae_")
        index = np.argwhere(labels.voxels == value)[:, ::-1]
        if name not in VERTEBRAE or len(index) < _FEWEST_VOXELS:
            continue
        points = transform_points(labels.ijk_to_ras, index)
        points = points[np.abs(points[:, 0] - np.median(points[:, 0])) < _ASIDE_MM]
        every[name] = points[
            points[:, 1] > np.percentile(points[:, 1], 99.5) - _DEPTH_MM[name[0]]
        ].mean(axis=0)
        if (
            name in _MEASURED
            and index[:, 2].min() > 0
            and index[:, 2].max() < len(labels.voxels) - 1
        ):
            whole[name] = every[name]
    return whole, every


def nearest(middles: Middles, point_ras: np.ndarray) -> str:
    return min(middles, key=lambda name: float(np.linalg.norm(middles[name] - point_ras)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--model", default="auto")
    parser.add_argument("--effort", default="standard")
    options = parser.parse_args()
    model = load_model(options.model, "cpu")
    library = shipped_library(model.weights_hash)
    maps: dict[str, EmbeddingMap] = {}
    truth: dict[str, tuple[Middles, Middles]] = {}
    counted = 0
    right = 0
    boxes = {True: [0, 0], False: [0, 0]}
    for case in (each for folder in options.folders for each in load_cases(folder) if each.labels):
        whole, every = read_middles(case.label_map)
        if len(whole) < _FEWEST:
            continue
        maps[case.id], truth[case.id] = model.embed(case.volume), (whole, every)
        start = perf_counter()
        spine = read_spine(maps[case.id].with_spine(None), case.volume)
        seconds = perf_counter() - start
        wrong = [
            f"{name} is {spine.names[spine.nearest(at[2:])[0]]}"
            for name, at in whole.items()
            if spine.names[spine.nearest(at[2:])[0]] != name
        ]
        counted = counted + len(whole)
        right = right + len(whole) - len(wrong)
        print(
            f"{case.id}: {len(whole)} vertebrae, {seconds * 1000:.0f} ms, from {spine.anchors}; wrong: {wrong}"
        )
        asked = {
            f"vertebrae_{n}": n for n in whole if library and f"vertebrae_{n}" in library.examples
        }
        for corrected in boxes if asked else ():
            target = maps[case.id] if corrected else maps[case.id].with_spine(None)
            found = locate({name: library.examples[name] for name in asked}, target, library.effort)
            boxes[corrected][1] += len(asked)
            boxes[corrected][0] += sum(
                nearest(every, found[n].box_ras.mean(axis=0)) == asked[n] for n in asked
            )
    print(f"levels of the fit: {right} of {counted} right")
    print(f"boxes at the right level: {boxes[False]} before, {boxes[True]} now")
    for title, change in (
        ("before", lambda each: each.with_spine(None)),
        ("now", lambda each: each),
    ):
        rows = []
        for template, target in permutations(maps, 2):
            names = [name for name in truth[template][0] if name in truth[target][0]]
            if names:
                points = np.array([truth[template][0][name] for name in names])
                found = match(change(maps[template]), points, change(maps[target]), options.effort)
                for name, point, status in zip(names, found.points_ras, found.status, strict=True):
                    off = float(np.linalg.norm(truth[target][0][name] - point))
                    rows.append((nearest(truth[target][1], point) == name, off, status == MATCHED))
        good, off, matched = np.array(rows).T
        print(
            f"{title}: {len(rows)} matches, right level {100 * good.mean():.1f} %, error {off.mean():.1f} / "
            f"{np.median(off):.1f} mm; matched {int(matched.sum())}, of these at the wrong level "
            f"{int((matched * (1 - good)).sum())}"
        )


if __name__ == "__main__":
    main()
