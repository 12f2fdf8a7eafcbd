"""Test synthetic patients: the transform is invertible and exact, and voxels agree with labels and named points."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from AnatomicalEmbedding.phantom import BODY_RANGE_MM, make_phantom, map_points
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


def test_coverage_cuts_the_body():
    chest = make_phantom(6, (4.0, 4.0, 4.0), (355.0, 560.0))
    assert {"carina", "heart_apex", "vertebrae_T6"} <= set(chest.points_ras)
    assert not {"kidney_left_centre", "chin", "symphysis"} & set(chest.points_ras)
    assert (chest.labels == LABEL_ID["lung_right"]).sum() > 1000
    assert not (chest.labels == LABEL_ID["urinary_bladder"]).any()
    axis = chest.from_body(np.array([[0, 0, 355.0], [0, 0, 560.0]]))[:, 2]
    np.testing.assert_allclose(chest.volume.bounds_ras[:, 2], axis, atol=4)
