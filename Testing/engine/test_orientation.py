"""Scans stored the wrong way round: what is turned, what the check says of it, and that good scans are left alone."""

import json

import numpy as np
import pytest
from small_models import analytic_map

from AnatomicalEmbedding import Volume, load_model
from AnatomicalEmbedding.embedding.coverage import misfit_mm
from AnatomicalEmbedding.embedding.orientation import FAULTS, OrientationCheck, check_orientation, turn_over
from AnatomicalEmbedding.phantom import make_phantom


@pytest.fixture(scope="module")
def model():
    return load_model(device="cpu")


@pytest.fixture(scope="module")
def trunk():
    return make_phantom(915, spacing=(3.0, 3.0, 4.0), coverage_mm=(220.0, 440.0)).volume


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_turning_mirrors_the_scan_within_its_outlines(axis, order):
    voxels = np.arange(4 * 5 * 6).reshape(4, 5, 6).astype(np.int16)
    ijk_to_ras = np.eye(4)
    ijk_to_ras[:3, :3] = np.diag([2.0, -3.0, 4.0])[:, list(order)]
    volume = Volume(voxels, ijk_to_ras)
    turned = turn_over(volume, axis)
    np.testing.assert_allclose(turned.bounds_ras, volume.bounds_ras)
    points = np.random.default_rng(0).uniform(*volume.bounds_ras, size=(20, 3))
    mirrored = points.copy()
    mirrored[:, axis] = volume.bounds_ras.sum(axis=0)[axis] - points[:, axis]
    inner = volume.contains(points)
    np.testing.assert_allclose(turned.sample(mirrored)[inner], volume.sample(points)[inner], atol=1e-6)


@pytest.mark.parametrize("noise", [2.0, 10.0])
def test_misfit_is_the_distance_from_an_affine_body(noise):
    found = misfit_mm(analytic_map(lambda p: p @ np.diag([1.1, 0.9, 1.2]) + 50, noise=noise))
    assert found == pytest.approx(noise * 1.538, rel=0.05)  # median length of a 3-D normal vector


@pytest.mark.parametrize(
    ("misfit", "turned", "fault"),
    [(6, (8, 20, 90), None), (8, (6, 20, 80), FAULTS[0]), (8, (7.9, 20, 80), None), (90, (80, 40, 6), FAULTS[2])],
)
def test_the_better_body_is_reported(misfit, turned, fault):
    assert OrientationCheck(misfit, turned).fault == fault


def test_a_good_scan_has_no_fault_and_a_turned_one_has_its_own(model, trunk):
    def fault(scan):
        return check_orientation(model, scan, model.embed(scan)).fault

    assert fault(trunk) is None
    for axis in (0, 2):
        assert fault(turn_over(trunk, axis)) == FAULTS[axis]


def test_info_says_what_a_scan_holds_and_which_way(anatemb, trunk, tmp_path):
    turn_over(trunk, 2).write(tmp_path / "wrong.nii.gz")
    outcome = anatemb("info", tmp_path / "wrong.nii.gz", "--check", "--json", "--no-cache")
    assert outcome.code == 0
    (facts,) = json.loads(outcome.out)
    assert facts["orientation"] == FAULTS[2]
    assert "from" in facts["holds"]
