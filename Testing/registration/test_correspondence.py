"""Test the correspondence of two scans of one patient against known deformations."""

from dataclasses import replace

import numpy as np
import pytest
from probabilities import check_probabilities

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.embedding.cache import MapCache
from AnatomicalEmbedding.errors import CancelledError, MapError, NotSamePatientError, PointsError
from AnatomicalEmbedding.matching.status import ABSENT, MATCHED
from AnatomicalEmbedding.registration.agreement import EVIDENCE, MEASURES, check_measures
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


def test_expected_errors_rank_the_true_errors(found, shown):
    points, truth = shown
    answers = found.points(points)
    errors = np.linalg.norm(answers.points_ras - truth, axis=1)
    doubtful = answers.expected_error_mm > np.median(answers.expected_error_mm)
    assert errors[doubtful].mean() > errors[~doubtful].mean()
    assert answers.evidence.shape == (len(points), len(EVIDENCE))
    check_probabilities(answers)


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
    answers = pair(bent_pair.volumes[0], lower, bent_pair.maps[0], model.embed(lower)).points(
        points
    )
    check_probabilities(answers)
    height = truth[:, 2] - box[1, 2]
    assert (answers.status[height > 15] == ABSENT).mean() > 0.95
    assert (answers.status[height < -15] != ABSENT).mean() > 0.9


def test_the_stated_error_of_a_treated_lesion_holds_the_way_its_centre_moved(
    bent_pair, model, found, shown
):
    """Lesions in soft tissue shrink to one side, and what is left is full of contrast medium or necrotic."""
    rng = np.random.default_rng(1)
    later, earlier = bent_pair.volumes
    points, truth = shown
    low, high = later.bounds_ras
    tissue = (np.abs(later.sample(points) - 50) < 60) & (
        (points > low + 50) & (points < high - 50)
    ).all(axis=1)
    order = rng.permutation(np.flatnonzero(tissue))
    chosen: list[int] = []
    for n in order:
        if all(np.linalg.norm(points[n] - points[other]) > 60 for other in chosen):
            chosen.append(n)
    centres = points[chosen[:8]]
    before = truth[chosen[:8]]
    assert len(centres) >= 5
    way = rng.normal(size=centres.shape)
    left = centres + way / np.linalg.norm(way, axis=1)[:, None] * LESION_MM / 2
    for n, hu in enumerate(np.resize([800, 5], len(centres))):
        earlier = _with_ball(earlier, before[n], LESION_MM, 60)
        later = _with_ball(later, left[n], LESION_MM / 2, hu)
    answers = pair(later, earlier, model.embed(later), model.embed(earlier)).points(left)
    errors = np.linalg.norm(answers.points_ras - before, axis=1)
    assert errors.mean() > 5.0  # the images do not show how the centre moved
    assert answers.expected_error_mm.mean() >= errors.mean()
    assert not (answers.status == MATCHED).any()
    unchanged = found.points(points)
    assert np.median(unchanged.expected_error_mm) < 3.0


def _with_ball(volume: Volume, centre_ras: np.ndarray, radius_mm: float, hu: float) -> Volume:
    k, j, i = np.indices(volume.shape)
    places = np.stack([i, j, k], axis=-1) @ volume.ijk_to_ras[:3, :3].T + volume.ijk_to_ras[:3, 3]
    inside = np.linalg.norm(places - centre_ras, axis=-1) < radius_mm
    return replace(volume, voxels=np.where(inside, hu, volume.voxels).astype(volume.voxels.dtype))


def test_new_tissue_is_not_matched(bent_pair, model, found, shown):
    """A ball of soft tissue is added in places of low density of the bent copy."""
    points = shown[0]
    volume = bent_pair.volumes[0]
    lung = points[(volume.sample(points) < -600) & (found.points(points).status == MATCHED)]
    centre = lung[np.argmin(np.linalg.norm(lung - lung.mean(axis=0), axis=1))]
    grown = _with_ball(volume, centre, LESION_MM, 40)
    later = pair(grown, bent_pair.volumes[1], model.embed(grown), bent_pair.maps[1])
    rng = np.random.default_rng(0)
    new = centre + rng.uniform(-1, 1, (60, 3)) * LESION_MM / 2
    status = later.points(new).status
    assert (status != MATCHED).mean() >= 0.9
    assert not (status == ABSENT).any()  # the scan shows the place
    away = points[np.linalg.norm(points - centre, axis=1) > 40]
    before = found.points(away).status == MATCHED
    assert (later.points(away).status == MATCHED)[before].mean() > 0.9


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


@pytest.mark.parametrize("spoiled", MEASURES)
def test_no_measure_alone_refuses_scans_of_one_patient(spoiled):
    """A treated liver, few ribs or another contrast phase may give any value of one measure."""
    measured = {name: each.middle + each.half for name, each in MEASURES.items()}
    for extreme in (-1e3, 1e3):
        check_measures(measured | {spoiled: extreme})


def test_a_refusal_says_all_that_speaks_against_one_patient():
    with pytest.raises(
        NotSamePatientError,
        match=r"only 12% of the matches .*; .* bones of one scan are stretched by 31%",
    ):
        check_measures(
            {
                "alike": 0.12,
                "similarity": 0.9,
                "bone_similarity": 0.8,
                "stretch": 0.31,
                "wide_stretch": 0.3,
            }
        )


@pytest.mark.parametrize(
    ("names", "one_patient"),
    [
        # months apart, 8 cm in common, the arms in other places
        (("train/acrinflt001_t0", "train/acrinflt001_t2"), True),
        (("dev/elastix_lung_baseline", "dev/elastix_lung_followup"), True),
        (("train/hcc002", "train/hcc006"), False),
    ],
)
def test_real_scans_of_one_patient_are_paired_and_strangers_are_not(
    real_data, model, names, one_patient
):
    volumes = [Volume.read(real_data / f"{name}.nii.gz") for name in names]
    maps = [model.embed(volume) for volume in volumes]
    if one_patient:
        pair(*volumes, *maps)
    else:
        with pytest.raises(NotSamePatientError, match="one patient"):
            pair(*volumes, *maps)


def test_the_work_stops_when_it_is_cancelled(bent_pair):
    shares: list[float] = []
    with pytest.raises(CancelledError):
        pair(
            *bent_pair.volumes, *bent_pair.maps, progress=lambda done, text: shares.append(done),
            cancelled=lambda: bool(shares) and max(shares) >= 0.5,
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
