"""Short training runs, for test_distributed: `distributed_run.py FOLDER OBJECTIVE ...`, alone or under torchrun."""

import sys
from pathlib import Path

import torch
from training_scans import linear_scan, tiny_recipe

from AnatomicalEmbedding.training.trainer import train

STEPS = 3
# Adam divides by the size of a gradient: a large epsilon keeps rounding of tiny ones from being blown up
STEADY = {"epsilon": 1e-2, "schedule": "constant", "ema": 0.5}
BATCH = {"coordinates": {"voxels_per_batch": 4 * 24 * 20 * 16}, "hybrid": {"pairs": 2}}


def short_run(folder: Path, objective: str) -> None:
    """Train in `folder`/`objective`."""
    recipe = tiny_recipe(objective, optimiser=STEADY, batch=BATCH[objective])
    scans = [linear_scan("one"), linear_scan("two")]
    train(scans, recipe, folder / objective, STEPS, workers=0, dtype=torch.float32)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in sys.argv[2:]:
        short_run(Path(sys.argv[1]), each)
