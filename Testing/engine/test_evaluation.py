"""Test the evaluation of landmarks on folders with known truth: ellipsoids that are shifted by known vectors."""

import numpy as np
import pytest
from ellipsoid_cases import FLIPPED, OBLIQUE, ORGANS, PLAIN, SPACING, grid, inside, write_case

from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.evaluation.protocol import evaluate_landmarks
from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.structures.label_names import KINDS, find_structures
from AnatomicalEmbedding.structures.labelled_scans import find_pairs, load_cases

# Shifts by whole voxels, so that the label maps move exactly.
SHIFTS = {"anna": (0.0, 0.0, 0.0), "bert": (8.0, -6.0, 10.0), "carl": (-12.0, 9.0, -5.0)}
LANDMARKS = {"carina": (3.0, 4.0, 410.0), "apex": (-30.0, 10.0, 440.0)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("labelled")
    for case_id, shift in SHIFTS.items():
        write_case(path, case_id, shift)
    later = {name: np.add(point, SHIFTS["bert"]).tolist() for name, point in LANDMARKS.items()} | {
        "own": [0, 0, 400]
    }
    write_case(path, "dora_baseline", organs={}, landmarks=LANDMARKS)
    write_case(path, "dora_followup", SHIFTS["bert"], organs={}, landmarks=later)
    (path / "unlabelled.txt").write_text("not a scan")
    return path


@pytest.fixture(scope="module")
def cases(folder):
    return load_cases(folder)


def shift_of(case):
    return np.array(
        SHIFTS.get(case.id, SHIFTS["bert"] if case.id.endswith("followup") else (0, 0, 0))
    )


def perfect(template, points_ras, target):
    return points_ras + shift_of(target) - shift_of(template)


def ten_mm_off(template, points_ras, target):
    return perfect(template, points_ras, target) + np.array((6.0, 0.0, -8.0))


def test_pairs_are_of_different_patients_or_of_one_with_landmarks(cases):
    pairs = {(p.template.id, p.target.id): p for p in find_pairs(cases)}
    organs = {(a, b) for a in SHIFTS for b in SHIFTS if a != b}
    assert set(pairs) == organs | {
        ("dora_baseline", "dora_followup"),
        ("dora_followup", "dora_baseline"),
    }
    assert pairs["anna", "bert"].kinds == KINDS * 3
    assert pairs["dora_baseline", "dora_followup"].names == ("apex", "carina")


def test_perfect_matcher_has_no_error_and_shifted_one_has_its_shift(cases):
    calls = []
    result = evaluate_landmarks(
        cases, {"perfect": perfect, "off": ten_mm_off}, progress=lambda *call: calls.append(call)
    )
    for group, points in (("centre", 18), ("extreme", 108), ("landmark", 4)):
        for matcher, error in (("perfect", 0.0), ("off", 10.0)):
            summary = result.summary(matcher, group)
            assert (summary.n, summary.missing) == (points, 0)
            assert (summary.mean, summary.median, summary.p90) == pytest.approx(
                (error,) * 3, abs=1e-6
            )
            assert summary.sd == pytest.approx(0.0, abs=1e-6)
    for structure in result.names("centre"):
        assert result.inside("perfect", structure) == 1.0
        assert result.inside("off", structure) < 0.9
    assert [share for share, _ in calls] == [n / 16 for n in range(17)]


def test_points_without_an_answer_are_counted_not_averaged(cases):
    def half(template, points_ras, target):
        answers = ten_mm_off(template, points_ras, target)
        answers[::2] = np.nan
        return answers

    def none(template, points_ras, target):
        return np.full_like(points_ras, np.nan)

    result = evaluate_landmarks(cases, {"half": half, "none": none}, notes=("a note",))
    assert result.summary("half", "landmark").n == result.summary("half", "landmark").missing == 2
    assert result.summary("half").mean == pytest.approx(10.0)
    assert result.summary("none").mean is None
    assert result.inside("none", "liver") == 0.0
    assert "a note" in result.table()


@pytest.mark.parametrize(
    "directions", [PLAIN, FLIPPED, OBLIQUE], ids=["plain", "flipped", "oblique"]
)
def test_centre_and_extremes_are_the_patients_whatever_the_header(directions):
    centre = np.array(ORGANS["liver"][0])
    axes = np.array(ORGANS["liver"][1])
    affine, ras = grid(directions, centre + np.array((7.0, -9.0, 4.0)))
    found, _ = find_structures(
        LabelMap(inside(ras, centre, axes).astype(np.uint8), affine, {"liver": 1})
    )
    points = dict(zip(KINDS, found["liver"], strict=True))
    assert points["centre"] == pytest.approx(centre, abs=0.5)
    for kind, axis, sign in (
        ("right", 0, 1), ("left", 0, -1), ("anterior", 1, 1), ("posterior", 1, -1), ("superior", 2, 1),
        ("inferior", 2, -1),
    ):  # fmt: skip
        expected = centre + sign * axes * np.eye(3)[axis]
        assert points[kind][axis] == pytest.approx(expected[axis], abs=SPACING.max())
        assert np.delete(points[kind], axis) == pytest.approx(np.delete(expected, axis), abs=6.0)


def test_bad_folders_and_files_are_named(tmp_path):
    with pytest.raises(PointsError, match="no labelled scan"):
        load_cases(tmp_path)
    write_case(tmp_path, "anna")
    labels = tmp_path / "anna.labels.json"
    for text, says in (
        ('{"1": "Kidney L", "2": "left kidney"}', r"anna\.labels\.json.*kidney_left"),
        ("[1, 2", "JSON"),
    ):
        labels.write_text(text)
        with pytest.raises(PointsError, match=says):
            load_cases(tmp_path)
    labels.unlink()
    with pytest.raises(PointsError, match="is missing"):
        load_cases(tmp_path)
