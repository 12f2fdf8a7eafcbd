"""Test the evaluation of registration, with known transforms."""

import json
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
from evaluations.registration import evaluate_registration

from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.structures.labelled_scans import Case, load_cases

SHIFT = np.array([6.0, -9.0, 12.0])


def write_case(
    folder: Path, name: str, shift: np.ndarray, landmarks: dict[str, list[float]] | None = None
) -> None:
    """A cylinder of tissue with two organs in it, moved by `shift` mm."""
    _, j, i = np.indices((30, 50, 50))
    voxels = np.where((i - 25) ** 2 + (j - 25) ** 2 < 20**2, 30, -1000).astype(np.int16)
    labels = np.zeros(voxels.shape, dtype=np.uint8)
    labels[10:18, 18:26, 14:22] = 1
    labels[12:20, 24:32, 26:34] = 2
    matrix = np.diag([4.0, 4.0, 4.0, 1.0])
    matrix[:3, 3] = np.array([-100.0, -100.0, 0.0]) + shift
    Volume(voxels, matrix).write(folder / f"{name}.nii.gz")
    if landmarks is not None:
        (folder / f"{name}.landmarks.json").write_text(
            json.dumps({"frame": "RAS", "points": landmarks})
        )
        return
    sitk.WriteImage(Volume(labels, matrix).to_sitk(), str(folder / f"{name}.seg.nii.gz"))
    (folder / f"{name}.labels.json").write_text(json.dumps({"1": "liver", "2": "spleen"}))


def by(step: np.ndarray):
    """A method that moves points from `a` to `b` by a step, and back again."""
    return lambda fixed, points, moving: points + (step if fixed.id.startswith("a") else -step)


@pytest.fixture
def cases(tmp_path) -> list[Case]:
    write_case(tmp_path, "a", np.zeros(3))
    write_case(tmp_path, "b", SHIFT)
    return load_cases(tmp_path)


def test_dice_of_a_shifted_box_is_what_geometry_says(cases):
    """Boxes of 32 mm a side, 8 mm apart along one axis: 3/4 of each lie in the other."""
    off = by(SHIFT + np.array([0.0, 0.0, 8.0]))
    measured = evaluate_registration(cases, {"off": off}).measured[0]
    assert measured.dice["liver"] == pytest.approx(0.75, abs=0.04)


def test_landmarks_of_one_patient_are_measured_in_mm(tmp_path):
    marks = {"one": [0.0, 0.0, 50.0], "two": [10.0, -20.0, 60.0]}
    moved = {name: (np.array(point) + SHIFT).tolist() for name, point in marks.items()}
    write_case(tmp_path, "a_t0", np.zeros(3), marks)
    write_case(tmp_path, "a_t1", SHIFT, moved)

    def five_off(fixed: Case, points: np.ndarray, moving: Case) -> np.ndarray:
        return points + (SHIFT if fixed.id == "a_t0" else -SHIFT) + [3.0, 0.0, 4.0]

    result = evaluate_registration(load_cases(tmp_path), {"five off": five_off})
    assert [m.errors_mm.tolist() for m in result.measured] == [pytest.approx([5.0, 5.0])] * 2
    assert "five off 5.00 5.00 5.00 4 of 4 0.00" in " ".join(result.table().split())
    assert json.loads(result.to_json())["pairs"][0]["landmark_errors_mm"] == [5.0, 5.0]
