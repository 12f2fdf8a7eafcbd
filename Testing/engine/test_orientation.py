"""Test the detection of mirrored scans: mirror images are reported, good scans are not."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_models import analytic_map

from AnatomicalEmbedding import Volume, load_model
from AnatomicalEmbedding.embedding.cache import MapCache
from AnatomicalEmbedding.embedding.models.mirror_network import AXES, MirrorNetwork
from AnatomicalEmbedding.embedding.orientation import (
    FAULTS,
    JOINED,
    UNLIKE,
    UNUSUAL_SIZE,
    doubtful_axes,
    find_faults,
    turn_over,
)
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.training.known_matches import cut_scan


@pytest.fixture(scope="module")
def model(map_folder):
    return load_model(device="cpu", cache=MapCache(map_folder))


@pytest.fixture(scope="module")
def trunk(tmp_path_factory):
    """As a file gives it back, so that the commands embed the same scan."""
    path = tmp_path_factory.mktemp("trunk") / "trunk.nii.gz"
    make_phantom(915, spacing=(3.0, 3.0, 4.0), coverage_mm=(220.0, 440.0)).volume.write(path)
    return Volume.read(path)


@pytest.mark.parametrize(("axis", "order"), [(0, (0, 1, 2)), (2, (2, 0, 1))])
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
    np.testing.assert_allclose(
        turned.sample(mirrored)[inner], volume.sample(points)[inner], atol=1e-6
    )


@torch.no_grad()
def test_of_a_mirror_image_the_network_says_the_opposite():
    torch.manual_seed(3)
    network = MirrorNetwork(members=2).eval()
    x = torch.rand(1, 3, 8, 12, 16)
    for n, axis in enumerate(AXES):
        torch.testing.assert_close(network(x.flip(axis))[0, n], -network(x)[0, n])


def test_a_part_of_the_body_that_comes_twice_is_reported():
    joined = analytic_map(lambda p: p - (0, 0, 300) - (p[..., 2:] > 465) * (0, 0, 150), noise=5.0)
    assert JOINED in find_faults(joined, (9, 9, 9), {})


def test_mirror_images_of_noise_are_not_embedded_and_those_of_turned_scans_are(model):
    """Noise took three times as long as a patient."""
    noise = analytic_map(lambda p: np.random.default_rng(0).normal(0, 90, p.shape) + (0, 0, 300))
    turned = analytic_map(lambda p: p * (1, -1, 1) + (0, 60, 0))
    noise, turned = (replace(each, calibration=model.calibration) for each in (noise, turned))
    assert doubtful_axes(noise, (-3.9, 1.3, -1.7)) == ()
    assert 1 in doubtful_axes(turned, (0.0, -1.7, 0.0))


def test_a_good_scan_has_no_fault_and_a_turned_one_has_its_own(model, trunk):
    assert model.embed(trunk).faults == ()
    for axis in (0, 2):
        assert FAULTS[axis] in model.embed(turn_over(trunk, axis)).faults


def test_no_real_pelvis_is_called_turned_and_turned_ones_are(model, real_data):
    """Whole, cut below the iliac crests where the network is wrong, and one crop of a thigh and buttock."""
    for name, height in (
        ("dev/pelvicref002", 350),
        ("train/aapm_L192", 200),
        ("train/sts_003", 200),
    ):
        volume = Volume.read(real_data / f"{name}.nii.gz")
        pelvis = cut_scan(volume, volume.bounds_ras[0, 2], volume.bounds_ras[0, 2] + height)
        assert model.embed(pelvis).faults == ()
        if "sts" not in name:  # a crop of little more than muscle
            assert FAULTS[1] in model.embed(turn_over(pelvis, 1)).faults


def test_wrong_voxel_sizes_and_noise_are_reported(model, real_data):
    head = Volume.read(real_data / "dev" / "kbp_pt_82.nii.gz")
    for scale in ((0.5, 0.5, 0.5), (1, 1, 2), (1, 1, 0.5)):
        wrong = Volume(head.voxels, np.diag([*scale, 1.0]) @ head.ijk_to_ras)
        assert model.embed(wrong).faults == (UNUSUAL_SIZE,)
    noise = np.random.default_rng(0).normal(0, 200, (60, 100, 100)).astype(np.int16)
    assert UNLIKE in model.embed(Volume(noise, np.diag([4.0, 4.0, 5.0, 1.0]))).faults


def test_match_and_info_say_it(anatemb, trunk, tmp_path):
    turn_over(trunk, 2).write(tmp_path / "wrong.nii.gz")
    trunk.write(tmp_path / "right.nii.gz")
    outcome = anatemb("info", tmp_path / "wrong.nii.gz", "--check", "--json")
    assert outcome.code == 0
    (facts,) = json.loads(outcome.out)
    assert FAULTS[2] in facts["orientation"]
    assert "from" in facts["holds"]
    middle = ",".join(f"{x:.1f}" for x in trunk.bounds_ras.mean(axis=0))
    scans = (tmp_path / "right.nii.gz", tmp_path / "wrong.nii.gz")
    outcome = anatemb("match", *scans, "--point", middle, "-o", tmp_path / "out")
    assert outcome.code == 0
    assert f"wrong.nii.gz: according to the anatomy, {FAULTS[2]}" in outcome.err
    assert "right.nii.gz" not in outcome.err
    assert FAULTS[2] in next((tmp_path / "out").glob("*.html")).read_text()
