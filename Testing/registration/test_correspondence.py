"""Test the correspondence of two scans of one patient against known deformations."""

from dataclasses import replace

import numpy as np
import pytest

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.embedding.cache import MapCache
from AnatomicalEmbedding.errors import CancelledError, MapError, NotSamePatientError, PointsError
from AnatomicalEmbedding.matching.status import ABSENT, MATCHED
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.registration.agreement import EVIDENCE
from AnatomicalEmbedding.registration.correspondence import Correspondence, pair
from AnatomicalEmbedding.scan.cropping import crop_voxels
from AnatomicalEmbedding.scan.volume import Volume

LESION_MM = 16.0


@pytest.fixture(scope="module")
def model(map_folder):
    return load_model(cache=MapCache(map_folder))


@pytest.fixture(scope="module")
def found(bent_pair) -> Correspondence:
    """From the bent copy to the patient."""
    return pair(*bent_pair.volumes, *bent_pair.maps)


@pytest.fixture(scope="module")
def shown(bent_pair) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, 3) RAS mm of the bent copy that the patient's scan shows too, and their true places (n, 3)."""
    points = bent_pair.points_ras
    truth = bent_pair.bent.to_original(points)
    inside = bent_pair.volumes[1].contains(truth)
    return points[inside], truth[inside]


def test_a_known_deformation_is_found_in_both_directions(found, shown):
    points, truth = shown
    for one, given, wanted in ((found, points, truth), (found.inverse(), truth, points)):
        answers = one.points(given)
        errors = np.linalg.norm(answers.points_ras - wanted, axis=1)
        assert np.median(errors) < 1.0
        assert np.percentile(errors[answers.status == MATCHED], 95) < 4.0


def test_the_images_make_the_answers_more_exact_than_matches_alone(found, shown, bent_pair):
    points, truth = shown
    registered = bent_pair.registered("coarse").transform_points(points)
    errors, before = (np.linalg.norm(each - truth, axis=1) for each in (found.points(points).points_ras, registered))
    assert errors.mean() < 0.7 * before.mean()


def test_expected_errors_rank_the_true_errors(found, shown):
    points, truth = shown
    answers = found.points(points)
    errors = np.linalg.norm(answers.points_ras - truth, axis=1)
    doubtful = answers.expected_error_mm > np.median(answers.expected_error_mm)
    assert errors[doubtful].mean() > errors[~doubtful].mean()
    assert answers.evidence.shape == (len(points), len(EVIDENCE))
    assert ((answers.probability > 0) & (answers.probability <= answers.probability_20)).all()


def test_the_inverse_leads_back(found, shown):
    points = shown[0]
    answers = found.points(points)
    sure = answers.status == MATCHED
    back = found.inverse().points(answers.points_ras[sure]).points_ras
    assert np.median(np.linalg.norm(back - points[sure], axis=1)) < 0.5
    again = found.inverse().inverse()
    assert np.array_equal(again.points(points).points_ras, answers.points_ras)


def test_points_beyond_the_other_scan_are_absent(bent_pair, model, shown):
    points, truth = shown
    box = bent_pair.volumes[1].bounds_ras.copy()
    box[1, 2] = box[:, 2].mean() + 30
    lower = crop_voxels(bent_pair.volumes[1], box)
    answers = pair(bent_pair.volumes[0], lower, bent_pair.maps[0], model.embed(lower)).points(points)
    height = truth[:, 2] - box[1, 2]
    assert (answers.status[height > 15] == ABSENT).mean() > 0.95
    assert (answers.status[height < -15] != ABSENT).mean() > 0.9


def test_new_tissue_is_not_matched(bent_pair, model, found, shown):
    """A ball of soft tissue is added in places of low density of the bent copy."""
    points = shown[0]
    volume = bent_pair.volumes[0]
    lung = points[(volume.sample(points) < -600) & (found.points(points).status == MATCHED)]
    centre = lung[np.argmin(np.linalg.norm(lung - lung.mean(axis=0), axis=1))]
    k, j, i = np.indices(volume.shape)
    places = np.stack([i, j, k], axis=-1) @ volume.ijk_to_ras[:3, :3].T + volume.ijk_to_ras[:3, 3]
    inside = np.linalg.norm(places - centre, axis=-1) < LESION_MM
    grown = replace(volume, voxels=np.where(inside, 40, volume.voxels).astype(volume.voxels.dtype), name="grown")
    later = pair(grown, bent_pair.volumes[1], model.embed(grown), bent_pair.maps[1])
    rng = np.random.default_rng(0)
    new = centre + rng.uniform(-1, 1, (60, 3)) * LESION_MM / 2
    status = later.points(new).status
    assert (status != MATCHED).mean() >= 0.9
    assert not (status == ABSENT).any()  # the scan shows the place
    away = points[np.linalg.norm(points - centre, axis=1) > 40]
    assert (later.points(away).status == MATCHED).mean() > 0.8


def test_a_saved_correspondence_gives_the_same_answers(found, shown, tmp_path):
    path = tmp_path / "pair.safetensors"
    found.save(path)
    again = Correspondence.load(path)
    assert again.forward.scan_hash == found.forward.scan_hash
    for one, other in ((found, again), (found.inverse(), again.inverse())):
        first, second = (each.points(shown[0][:50]) for each in (one, other))
        assert np.array_equal(first.points_ras, second.points_ras)
        assert np.array_equal(first.expected_error_mm, second.expected_error_mm)


def test_a_damaged_file_is_refused(found, tmp_path):
    path = tmp_path / "pair.safetensors"
    found.save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(MapError, match=r"pair\.safetensors: .*pair the two scans again"):
        Correspondence.load(path)
    with pytest.raises(MapError, match=r"missing\.safetensors: .*pair the two scans again"):
        Correspondence.load(tmp_path / "missing.safetensors")


def test_different_patients_are_refused(phantom_pair, model):
    volumes = [phantom.volume for phantom in phantom_pair]
    maps = [model.embed(volume) for volume in volumes]
    with pytest.raises(NotSamePatientError, match=r"seem not to show the same region of one patient: .*; choose two"):
        pair(*volumes, *maps)


def test_different_patients_with_similar_organs_are_refused_because_of_their_bones(model):
    volumes = [make_phantom(seed, spacing=(4.0, 4.0, 4.0), coverage_mm=(150.0, 480.0)).volume for seed in (78, 79)]
    maps = [model.embed(volume) for volume in volumes]
    with pytest.raises(NotSamePatientError, match="bones"):
        pair(*volumes, *maps)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.8])
def test_the_work_stops_when_it_is_cancelled(bent_pair, share):
    shares: list[float] = []
    with pytest.raises(CancelledError):
        pair(
            *bent_pair.volumes, *bent_pair.maps, progress=lambda done, text: shares.append(done),
            cancelled=lambda: bool(shares) and max(shares) >= share,
        )  # fmt: skip
    assert max(shares, default=0.0) < 1.0


def test_a_point_outside_the_template_is_refused(found):
    with pytest.raises(PointsError, match=r"lies outside .*; choose a point inside this scan"):
        found.points([[9e3, 0.0, 0.0]])
    assert len(found.points([])) == 0


def test_maps_of_other_weights_are_refused(bent_pair):
    other = bent_pair.maps[1]
    other = replace(other, provenance=replace(other.provenance, weights_hash="ff" * 32))
    with pytest.raises(MapError, match="other weights"):
        pair(*bent_pair.volumes, bent_pair.maps[0], other)


def test_a_scan_is_paired_with_itself_exactly(bent_pair):
    volume: Volume = bent_pair.volumes[1]
    embedding = bent_pair.maps[1]
    found = pair(volume, volume, embedding, embedding)
    cells = embedding.body_index.numpy()[::11]
    points = cells * embedding.cell_mm + embedding.cell_to_ras[:3, 3]
    points = points[volume.contains(points)]
    assert np.abs(found.points(points).points_ras - points).max() < 0.5
