"""Measure the speed of training on this machine, for each recipe: seconds for a batch and for a step.

    python Testing/benchmarks/training.py [--recipes ape hybrid ...] [--device auto] [--steps 12]

Needs no data. The script prints one table. Published figures are in RESULTS.md, with the machine and the date.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch

from AnatomicalEmbedding.embedding.device import choose_device, fast_dtype
from AnatomicalEmbedding.papers.ape.__main__ import RECIPES as APE
from AnatomicalEmbedding.papers.bpr_rpr.__main__ import RECIPES as BPR_RPR
from AnatomicalEmbedding.papers.sam.__main__ import RECIPES as SAM
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.training.objectives import OBJECTIVES
from AnatomicalEmbedding.training.recipes import load_recipe
from AnatomicalEmbedding.training.scans import PreparedScan, prepare_phantom
from AnatomicalEmbedding.training.trainer import train

_PATIENTS = 3
PAPERS = {**APE, **SAM, **BPR_RPR}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipes", nargs="+", default=["ape", "hybrid", "joint", *PAPERS])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    device = choose_device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(
        f"{name}, {torch.get_num_threads()} threads, torch {torch.__version__}, {fast_dtype(device)}"
    )
    print(
        "recipe      batch s of a core   step s of all cores   batch share   steps/s with a worker"
    )
    for recipe_name in options.recipes:
        changes: dict[str, object] = {"batch.phantom_share": 1.0}
        # 8000 points a step are one huge distance matrix; ours, as in RESULTS.md
        if recipe_name == "ape-paper":
            changes["batch.points_per_pair"] = 250
        of_paper = PAPERS.get(recipe_name)
        recipe = of_paper.load(changes) if of_paper else load_recipe(recipe_name, changes)
        scans = _scans(recipe.network.spacing_mm)
        batch = _core_seconds_of_batches(scans, recipe, options.steps)
        with tempfile.TemporaryDirectory() as folder:
            inside = _step(scans, recipe, Path(folder) / "inside", options.steps, device, 0)
            beside = _step(
                scans, recipe, Path(folder) / "beside", options.steps, device, options.workers
            )
        print(
            f"{recipe_name:<12} {batch:10.3f} {inside.cores - batch:20.3f} {batch / inside.cores:16.0%}"
            f" {1 / beside.wall:18.2f}",
            flush=True,
        )


def _objective(recipe):
    return PAPERS[recipe.name].objective if recipe.name in PAPERS else OBJECTIVES[recipe.objective]


class _Times:
    """Seconds of a step: on the clock, and of all cores together."""

    def __init__(self, wall: float, cores: float):
        self.wall = wall
        self.cores = cores


def _scans(spacing_mm: tuple[float, float, float]) -> list[PreparedScan]:
    phantoms = [make_phantom(seed, spacing=(2.0, 2.0, 3.0)) for seed in range(_PATIENTS)]
    return [
        prepare_phantom(phantom, f"phantom{n}", spacing_mm) for n, phantom in enumerate(phantoms)
    ]


def _core_seconds_of_batches(scans: list[PreparedScan], recipe, steps: int) -> float:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a worker process
    sampler = _objective(recipe).sampler(scans, recipe, 0, steps + 1)
    _ = sampler[steps]
    start = time.process_time()
    for step in range(steps):
        _ = sampler[step]
    seconds = (time.process_time() - start) / steps
    torch.set_num_threads(threads)
    return seconds


def _step(
    scans: list[PreparedScan], recipe, folder: Path, steps: int, device: torch.device, workers: int
) -> _Times:
    """Of a step after the first few, batches made in the loop (workers 0) or beside it."""
    seen: list[tuple[float, float]] = []
    train(
        scans,
        recipe,
        folder,
        steps + 3,
        objective=_objective(recipe),
        device=str(device),
        workers=workers,
        progress=lambda _: seen.append((time.perf_counter(), time.process_time())),
    )
    (wall, cores), (wall_end, cores_end) = seen[2], seen[-1]
    return _Times((wall_end - wall) / (len(seen) - 3), (cores_end - cores) / (len(seen) - 3))


if __name__ == "__main__":
    main()
