"""Test real training runs in a child process, with two phantoms and a very small network."""

import json

import numpy as np
import pytest
from training_runs import Watched, group_is_empty, settings

from AnatomicalEmbedding.embedding.models.registry import read_weights
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbeddingLib.shared.processes.EngineProcess import FINISHED, STOPPED
from AnatomicalEmbeddingLib.training.TrainingLog import LossCurve
from AnatomicalEmbeddingLib.training.TrainingRun import UNFINISHED, inspectRun

TINY = """
name = "tiny"
objective = "coordinates"
[network]
widths = [4, 4, 4, 4]
spacing_mm = [8.0, 8.0, 8.0]
hu_knots = [-1000.0, 1000.0]
level_knots = [0.0, 1.0]
unit_mm = 100.0
[batch]
crop_sizes = [[24, 20, 16]]
voxels_per_batch = 15360
height_bands = [[-1000, 1000, 1.0]]
[augmentation]
[loss]
frame_prior = 0.01
[optimiser]
learning_rate = 1e-2
weight_decay = 1e-2
epsilon = 1e-8
gradient_clip = 1.0
warm_up = 0.2
frame_learning_rate = 1e-2
ema = 0.9
"""


@pytest.fixture
def run(tmp_path, phantom_pair):
    """Settings of a run on a set prepared from two phantoms whose place in the body is known."""
    from AnatomicalEmbedding.training.frames import LevelTable
    from AnatomicalEmbedding.training.preparation import prepare_set

    scans = tmp_path / "cts"
    for n, phantom in enumerate(phantom_pair):
        volume = phantom.volume
        coarse = volume.ijk_to_ras @ np.diag([2.0, 2.0, 2.0, 1.0])
        Volume(volume.voxels[::2, ::2, ::2], coarse).write(scans / f"patient{n}.nii.gz")
    levels = {
        "body_height_mm": {"carina": 469},
        "scans": {f"patient{n}": {"carina": -30.0} for n in range(2)},
    }
    (tmp_path / "levels.json").write_text(json.dumps(levels))
    prepare_set(
        [scans],
        (8.0, 8.0, 8.0),
        tmp_path / "scans",
        levels=LevelTable.read(tmp_path / "levels.json"),
    )
    (tmp_path / "tiny.toml").write_text(TINY)
    return settings(
        tmp_path, recipe=str(tmp_path / "tiny.toml"), fineTune=False, validateEvery=0, threads=1, device="cpu",
        steps=100_000,
    )  # fmt: skip


@pytest.fixture
def watch():
    """Make a watched process; what is still running at the end of the test is killed."""
    made = []

    def make() -> Watched:
        made.append(Watched())
        return made[-1]

    yield make
    for watched in made:
        watched.process.kill()


@pytest.mark.long
def test_stop_resume_and_finish_count_on_and_leave_weights(run, watch):
    """With a process that prepares batches beside the trainer: it must end with it."""
    first = watch()
    first.process.start(run)
    first.until(lambda: len(first.progress) >= 5)
    group = first.group()
    first.process.stop()
    assert first.result() == (STOPPED, "")
    first.until(lambda: group_is_empty(group))
    assert [p.step for p in first.progress] == list(range(1, len(first.progress) + 1))
    curve = LossCurve.read(run.runFolder)
    assert curve.steps == [p.step for p in first.progress]  # every step was saved
    assert curve.means == pytest.approx([p.loss for p in first.progress], abs=1e-4)
    state = inspectRun(run.runFolder)
    assert (state.stage, state.settings, state.steps) == (UNFINISHED, run, curve.last)

    second = watch()
    # as in a later session: all it knows is in the folder
    second.process.start(state.settings, finishNow=True)
    assert second.result() == (FINISHED, "")
    assert second.progress == []
    assert inspectRun(run.runFolder).steps == curve.last
    card = read_weights(inspectRun(run.runFolder).weights).card
    assert (card["steps"], card["scans"]) == (curve.last, ["patient0", "patient1"])
