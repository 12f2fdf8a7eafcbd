"""Test synthetic patients: the transform is invertible and exact, and voxels agree with labels and named points."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from AnatomicalEmbedding.anatomy.names import canonical_name
from AnatomicalEmbedding.phantom import BODY_RANGE_MM, make_phantom, map_points
from AnatomicalEmbedding.phantom.anatomy import canonical_anatomy
from AnatomicalEmbedding.phantom.deformation import Deformation
from AnatomicalEmbedding.phantom.landmarks import LANDMARK_LABEL
from AnatomicalEmbedding.phantom.tissues import LABEL_ID

TRUNK = (-60.0, 560.0)
SPACING = (3.0, 3.0, 3.0)


@pytest.fixture(scope="module")
def pair():
    """Two patients, thighs to neck."""
    return tuple(make_phantom(seed, SPACING, TRUNK, contrast="portal") for seed in (3, 8))


@pytest.fixture(scope="module")
def head():
    return make_phantom(4, SPACING, (540.0, BODY_RANGE_MM[1]), table=False)


def patient(seed):
    return Deformation.random(np.random.default_rng(seed))


def to_ijk(volume, points_ras):
    return points_ras @ volume.ras_to_ijk[:3, :3].T + volume.ras_to_ijk[:3, 3]


def label_at(phantom, points_ras):
    i, j, k = np.rint(to_ijk(phantom.volume, points_ras)).astype(int).T
    return phantom.labels[k, j, i]


def interior(mask):
    """Voxels whose 3 x 3 x 3 neighbourhood lies in the mask."""
    inner = mask.copy()
    for axis in range(3):
        inner &= np.roll(mask, 1, axis) & np.roll(mask, -1, axis)
        mask = inner.copy()
    return inner


body_points = st.tuples(st.floats(-230, 230), st.floats(-150, 170), st.floats(-130, 830))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), points=st.lists(body_points, min_size=1, max_size=30))
def test_map_is_inverted_everywhere(seed, points):
    who = patient(seed)
    body = np.array(points)
    ras = who.from_body(body)
    np.testing.assert_allclose(who.to_body(ras), body, atol=1e-6)
    np.testing.assert_allclose(who.from_body(who.to_body(ras + 5)), ras + 5, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_map_keeps_orientation_and_organ_shifts_stay_contractions(seed):
    who = patient(seed)
    ras = who.from_body(
        np.random.default_rng(seed).uniform((-220, -140, -120), (220, 160, 820), (1500, 3))
    )
    step = 1e-3
    columns = [(who.to_body(ras + d) - who.to_body(ras - d)) / (2 * step) for d in np.eye(3) * step]
    assert np.linalg.det(np.stack(columns, axis=-1)).min() > 0.05
    assert who.bumps.slope_bound < 1


def test_bladders_are_filled_differently():
    """The height of the bladder, relative to the height of the sacrum, differs between patients."""
    bladder, sacrum = (
        np.array([[0, y, low], [0, y, high]]) for y, low, high in ((42, -15, 35), (-33, 30, 100))
    )
    heights = [
        [np.linalg.norm(np.diff(patient(n).from_body(ends), axis=0)) for ends in (bladder, sacrum)]
        for n in range(20)
    ]
    ratio = np.divide(*np.transpose(heights))
    assert ratio.max() > 1.4 * ratio.min()


def test_a_patient_has_a_uterus_or_a_prostate_behind_or_below_the_bladder():
    found = set()
    for seed in range(6):
        pelvis = make_phantom(seed, (4.0, 4.0, 4.0), (-90.0, 130.0), noise_hu=0)
        middle = {}
        for name in ("uterus", "prostate", "urinary_bladder"):
            k, j, i = np.nonzero(pelvis.labels == LABEL_ID[name])
            if len(k):
                middle[name] = pelvis.volume.ijk_to_ras[:3] @ [i.mean(), j.mean(), k.mean(), 1]
        bladder = middle.pop("urinary_bladder")
        ((name, place),) = middle.items()
        found.add(name)
        assert place[1] < bladder[1] if name == "uterus" else place[2] < bladder[2] - 20
    assert found == {"uterus", "prostate"}


def test_labels_have_the_names_of_boxes_and_words():
    assert [name for name in LABEL_ID if canonical_name(name) != name] == []


def test_named_points_lie_in_the_structure_that_they_name(pair, head):
    for phantom in (*pair, head):
        names = list(phantom.points_ras)
        found = label_at(phantom, np.array([phantom.points_ras[n] for n in names]))
        wrong = {
            n: phantom.label_names[int(f)]
            for n, f in zip(names, found, strict=True)
            if phantom.label_names[int(f)] != LANDMARK_LABEL[n]
        }
        assert len(wrong) <= 1, wrong


def test_named_points_map_exactly(pair):
    a, b = pair
    shared = [n for n in a.points_ras if n in b.points_ras]
    assert len(shared) >= 40
    mapped = map_points(a, b, np.array([a.points_ras[n] for n in shared]))
    np.testing.assert_allclose(mapped, [b.points_ras[n] for n in shared], atol=1e-4)


def test_labels_agree_with_the_map(pair):
    a, b = pair
    names = (
        "liver",
        "spleen",
        "kidney_left",
        "kidney_right",
        "lung_left",
        "lung_right",
        "aorta",
        "urinary_bladder",
    )
    for name in (*names, "stomach", "vertebrae_L3", "femur_left"):
        number = LABEL_ID[name]
        k, j, i = np.nonzero(interior(a.labels == number))
        ras = np.stack([i, j, k, np.ones_like(i)], axis=1) @ a.volume.ijk_to_ras[:3].T
        mapped = map_points(a, b, ras[:: max(len(ras) // 400, 1)])
        mapped = mapped[b.volume.contains(mapped)]
        assert len(mapped) >= 20
        assert (label_at(b, mapped) == number).mean() >= 0.97, name


def test_left_is_left(pair):
    for phantom in pair:
        points = phantom.points_ras
        assert points["liver_dome"][0] > points["carina"][0] + 30
        assert points["spleen_centre"][0] < points["carina"][0] - 50
        assert points["heart_apex"][0] < points["carina"][0] - 30
        assert points["kidney_left_centre"][0] < points["kidney_right_centre"][0] - 80
        assert points["xiphoid"][1] > points["vertebrae_T9"][1] + 80  # anterior
        assert points["carina"][2] > points["urinary_bladder_centre"][2] + 300  # superior
        assert phantom.volume.ijk_to_ras[0, 0] < 0
        assert phantom.volume.ijk_to_ras[1, 1] < 0


@pytest.mark.parametrize(
    ("phase", "low", "high"),
    [("native", 20, 65), ("arterial", 240, 380), ("portal", 110, 210), ("delayed", 60, 150)],
)
def test_contrast_phase_changes_the_blood_not_the_patient(phase, low, high):
    phantom = make_phantom(2, (4.0, 4.0, 4.0), (380.0, 440.0), noise_hu=0, contrast=phase)
    blood = phantom.volume.voxels[phantom.labels == LABEL_ID["heart_ventricle_left"]]
    assert low < np.median(blood) < high
    np.testing.assert_array_equal(
        phantom.labels, make_phantom(2, (4.0, 4.0, 4.0), (380.0, 440.0)).labels
    )


def test_the_body_of_each_sex_is_drawn_once():
    canonical_anatomy.cache_clear()
    for seed in (3, 4, 8):  # patients of both sexes
        make_phantom(seed, (8.0, 8.0, 8.0), TRUNK)
    assert canonical_anatomy.cache_info().misses == 2


def test_same_seed_same_scan_other_seed_other_scan():
    arguments = {"spacing": (5.0, 5.0, 5.0), "coverage_mm": (200.0, 420.0)}
    first, again, other = (make_phantom(seed, **arguments) for seed in (11, 11, 12))
    np.testing.assert_array_equal(first.volume.voxels, again.volume.voxels)
    np.testing.assert_array_equal(first.volume.ijk_to_ras, again.volume.ijk_to_ras)
    assert first.volume.voxels.dtype == np.int16
    assert not np.allclose(first.volume.ijk_to_ras, other.volume.ijk_to_ras)


def test_coverage_cuts_the_body():
    chest = make_phantom(6, (4.0, 4.0, 4.0), (355.0, 560.0))
    assert {"carina", "heart_apex", "vertebrae_T6"} <= set(chest.points_ras)
    assert not {"kidney_left_centre", "chin", "symphysis"} & set(chest.points_ras)
    assert (chest.labels == LABEL_ID["lung_right"]).sum() > 1000
    assert not (chest.labels == LABEL_ID["urinary_bladder"]).any()
    axis = chest.from_body(np.array([[0, 0, 355.0], [0, 0, 560.0]]))[:, 2]
    np.testing.assert_allclose(chest.volume.bounds_ras[:, 2], axis, atol=4)
