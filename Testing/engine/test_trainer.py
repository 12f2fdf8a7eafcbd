"""Test training: it learns, resumes exactly, and refuses folders of other runs."""

import subprocess
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from statistics import median

import pytest
import torch
from cli_runs import rows_of
from training_scans import LEARNT, frame, linear_scan, tiny_recipe

from AnatomicalEmbedding.embedding.models.network import EmbeddingNetwork
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, CancelledError
from AnatomicalEmbedding.training.trainer import CHECKPOINT, Validation, train

STEPS = 6


@pytest.fixture(autouse=True)
def _one_thread():
    """Sums in one order, so that runs can be compared exactly."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def scans():
    doubt = {"scale_sd": (0.1,) * 3, "shift_sd_mm": (20.0,) * 3}
    return [
        linear_scan(f"patient{n}", guess=frame(shift_mm=(0, 0, 200 + 50 * n), **doubt))
        for n in range(2)
    ]


def after(steps):
    """A Cancel button that is pressed after so many steps."""
    asked = count(1)
    return lambda: next(asked) >= steps


def stop_after(steps, scans, recipe, folder, **options):
    with pytest.raises(CancelledError, match="run the same command"):
        train(scans, recipe, folder, STEPS, workers=0, cancelled=after(steps), **options)


def checkpoint(folder):
    return torch.load(folder / CHECKPOINT, weights_only=True)


def same(a, b):
    return all(torch.equal(a[key], b[key]) for key in a) and a.keys() == b.keys()


def loss_rows(folder):
    return rows_of(folder / "loss.csv")


@pytest.mark.parametrize("objective", ["distances", "hybrid"])
def test_resumed_run_ends_with_the_same_weights_as_an_uninterrupted_one(objective, scans, tmp_path):
    recipe = tiny_recipe(objective, augmentation={"noise_probability": 0.5, "noise_level": 0.05})
    whole = train(scans, recipe, tmp_path / "whole", STEPS, workers=0, objective=LEARNT[objective])
    stop_after(3, scans, recipe, tmp_path / "halves", objective=LEARNT[objective])
    assert checkpoint(tmp_path / "halves")["step"] == 3
    halves = train(
        scans, recipe, tmp_path / "halves", STEPS, workers=0, objective=LEARNT[objective]
    )
    assert whole.steps == halves.steps == STEPS
    assert same(whole.network.state_dict(), halves.network.state_dict())
    one = checkpoint(tmp_path / "whole")
    other = checkpoint(tmp_path / "halves")
    assert same(one["network"], other["network"])
    assert same(one["frames"], other["frames"])
    assert one["mean_loss"] == other["mean_loss"]
    columns = ("step", "loss", "learning_rate")
    rows = [
        [tuple(row[c] for c in columns) for row in loss_rows(tmp_path / name)]
        for name in ("whole", "halves")
    ]
    assert rows[0] == rows[1]
    assert [row[0] for row in rows[0]] == [str(step) for step in range(1, STEPS + 1)]


@pytest.mark.parametrize("what", ["recipe", "scans"])
def test_checkpoint_of_another_run_is_refused(what, scans, tmp_path):
    train(scans, tiny_recipe(), tmp_path, 1, workers=0)
    recipe = tiny_recipe(loss={"beta_mm": 7.0}) if what == "recipe" else tiny_recipe()
    data = scans[:1] if what == "scans" else scans
    with pytest.raises(
        AnatomicalEmbeddingError, match="another recipe, seed, steps or scans; choose another"
    ):
        train(data, recipe, tmp_path, 1, workers=0)
    assert checkpoint(tmp_path)["step"] == 1


def test_patients_validated_on_are_not_trained_on(tmp_path):
    for name in ("anna_t1", "bert"):
        (tmp_path / f"{name}.nii.gz").write_bytes(b"")
        (tmp_path / f"{name}.landmarks.json").write_text('{"points": {"carina": [1, 2, 3]}}')
    scans = [linear_scan(name) for name in ("anna_t0", "bert", "berta", "carl")]
    assert [s.name for s in Validation(tmp_path).scans_for_training(scans)] == ["berta", "carl"]
    assert Validation().scans_for_training(scans) == scans


def test_best_validated_weights_are_the_runs(scans, tmp_path):
    """The second of three judgements is the best one; a resumed run remembers it."""
    seen = []
    errors = iter([9.0, 2.0, 5.0])

    def validate(network):
        assert not network.training
        seen.append({name: value.clone() for name, value in network.state_dict().items()})
        return {"centre": next(errors), "phantom": 1.0}

    def run(folder):
        return train(
            scans, tiny_recipe(), folder, STEPS, workers=0, validate=validate, validate_every=2
        )

    best = run(tmp_path).network.state_dict()
    assert same(best, seen[1])
    assert not same(best, seen[2])
    assert same(run(tmp_path).network.state_dict(), best)
    assert [(row["step"], row["centre"]) for row in rows_of(tmp_path / "validation.csv")] == [
        ("2", "9.00"),
        ("4", "2.00"),
        ("6", "5.00"),
    ]


@pytest.mark.parametrize(
    ("objective", "steps", "share"),
    [
        ("coordinates", 70, 0.8),
        pytest.param("descriptors", 120, 0.9, marks=pytest.mark.long),
        ("hybrid", 70, 0.85),
        pytest.param("levels", 240, 0.8, marks=pytest.mark.long),
    ],
)
def test_loss_falls(objective, steps, share, scans, tmp_path):
    loss = {"temperature": 0.1} if objective == "descriptors" else {}
    recipe = tiny_recipe(objective, loss=loss, optimiser={"warm_up": 0.0, "final": 1.0})
    train(scans, recipe, tmp_path, steps, workers=0, objective=LEARNT[objective])
    losses = [float(row["loss"]) for row in loss_rows(tmp_path)]
    assert median(losses[-15:]) < share * median(losses[:15])  # a single batch may be hard


def test_descriptors_are_added_to_finished_weights(scans, tmp_path):
    """The coordinate stays what it was to the last bit, and the descriptors learn."""
    plain = train(scans, tiny_recipe(), tmp_path / "plain", 3, workers=0)
    recipe = tiny_recipe("hybrid", optimiser={"descriptors_only": True})
    run = train(scans, recipe, tmp_path / "both", 3, workers=0, start_from=plain.network)
    before = plain.network.state_dict()
    after = run.network.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)
    torch.manual_seed(0)
    untrained = EmbeddingNetwork(recipe.network).state_dict()
    new = [name for name in after if name not in before]
    assert new
    assert all(name.startswith("local.") for name in new)
    assert not any(torch.equal(after[name], untrained[name]) for name in new if "weight" in name)


def test_fine_tuning_another_network_is_refused(scans, tmp_path):
    other = EmbeddingNetwork(replace(tiny_recipe().network, widths=(4, 8)))
    with pytest.raises(AnatomicalEmbeddingError, match="do not fit the recipe's network"):
        train(scans, tiny_recipe(), tmp_path, 1, workers=0, start_from=other)


def test_a_run_that_fails_ends_and_leaves_no_worker_waiting(tmp_path):
    script = Path(__file__).with_name("failing_run.py")
    ended = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 1
    assert "the disk is on fire" in ended.stderr
