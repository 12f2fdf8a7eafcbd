"""Measure weights of the kind "any" on scans without landmarks: known warps, and the way to another scan and back.

python Testing/benchmarks/own_kind_warps.py WEIGHTS FOLDER --scans NAME,NAME [--pairs N] [--grid-mm MM]

FOLDER holds NAME.nii.gz. elastix is measured on the same points, each time from the best similarity transform of our
search. Our answers there and back go through one frame, so they say little about errors. Needs itk-elastix.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
from comparison.elastix import Elastix
from own_kind import summary
from own_kind_peers import elastix_peers, read_options, read_scans, searched

from AnatomicalEmbedding import match
from AnatomicalEmbedding.embedding.frames.grey_image import GreyImage
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.scan.geometry import rotations, transform_points
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.training.frame_calibration import bent_copy

DEGREES = 10.0  # largest turn of a copy about each axis
POINTS = 150


def answers_of(
    model: Model, peers: dict[str, Elastix], points: np.ndarray, first: Volume, second: Volume
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of each method, and its answers (n, 3) in the second scan.

    Args:
        model: the weights.
        peers: other methods, by name.
        points: (n, 3) RAS mm in the first scan.
        first, second: the scans.
    """
    yield "ours", match(model.embed(first), points, model.embed(second)).points_ras
    start, moved = searched(model, GreyImage(first), GreyImage(second))
    for name, peer in peers.items():
        answer = peer(SimpleNamespace(volume=first), points, SimpleNamespace(volume=moved))
        yield name, transform_points(start, answer)


def body_points(model: Model, volume: Volume, rng: np.random.Generator) -> np.ndarray:
    """Return random points (n, 3), RAS mm, in the object of a scan."""
    embedding = model.embed(volume)
    cells = embedding.body_index.numpy()
    return transform_points(
        embedding.cell_to_ras, cells[rng.integers(len(cells), size=POINTS)].astype(float)
    )


def report(title: str, errors: dict[str, list[np.ndarray]]) -> None:
    print(title)
    for name, parts in errors.items():
        print(f"  {name}: {summary(np.concatenate(parts))}", flush=True)


def main() -> None:
    options = read_options(__doc__, 4, 10.0)
    model, scans = read_scans(options)
    names, volumes = list(scans), list(scans.values())
    peers = elastix_peers(options.grid_mm)
    rng = np.random.default_rng(0)
    errors: dict[str, list[np.ndarray]] = {}
    for name, volume in zip(names, volumes, strict=True):
        turn = np.linalg.multi_dot(rotations(np.radians(rng.uniform(-DEGREES, DEGREES, 3))))
        copy, transform = bent_copy(GreyImage(volume), turn, model.network.unit_mm, rng)
        points = body_points(model, volume, rng)
        truth = transform.to_frame(points)
        shown = copy.contains(truth)
        for peer, answers in answers_of(model, peers, points[shown], volume, copy):
            errors.setdefault(peer, []).append(np.linalg.norm(answers - truth[shown], axis=1))
        report(f"known warps, after {name}:", errors)
    pairs = [(n, m) for n in range(len(names)) for m in range(len(names)) if n != m]
    errors = {}
    for n, m in rng.permutation(pairs)[: options.pairs]:
        points = body_points(model, volumes[n], rng)
        there = dict(answers_of(model, peers, points, volumes[n], volumes[m]))
        for peer, answers in there.items():
            # each method with its own answers; the scan must show them
            shown = volumes[m].contains(answers)
            only = {name: method for name, method in peers.items() if name == peer}
            back = dict(answers_of(model, only, answers[shown], volumes[m], volumes[n]))[peer]
            errors.setdefault(peer, []).append(np.linalg.norm(back - points[shown], axis=1))
        report(f"there and back, after {names[n]} -> {names[m]}:", errors)


if __name__ == "__main__":
    main()
