"""Two processes that train together do what one does with the whole batch, batch normalisation included."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from distributed_run import BATCH, STEPS, short_run
from torch import nn

from AnatomicalEmbedding.training.processes import SyncedBatchNorm3d, synchronised

HERE = Path(__file__).parent


def kept(folder):
    """Losses and the last state of a run."""
    with (folder / "loss.csv").open(newline="") as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    return losses, torch.load(folder / "checkpoint.pt", weights_only=True)


@pytest.fixture(scope="module")
def by_two(tmp_path_factory):
    """Folder of the runs of both objectives by two processes."""
    folder = tmp_path_factory.mktemp("two")
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", "0", "--standalone"]
    path = os.pathsep.join([str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, str(HERE / "distributed_run.py"), str(folder), *BATCH]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize("objective", BATCH)
def test_two_processes_do_what_one_does(objective, by_two, tmp_path):
    short_run(tmp_path, objective)
    alone, state = kept(tmp_path / objective)
    together, shared = kept(by_two / objective)
    assert len(alone) == len(together) == STEPS
    if objective == "coordinates":  # in the hybrid each process draws its own random negatives
        assert together == pytest.approx(alone, rel=1e-4)
        for part in ("network", "averaged", "frames"):
            for name, value in state[part].items():
                torch.testing.assert_close(shared[part][name], value, atol=2e-5, rtol=2e-3, msg=f"{part} {name}")
    else:
        assert together == pytest.approx(alone, rel=0.1)


def test_alone_it_is_plain_batch_normalisation():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv3d(1, 3, 1), nn.BatchNorm3d(3)).train()
    names = list(plain.state_dict())
    x = torch.rand(2, 1, 4, 4, 4)
    expected = plain(x)
    synced = synchronised(plain)
    assert isinstance(synced[1], SyncedBatchNorm3d)
    assert list(synced.state_dict()) == names
    torch.testing.assert_close(synced(x), expected)
