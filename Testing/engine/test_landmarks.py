"""Test points derived from outlines, on solids with known points and on real pelves with points set by persons."""

import json
from itertools import product

import numpy as np
import pytest
from evaluations.outline_points import derive_landmarks
from scan_files import voxel_positions

from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.structures.label_files import read_labels

SIZE, STEP = np.array([60, 60, 80]), 2.0  # i, j, k
# axes as RAS; as LPS, head first; and as NIfTI files lie that were written feet first
LAYOUTS = [np.diag([STEP * a, STEP * b, STEP * c, 1.0]) for a, b, c in product((1, -1), repeat=3)]


def label_map(solids: dict[str, object], matrix: np.ndarray) -> LabelMap:
    """solids: name -> function of RAS mm (n, 3) that says which lie in it. The map is centred on the origin."""
    matrix = matrix.copy()
    matrix[:3, 3] = -matrix[:3, :3] @ (SIZE - 1) / 2
    ras = voxel_positions(SIZE[::-1], matrix).reshape(-1, 3)
    voxels = np.zeros(len(ras), dtype=np.uint8)
    for value, inside in enumerate(solids.values(), 1):
        voxels[inside(ras)] = value
    return LabelMap(
        voxels.reshape(SIZE[::-1]), matrix, {name: n for n, name in enumerate(solids, 1)}
    )


def tube(ras: np.ndarray, a: tuple, b: tuple, radius: float) -> np.ndarray:
    a, b = np.array(a, dtype=float), np.array(b, dtype=float)
    along = np.clip((ras - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)
    return np.linalg.norm(ras - a - along[:, None] * (b - a), axis=1) <= radius


def ball(ras: np.ndarray, middle: tuple, radius: float) -> np.ndarray:
    return np.linalg.norm(ras - np.array(middle), axis=1) <= radius


def airway(ras: np.ndarray) -> np.ndarray:
    branches = [tube(ras, (0, 0, 10), (side * 40, 0, -50), 6) for side in (-1, 1)]
    return tube(ras, (0, 0, 70), (0, 0, 10), 8) | branches[0] | branches[1]


@pytest.mark.parametrize("matrix", LAYOUTS)
def test_the_carina_lies_where_the_airway_forks(matrix) -> None:
    found = derive_landmarks(label_map({"trachea": airway}, matrix))["carina"]
    # two tubes of 6 mm part where their axes are 7.2 mm from the middle, at this slope of 60 mm to 40
    assert found == pytest.approx((0, 0, 10 - 7.2 * 60 / 40), abs=3)


def test_the_aorta_ends_where_the_iliac_arteries_part() -> None:
    solids = {
        "aorta": lambda ras: tube(ras, (0, 0, 60), (0, 0, 4), 9),
        "iliac_artery_left": lambda ras: tube(ras, (-4, 0, -4), (-34, 0, -60), 5) & (ras[:, 0] < 0),
        "iliac_artery_right": lambda ras: tube(ras, (4, 0, -4), (34, 0, -60), 5) & (ras[:, 0] >= 0),
    }
    found = derive_landmarks(label_map(solids, LAYOUTS[0]))["aortic_bifurcation"]
    assert found == pytest.approx((0, 0, -10), abs=7)
    del solids["iliac_artery_left"]
    assert "aortic_bifurcation" not in derive_landmarks(label_map(solids, LAYOUTS[0]))


@pytest.mark.parametrize("matrix", LAYOUTS[:3])
def test_poles_are_the_ends_of_a_kidney_and_none_where_the_map_cuts_it(matrix) -> None:
    whole = derive_landmarks(
        label_map({"kidney_left": lambda ras: ball(ras, (-20, 5, 0), 30)}, matrix)
    )
    assert whole["kidney_upper_pole_left"] == pytest.approx((-20, 5, 28), abs=2)
    assert whole["kidney_lower_pole_left"] == pytest.approx((-20, 5, -28), abs=2)
    cut = derive_landmarks(
        label_map({"kidney_left": lambda ras: ball(ras, (-20, 5, 60), 30)}, matrix)
    )
    assert "kidney_upper_pole_left" not in cut
    assert "kidney_lower_pole_left" in cut


def test_a_femoral_head_is_the_sphere_in_its_socket() -> None:
    solids = {
        "hip_left": lambda ras: ball(ras, (-10, 0, 8), 34) & ~ball(ras, (-20, 0, 0), 26),
        "femur_left": lambda ras: (
            ball(ras, (-20, 0, 0), 23) | tube(ras, (-20, 0, 0), (-50, 0, -40), 10)
        ),
    }
    found = derive_landmarks(label_map(solids, LAYOUTS[0]))
    assert found["femoral_head_left"] == pytest.approx((-20, 0, 0), abs=2)


def test_pelvic_points_agree_with_those_that_people_placed(real_data) -> None:
    """On 19 pelves: within what their raters differ by (2 to 5 mm) and a voxel."""
    folder = real_data / "labelmaps"
    if not (folder / "vsd_pelvic_landmarks.json").exists():
        pytest.skip("no pelves with manual landmarks here")
    subjects = json.loads((folder / "vsd_pelvic_landmarks.json").read_text())["subjects"]
    manual = {
        "sacral_promontory": "Sacral Promontory (SP)",
        "anterior_superior_iliac_spine_left": "Left ASIS",
        "anterior_superior_iliac_spine_right": "Right ASIS",
    }
    error: dict[str, list[float]] = {name: [] for name in manual}
    for subject, points in subjects.items():
        path = folder / f"vsd_{subject}.seg.nii.gz"
        labels = read_labels(path, lambda: pytest.fail("a label map needs no scan"))
        found = derive_landmarks(labels)
        for name, called in manual.items():
            error[name].append(
                float(np.linalg.norm(found[name] - np.array(points[called]["lps"]) * (-1, -1, 1)))
            )
    for name, errors in error.items():
        assert len(errors) == 19
        assert np.median(errors) < 5, name
        assert np.percentile(errors, 90) < 8, name
