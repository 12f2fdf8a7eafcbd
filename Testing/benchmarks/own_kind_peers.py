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
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.points import read_points
from AnatomicalEmbedding.scan.volume import Volume


def read_options(description: str | None, pairs: int, grid_mm: float) -> argparse.Namespace:
    """Read the options of a benchmark of weights beside peers. pairs, grid_mm: the defaults."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("weights")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scans", required=True)
    parser.add_argument("--pairs", type=int, default=pairs)
    parser.add_argument("--grid-mm", type=float, default=grid_mm)
    return parser.parse_args()


def read_scans(options: argparse.Namespace) -> tuple[Model, dict[str, Volume]]:
    """Return the weights, and the scans by name."""
    model = load_model(options.weights, "cpu")
    paths = {name: options.folder / f"{name}.nii.gz" for name in options.scans.split(",")}
    return model, {name: Volume.read(path, check=model.check_scan) for name, path in paths.items()}


def elastix_peers(grid_mm: float) -> dict[str, Elastix]:
    return {
        "elastix affine": Elastix(is_aligned=True),
        "elastix affine + B-spline": Elastix(deformable=True, grid_mm=grid_mm, is_aligned=True),
    }


def searched(model: Model, first: GreyImage, second: GreyImage) -> tuple[np.ndarray, Volume]:
    """Search the similarity transform (4, 4) from one scan to another, from which each peer starts.

    Returns it and the second scan as it lies after the search. The answers of peers are moved back by the transform.
    """
    spec = model.network.spec
    start = search_similarity(
        first, second, spec.radius_mm / UNITS, any_rotation=not spec.anatomical
    )
    volume = second.volume
    return start, replace(volume, ijk_to_ras=np.linalg.inv(start) @ volume.ijk_to_ras)


def main() -> None:
    options = read_options(__doc__, 10, 1.5)
    model, scans = read_scans(options)
    names, volumes = list(scans), list(scans.values())
    points = [read_points(options.folder / f"{name}.landmarks.mrk.json") for name in names]
    maps = [model.embed(volume) for volume in volumes]
    images = [GreyImage(volume) for volume in volumes]
    pairs = [(n, m) for n in range(len(names)) for m in range(len(names)) if n != m]
    drawn = np.random.default_rng(0).permutation(len(pairs))[: options.pairs]
    peers = elastix_peers(options.grid_mm) | {"ANTs SyN": AntsSyN(is_aligned=True)}
    errors: dict[str, list[np.ndarray]] = {}
    own: dict[str, list[np.ndarray]] = {}
    seconds: dict[str, list[float]] = {}
    for number in drawn:
        n, m = pairs[number]
        source = points[n].points_ras
        start, moved = searched(model, images[n], images[m])
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
