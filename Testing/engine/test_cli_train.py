"""Test the command train: it prepares scans, trains, continues a stopped run, and refuses wrong arguments."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from cli_runs import rows_of
from training_scans import tiny_recipe, write_recipe

from AnatomicalEmbedding.cli.main import main
from AnatomicalEmbedding.embedding.models.registry import read_weights
from AnatomicalEmbedding.scan.volume import Volume

GRID = [8.0, 8.0, 8.0]


@pytest.fixture(scope="module")
def scans(tmp_path_factory, phantom_pair):
    """Two patients with readings and a file that is none."""
    folder = tmp_path_factory.mktemp("data") / "train"
    folder.mkdir()
    for n, phantom in enumerate(phantom_pair):
        volume = phantom.volume
        Volume(
            volume.voxels[::2, ::2, ::2], volume.ijk_to_ras @ np.diag([2.0, 2.0, 2.0, 1.0])
        ).write(folder / f"patient{n}.nii.gz")
    (folder / "broken.nii.gz").write_bytes(b"no image")
    levels = {
        "body_height_mm": {"carina": 469},
        "scans": {f"patient{n}": {"carina": -30.0} for n in range(2)},
    }
    (folder.parent / "train_levels.json").write_text(json.dumps(levels))
    return folder


@pytest.fixture
def recipe(tmp_path):
    """The tiny recipe as a file."""
    return write_recipe(tiny_recipe(network={"spacing_mm": GRID}), tmp_path)


def anatemb(*words):
    return main([str(word) for word in words])


def train(data, folder, recipe, steps, *options):
    """A run without validation, its batches and scans prepared in this process."""
    quick = ("--workers", 0, "--validate-every", 0, "--jobs", 1)
    return anatemb(
        "train", data, "-o", folder, "--recipe", recipe, "--steps", steps, *quick, *options
    )


def test_prepare_then_train_on_the_set(scans, recipe, tmp_path, capsys):
    assert anatemb("prepare", scans, "-o", tmp_path / "set", "--recipe", recipe, "--jobs", 1) == 0
    assert "broken.nii.gz" in capsys.readouterr().err
    assert [row["used"] for row in rows_of(tmp_path / "set" / "report.csv")] == ["no", "yes", "yes"]
    assert train(tmp_path / "set", tmp_path / "run", recipe, 3, "--json") == 0
    *steps, said = map(json.loads, capsys.readouterr().out.splitlines())
    assert [line["step"] for line in steps] == [1, 2, 3]
    assert all(line["loss"] > 0 and line["seconds_per_step"] > 0 for line in steps)
    assert said["steps"] == 3
    weights = read_weights(tmp_path / "run" / "weights.safetensors")
    assert weights.card["scans"] == ["patient0", "patient1"]
    assert not (tmp_path / "run" / "prepared").exists()


@pytest.mark.parametrize("option", [("--start-from", "none.safetensors"), ("--validate", "none")])
def test_files_that_are_not_there_are_named_before_scans_are_prepared(
    scans, recipe, tmp_path, capsys, option
):
    assert (
        anatemb("train", scans, "-o", tmp_path / "run", "--recipe", recipe, "--jobs", 1, *option)
        == 2
    )
    assert f"{option[1]}: no such f" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_signal_to_the_whole_group_saves_and_the_run_goes_on(scans, recipe, tmp_path):
    """As a batch system or Ctrl-C in a terminal does it: loop and workers get it alike."""
    assert anatemb("prepare", scans, "-o", tmp_path / "set", "--recipe", recipe, "--jobs", 1) == 0
    folders = [tmp_path / "set", "-o", tmp_path / "run"]
    words = ["train", *folders, "--recipe", recipe, "--steps", 100_000, "--validate-every", 0]
    command = [sys.executable, "-m", "AnatomicalEmbedding", *map(str, words), "--json"]
    run = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    for _ in range(5):
        assert json.loads(run.stdout.readline())["step"] >= 1
    os.killpg(run.pid, signal.SIGTERM)
    try:
        _, said = run.communicate(timeout=120)
    finally:
        run.kill()
    assert run.returncode == 2, said
    assert "run the same command to continue" in said
    assert "Traceback" not in said
    state = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)
    assert state["step"] >= 5
