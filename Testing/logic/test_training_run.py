"""Test the state of a run's folder (new, unfinished, finished or foreign), and which settings can continue the run."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from training_runs import settings

from AnatomicalEmbeddingLib.training.TrainingRun import (
    FINISHED,
    FOREIGN,
    UNFINISHED,
    inspectRun,
    rememberRun,
    runProblem,
)

STEPS = 20


@pytest.fixture
def run(tmp_path):
    """Settings whose folder is made and remembers them."""
    made = settings(tmp_path, steps=STEPS, minutes=10)
    rememberRun(made)
    return made


def put(run, name, when=100, text=""):
    path = Path(run.runFolder) / name
    path.write_text(text)
    os.utime(path, (when, when))


def losses(run, steps, minutes):
    rows = "".join(f"{n},1.0,1e-3,{minutes * n / steps:.2f}\n" for n in range(1, steps + 1))
    put(run, "loss.csv", text="step,loss,learning_rate,minutes\n" + rows)


def test_folder_with_other_files_is_refused(tmp_path, run):
    (tmp_path / "scans" / "letter.txt").write_text("")
    state = inspectRun(tmp_path / "scans")
    assert state.stage == FOREIGN
    assert "holds other files" in runProblem(run, state)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"settings": 3}', "{"])
def test_damaged_settings_make_the_folder_foreign(run, text):
    put(run, "run.json", text=text)
    assert inspectRun(run.runFolder).stage == FOREIGN


def test_unfinished_run_is_found_with_its_settings_and_steps(run):
    put(run, "checkpoint.pt")
    losses(run, 7, 3.5)
    state = inspectRun(run.runFolder)
    assert (state.stage, state.settings, state.steps, state.minutes) == (UNFINISHED, run, 7, 3.5)
    assert state.weights is None
    assert runProblem(replace(run, minutes=5, device="cpu"), state) is None
    assert "other settings (number of steps, further options)" in runProblem(
        replace(run, steps=1, furtherOptions="--seed 1"), state
    )


def test_finished_run_has_weights_and_no_more_steps(run):
    put(run, "checkpoint.pt", 100)
    put(run, "weights.safetensors", 101)
    losses(run, STEPS, 2)
    state = inspectRun(run.runFolder)
    assert (state.stage, state.weights) == (FINISHED, Path(run.runFolder) / "weights.safetensors")
    assert "done all its steps" in runProblem(run, state)


def test_weights_of_an_earlier_sitting_do_not_finish_the_run(run):
    put(run, "weights.safetensors", 100)
    put(run, "checkpoint.pt", 101)
    losses(run, 12, 15)
    assert inspectRun(run.runFolder).stage == UNFINISHED
