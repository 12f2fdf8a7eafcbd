"""A short training run, for test_distributed: `python distributed_run.py FOLDER OBJECTIVE`, alone or under torchrun."""

import sys
from pathlib import Path

import torch
from training_scans import linear_scan, tiny_recipe

from AnatomicalEmbedding.training.trainer import train

STEPS = 3
# Adam divides by the size of a gradient: a large epsilon keeps rounding of tiny ones from being blown up
STEADY = {"epsilon": 1e-2, "schedule": "constant", "ema": 0.5}
BATCH = {"coordinates": {"voxels_per_batch": 4 * 24 * 20 * 16}, "hybrid": {"pairs": 2}}

if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, objective = Path(sys.argv[1]), sys.argv[2]
    recipe = tiny_recipe(objective, optimiser=STEADY, batch=BATCH[objective])
    run = train([linear_scan("one"), linear_scan("two")], recipe, folder, STEPS, workers=0, dtype=torch.float32)
    print(run.steps)
