"""Test each step of registration against known transforms, with made-up matches and a deformed patient."""

from dataclasses import replace

import numpy as np
import pytest

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.fields.spline import Lattice
from AnatomicalEmbedding.registration.affine import AFFINE, RIGID, GridMatches, fit_affine
from AnatomicalEmbedding.registration.register import KINDS, fit_field, register, spine_distance_mm
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.volume import Volume

# what GridMatches hold of each point
SLAB = ("index", "fixed_ras", "moving_ras", "weight", "depth_mm")
LATTICE = Lattice((-100.0, -60.0, 0.0), (24.0, 24.0, 24.0), (9, 7, 12))


def turned(degrees: float) -> np.ndarray:
    angle = np.radians(degrees)
    matrix = np.eye(4)
    matrix[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    matrix[:3, 3] = (12.0, -7.0, 300.0)
    return matrix


def made_up_matches(moving_ras: np.ndarray) -> GridMatches:
    points = LATTICE.points_ras()
    index = np.column_stack(np.unravel_index(np.arange(len(points)), LATTICE.shape)[::-1])
    one = np.ones(len(points))
    return GridMatches(LATTICE, index, points, moving_ras, one, one, len(points))


def test_the_body_of_a_lattice_is_that_of_its_points(bent_pair):
    embedding = bent_pair.maps[0]
    low, high = embedding.body_bounds_ras
    lattice = Lattice.within(low - 25, high + 40, 17.0)  # reaches beyond the scan on all sides
    expected = embedding.in_body(lattice.points_ras()).reshape(lattice.shape)
    assert 0 < expected.mean() < 1
    np.testing.assert_array_equal(embedding.body_on(lattice).numpy(), expected)


def test_a_rigid_map_is_found_among_outliers():
    truth = turned(25.0)
    moving = transform_points(truth, LATTICE.points_ras())
    rng = np.random.default_rng(0)
    wrong = rng.choice(len(moving), len(moving) // 6, replace=False)
    moving[wrong] += rng.normal(0, 60, (len(wrong), 3))
    found = fit_affine(made_up_matches(moving), RIGID)
    assert np.linalg.det(found[:3, :3]) == pytest.approx(1.0)
    apart = transform_points(found, LATTICE.points_ras()) - transform_points(
        truth, LATTICE.points_ras()
    )
    assert np.abs(apart).max() < 1.5


def test_an_affine_map_is_found_exactly():
    truth = turned(-15.0) @ np.diag([1.2, 0.8, 1.1, 1.0])
    found = fit_affine(made_up_matches(transform_points(truth, LATTICE.points_ras())), AFFINE)
    assert np.allclose(found, truth, atol=1e-8)


def spine_one_level_off(truth: np.ndarray) -> GridMatches:
    """Matches of organs in front, each up to 3 cm off; and of the spine, right across the body but a level too low."""
    every = made_up_matches(transform_points(truth, LATTICE.points_ras()))
    is_spine = every.fixed_ras[:, 1] < -50
    organs = every.fixed_ras[:, 1] > 30
    wrong = np.random.default_rng(0).normal(0, 15, every.fixed_ras.shape) + (0.0, 12.0, 0.0)
    wrong[is_spine] = (0.0, 0.0, -30.0)
    kept = is_spine | organs
    some = {name: getattr(every, name)[kept] for name in SLAB}
    some["moving_ras"] = some["moving_ras"] + wrong[kept]
    return GridMatches(LATTICE, **some, tried=len(kept), height_known=~is_spine[kept])


@pytest.mark.parametrize("kind", [RIGID, AFFINE])
def test_matches_of_uncertain_level_count_across_the_body_only(kind):
    truth = turned(8.0)
    matches = spine_one_level_off(truth)
    known = matches.height_known
    fit = fit_affine(matches, kind)
    organs_alone = fit_affine(
        GridMatches(LATTICE, *(getattr(matches, name)[known] for name in SLAB), tried=len(known)),
        kind,
    )
    off, before = (
        (transform_points(each, matches.fixed_ras) - transform_points(truth, matches.fixed_ras))[
            ~known
        ]
        for each in (fit, organs_alone)
    )
    assert (
        np.linalg.norm(off[:, :2], axis=1).mean()
        < 0.8 * np.linalg.norm(before[:, :2], axis=1).mean()
    )
    assert np.abs(off[:, 2]).mean() < np.abs(before[:, 2]).mean() + 3.0, (
        "the wrong heights of the spine move nothing"
    )


def test_a_smooth_displacement_takes_no_height_from_an_uncertain_level():
    matches = spine_one_level_off(np.eye(4))
    points = LATTICE.points_ras()
    field = fit_field(matches, np.eye(4), points.min(0) - 12, points.max(0) + 12)
    moved = field.at(matches.fixed_ras[~matches.height_known])
    assert np.abs(moved[:, 2]).mean() < 10.0
    assert np.linalg.norm(moved[:, :2], axis=1).mean() < 3.0


def test_spines_that_lie_apart_are_stated_and_warned_of(bent_pair):
    found = bent_pair.registered("affine")
    assert found.spine_mm < 10.0
    assert found.doubt == ""
    assert f"the spines lie up to {found.spine_mm:.1f} mm apart" in found.quality
    shifted = found.affine.copy()
    shifted[0, 3] += 40.0
    wrong = replace(found, affine=shifted)
    wrong = replace(wrong, spine_mm=spine_distance_mm(wrong, *bent_pair.maps))
    assert wrong.spine_mm == pytest.approx(40.0, abs=10.0)
    assert "do not fit well" in wrong.doubt
    assert "Check the result" in wrong.doubt


def test_a_thin_slab_of_matches_tells_no_scale_across_it():
    truth = turned(10.0)
    points = LATTICE.points_ras()
    height = points[:, 2] - points[:, 2].mean()
    slab = np.abs(height) < 13
    inward = np.outer(height, [0, 0, -0.35])  # answers near a scan's end are drawn into it
    wrong = np.random.default_rng(0).normal(0, 5, points.shape) + inward
    every = made_up_matches(transform_points(truth, points) + wrong)
    some = GridMatches(LATTICE, *(getattr(every, name)[slab] for name in SLAB), tried=len(points))
    found = fit_affine(some)
    apart = np.linalg.norm(
        transform_points(found, points) - transform_points(truth, points), axis=1
    )
    assert np.linalg.det(found[:3, :3]) == pytest.approx(1.0, abs=0.15)
    assert apart.max() < 20.0


def test_too_few_matches_are_refused_with_their_number():
    every = made_up_matches(LATTICE.points_ras())
    few = GridMatches(
        every.lattice, every.index[:10], every.fixed_ras[:10], every.moving_ras[:10], every.weight[:10],
        every.depth_mm[:10], every.tried,
    )  # fmt: skip
    with pytest.raises(
        AnatomicalEmbeddingError, match=r"only 10 of 756 points .* choose two scans"
    ):
        fit_affine(few)


def test_a_smooth_displacement_is_found_among_outliers():
    points = LATTICE.points_ras()
    bend = np.column_stack(
        [
            6 * np.sin(points[:, 2] / 60),
            4 * np.cos(points[:, 0] / 70),
            5 * np.sin(points[:, 1] / 50),
        ]
    )
    moving = points + bend
    rng = np.random.default_rng(0)
    wrong = rng.choice(len(moving), len(moving) // 20, replace=False)
    moving[wrong] += rng.normal(0, 40, (len(wrong), 3))
    field = fit_field(made_up_matches(moving), np.eye(4), points.min(0) - 12, points.max(0) + 12)
    error = np.linalg.norm(field.at(points) - bend, axis=1)
    assert np.median(error) < 0.8
    assert np.percentile(error, 95) < 2.5


def test_nothing_is_turned_inside_out(bent_pair):
    for kind in KINDS:
        folding = bent_pair.registered(kind).folding(bent_pair.maps[0])
        assert folding.share == 0.0
        assert 0.5 < folding.low <= folding.high < 2.0


def test_scans_that_share_nothing_are_refused(bent_pair):
    """The pelvis alone and the chest alone: what matches have no confidence in is no registration."""
    from AnatomicalEmbedding import load_model
    from AnatomicalEmbedding.phantom import make_phantom

    lower, upper = (
        make_phantom(71, spacing=(4.0, 4.0, 4.0), coverage_mm=view)
        for view in ((-60, 80), (470, 620))
    )
    model = load_model()
    with pytest.raises(AnatomicalEmbeddingError, match="choose two scans"):
        register(
            (model.embed(lower.volume), model.embed(upper.volume)), (lower.volume, upper.volume)
        )


def test_half_a_patient_is_laid_on_the_whole(bent_pair):
    patient = bent_pair.patient.volume
    half = Volume(patient.voxels[: patient.shape[0] // 2], patient.ijk_to_ras, name="lower half")
    from AnatomicalEmbedding import load_model

    found = register((load_model().embed(half), bent_pair.maps[1]), (half, patient), "affine")
    points = half.bounds_ras.mean(axis=0) + np.array([[0.0, 0, 0], [40, 10, 20], [-50, -10, -20]])
    assert np.abs(found.transform_points(points) - points).max() < 5.0
