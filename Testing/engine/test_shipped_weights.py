"""Test the shipped weights: accuracy on unseen synthetic patients; headers and slabs must not change answers."""

import numpy as np
import pytest
from evaluations.phantoms import evaluate_phantoms
from scan_files import voxel_positions

from AnatomicalEmbedding import Volume, load_model
from AnatomicalEmbedding.embedding.coverage import find_coverage
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.scan.geometry import rotations

FINE_MM = (1.5, 1.5, 2.0)


@pytest.fixture(scope="module")
def model():
    return load_model(device="cpu")


@pytest.fixture(scope="module")
def pair():
    return [
        make_phantom(seed, spacing=(3.0, 3.0, 4.0), coverage_mm=(220.0, 440.0))
        for seed in (910, 911)
    ]


@pytest.fixture(scope="module")
def maps(model, pair):
    return [model.embed(phantom.volume) for phantom in pair]


def test_named_points_of_an_unseen_patient(pair, maps):
    template, target = (phantom.points_ras for phantom in pair)
    names = sorted(template.keys() & target.keys())
    points, truth = (np.array([of[name] for name in names]) for of in (template, target))
    found = match(maps[0], points, maps[1]).points_ras
    assert np.median(np.linalg.norm(found - truth, axis=1)) <= 4.0


@pytest.mark.long
def test_named_points_in_all_views_of_unseen_patients(model):
    result = evaluate_phantoms(model, [880, 881])
    everything = np.concatenate(list(result.errors_mm.values()))
    assert np.median(everything) <= 4.0
    assert all(np.median(errors) <= 5.0 for errors in result.errors_mm.values())


@pytest.mark.parametrize("heights", [(-80.0, 250.0), (380.0, 620.0)])
def test_the_part_of_the_body_in_a_scan_is_found(model, heights):
    phantom = make_phantom(913, spacing=(3.0, 3.0, 4.0), coverage_mm=heights)
    found = find_coverage(model.embed(phantom.volume))
    middle = phantom.volume.bounds_ras.mean(axis=0)
    low, high = (
        phantom.to_body(np.array([[*middle[:2], z]]))[0, 2] for z in phantom.volume.bounds_ras[:, 2]
    )
    assert found.low_mm == pytest.approx(low, abs=25)
    assert found.high_mm == pytest.approx(high, abs=25)


@pytest.mark.long
def test_an_oblique_encoding_gives_the_same_world_answer(model, pair, maps):
    """Of a scan of usual voxels: voxels as coarse as the working grid would be blurred by being interpolated twice."""
    template, target = (
        pair[0],
        make_phantom(911, spacing=FINE_MM, coverage_mm=(220.0, 440.0)).volume,
    )
    names = sorted(template.points_ras.keys() & pair[1].points_ras.keys())
    points = np.array([template.points_ras[name] for name in names])
    low, high = target.bounds_ras
    size = np.ceil((high - low) * [1.3, 1.3, 1.0] / FINE_MM).astype(int)
    oblique = np.eye(4)
    oblique[:3, :3] = rotations(np.radians([0, 0, 14.0]))[2] * FINE_MM
    oblique[:3, 3] = (low + high) / 2 - oblique[:3, :3] @ ((size - 1) / 2)
    ras = voxel_positions(size[::-1], oblique)
    voxels = target.sample(ras.reshape(-1, 3)).reshape(ras.shape[:3])
    turned = Volume(np.rint(voxels).astype(np.int16), oblique)
    expected, found = (
        match(maps[0], points, model.embed(volume)).points_ras for volume in (target, turned)
    )
    apart = np.linalg.norm(found - expected, axis=1)
    assert np.median(apart) <= 0.3
    assert apart.max() <= 1.5  # where the image decides, its own blur by the turn shows


def test_a_point_is_found_in_its_own_scan(pair, maps):
    points = np.array(list(pair[0].points_ras.values()))
    errors = np.linalg.norm(match(maps[0], points, maps[0]).points_ras - points, axis=1)
    assert np.median(errors) <= 1.5  # a quarter of a local cell
    assert errors.max() <= 4.0
