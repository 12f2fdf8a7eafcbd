"""Start a training run that fails in its second step with batch workers: `python failing_run.py FOLDER`."""

import sys
from pathlib import Path

import torch
from training_scans import linear_scan, tiny_recipe

from AnatomicalEmbedding.training.trainer import train


def fail(progress):
    if progress.step == 2:
        raise RuntimeError("the disk is on fire")


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(
        [linear_scan("one")],
        tiny_recipe("coordinates"),
        Path(sys.argv[1]),
        50,
        workers=1,
        progress=fail,
    )
