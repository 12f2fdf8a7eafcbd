"""Measure peers on scans of one kind with landmarks, beside weights of the kind "any", on the same pairs.

python Testing/benchmarks/own_kind_peers.py WEIGHTS FOLDER --scans NAME,NAME [--pairs N] [--grid-mm MM]

Each peer starts from the best similarity transform of our search over all rotations. Needs itk-elastix and antspyx.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from comparison.ants import AntsSyN
from comparison.elastix import Elastix
from own_kind import summary

from AnatomicalEmbedding import load_model, match
from AnatomicalEmbedding.embedding.frames.alignment import UNITS, search_similarity
from AnatomicalEmbedding.embedding.frames.grey_image import GreyImage
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.points import read_points
from AnatomicalEmbedding.scan.volume import Volume


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scans", required=True)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--grid-mm", type=float, default=1.5)
    options = parser.parse_args()
    model = load_model(options.weights, "cpu")
    names = options.scans.split(",")
    volumes = [
        Volume.read(options.folder / f"{name}.nii.gz", check=model.check_scan) for name in names
    ]
    points = [read_points(options.folder / f"{name}.landmarks.mrk.json") for name in names]
    maps = [model.embed(volume) for volume in volumes]
    images = [GreyImage(volume) for volume in volumes]
    pairs = [(n, m) for n in range(len(names)) for m in range(len(names)) if n != m]
    drawn = np.random.default_rng(0).permutation(len(pairs))[: options.pairs]
    peers = {
        "elastix affine": Elastix(is_aligned=True),
        "elastix affine + B-spline": Elastix(
            deformable=True, grid_mm=options.grid_mm, is_aligned=True
        ),
        "ANTs SyN": AntsSyN(is_aligned=True),
    }
    errors: dict[str, list[np.ndarray]] = {}
    own: dict[str, list[np.ndarray]] = {}
    seconds: dict[str, list[float]] = {}
    for number in drawn:
        n, m = pairs[number]
        source = points[n].points_ras
        start = search_similarity(
            images[n],
            images[m],
            model.network.spec.radius_mm / UNITS,
            any_rotation=not model.network.spec.anatomical,
        )
        # the target as it lies after the search; its points are moved back afterwards
        moved = replace(volumes[m], ijk_to_ras=np.linalg.inv(start) @ volumes[m].ijk_to_ras)
        template, target = SimpleNamespace(volume=volumes[n]), SimpleNamespace(volume=moved)
        answers = {"search of rotations": transform_points(start, source)}
        for name, peer in peers.items():
            begin = time.perf_counter()
            answers[name] = transform_points(start, peer(template, source, target))
            seconds.setdefault(name, []).append(time.perf_counter() - begin)
        begin = time.perf_counter()
        answers["ours"] = match(maps[n], source, maps[m]).points_ras
        seconds.setdefault("ours", []).append(time.perf_counter() - begin)
        for name, answer in answers.items():
            distances = np.linalg.norm(answer[:, None] - points[m].points_ras, axis=2)
            errors.setdefault(name, []).append(np.diag(distances))
            own.setdefault(name, []).append(distances.argmin(axis=1) == np.arange(len(distances)))
        print(f"after {names[n]} -> {names[m]}, pair {len(errors['ours'])}:")
        for name, pair_errors in errors.items():
            spent = f", {np.mean(seconds[name]):.2f} s a pair" if name in seconds else ""
            nearest = f"{100 * np.mean(own[name]):.1f} % nearest to their own point"
            print(f"  {name}: {summary(np.concatenate(pair_errors))}, {nearest}{spent}", flush=True)


if __name__ == "__main__":
    main()
