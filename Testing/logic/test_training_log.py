"""Test the curves of a training run, which are read while the trainer may be writing the file."""

import pytest

from AnatomicalEmbeddingLib.training.TrainingLog import LossCurve, bestOf, readValidations

HEADER = "step,loss,learning_rate,minutes\r\n"


def write_losses(folder, text):
    (folder / "loss.csv").write_bytes((HEADER + text).encode())


@pytest.mark.parametrize("rest", ["3", "3,0.2", "3,0.25,1e-3,0.1"])
def test_half_written_last_line_is_not_read(tmp_path, rest):
    write_losses(tmp_path, "1,1.0,1e-3,0.01\r\n2,1.0,1e-3,0.02\r\n" + rest)
    assert LossCurve.read(tmp_path).steps == [1, 2]


def test_damaged_lines_are_passed_over(tmp_path):
    write_losses(
        tmp_path,
        "1,1.0,1e-3,0.01\r\n\x00\x00\r\n2,nan,1e-3,0.02\r\n3,1.0\r\n,,,\r\n4,x,y,z\r\n5,1,1,1,1,1\r\n",
    )
    assert LossCurve.read(tmp_path).steps == [1, 3, 5]


def test_steps_done_again_replace_those_a_kill_lost():
    curve = LossCurve()
    for step in range(1, 6):
        curve.add(step, 1.0)
    curve.add(3, 7.0)
    assert curve.steps == [1, 2, 3]
    assert curve.means == [1.0, 1.0, 7.0]


def test_best_row_has_the_least_mean_over_kinds(tmp_path):
    (tmp_path / "validation.csv").write_text(
        "step,phantom,centre\n10,9.0,20.0\n20,12.0,8.0\n30,8.0,12.0\n"
    )
    assert bestOf(readValidations(tmp_path))["step"] == 20
    (tmp_path / "validation.csv").write_text("step,phantom\n")
    assert bestOf(readValidations(tmp_path)) is None
