"""Test the shipped weights: accuracy on unseen synthetic patients; headers and slabs must not change answers."""

import numpy as np
import pytest
from evaluations.phantoms import evaluate_phantoms

from AnatomicalEmbedding import Volume, load_model
from AnatomicalEmbedding.embedding.coverage import find_coverage
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.scan.geometry import transform_points


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
def question(model, pair):
    """Template map, query points and the answers in the target as it is."""
    template, target = pair
    names = sorted(template.points_ras.keys() & target.points_ras.keys())
    points = np.array([template.points_ras[name] for name in names])
    template_map = model.embed(template.volume)
    return template_map, points, match(template_map, points, model.embed(target.volume)).points_ras


def test_named_points_of_unseen_patients(model):
    result = evaluate_phantoms(model, [880, 881])
    everything = np.concatenate(list(result.errors_mm.values()))
    assert np.median(everything) <= 4.0
    assert all(np.median(errors) <= 5.0 for errors in result.errors_mm.values())


@pytest.mark.parametrize("heights", [(220.0, 440.0), (-80.0, 250.0), (380.0, 620.0)])
def test_the_part_of_the_body_in_a_scan_is_found(model, heights):
    phantom = make_phantom(913, spacing=(3.0, 3.0, 4.0), coverage_mm=heights)
    found = find_coverage(model.embed(phantom.volume))
    middle = phantom.volume.bounds_ras.mean(axis=0)
    low, high = (
        phantom.to_body(np.array([[*middle[:2], z]]))[0, 2] for z in phantom.volume.bounds_ras[:, 2]
    )
    assert found.low_mm == pytest.approx(low, abs=25)
    assert found.high_mm == pytest.approx(high, abs=25)


def test_an_oblique_encoding_gives_the_same_world_answer(model, question):
    """Of a scan of usual voxels: voxels as coarse as the working grid would be blurred by being interpolated twice."""
    template_map, points, _ = question
    target = make_phantom(911, spacing=(1.5, 1.5, 2.0), coverage_mm=(220.0, 440.0)).volume
    expected = match(template_map, points, model.embed(target)).points_ras
    angle = np.radians(14.0)
    turn = np.array(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1.0]]
    )
    spacing = np.array([1.5, 1.5, 2.0])
    low, high = target.bounds_ras
    size = np.ceil((high - low) * [1.3, 1.3, 1.0] / spacing).astype(int)
    oblique = np.eye(4)
    oblique[:3, :3] = turn * spacing
    oblique[:3, 3] = (low + high) / 2 - oblique[:3, :3] @ ((size - 1) / 2)
    i, j, k = np.meshgrid(*(np.arange(n) for n in size), indexing="ij")
    ras = transform_points(oblique, np.stack([i, j, k], axis=-1).reshape(-1, 3))
    voxels = target.sample(ras).reshape(size).transpose(2, 1, 0)
    found = match(
        template_map, points, model.embed(Volume(np.rint(voxels).astype(np.int16), oblique))
    ).points_ras
    apart = np.linalg.norm(found - expected, axis=1)
    assert np.median(apart) <= 0.3
    assert apart.max() <= 1.5  # where the image decides, its own blur by the turn shows


def test_a_point_is_found_in_its_own_scan(model, pair):
    phantom = pair[0]
    embedding = model.embed(phantom.volume)
    points = np.array(list(phantom.points_ras.values()))
    errors = np.linalg.norm(match(embedding, points, embedding).points_ras - points, axis=1)
    assert np.median(errors) <= 1.5  # a quarter of a local cell
    assert errors.max() <= 4.0
