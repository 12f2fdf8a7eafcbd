"""Test synthetic follow-ups: the voxels agree with the stated history of the lesions."""

import numpy as np
import pytest
from synthetic_follow_up import (
    KINDS,
    MERGED,
    NOT_THERE,
    OUTSIDE,
    VISIBLE,
    PhantomFollowUp,
    Shape,
    draw_lesion,
    make_follow_up,
)

from AnatomicalEmbedding.phantom.render import ScanGrid
from AnatomicalEmbedding.phantom.tissues import PHASES
from AnatomicalEmbedding.scan.geometry import transform_points

SEEDS = (117007, 117016)  # between them every fate
RADIUS = 9.0


@pytest.fixture(scope="module")
def patients() -> list[PhantomFollowUp]:
    return [make_follow_up(seed, 2) for seed in SEEDS]


def test_another_day_is_another_place_and_shape_of_the_same_anatomy(
    patients: list[PhantomFollowUp],
) -> None:
    for patient in patients:
        body = np.random.default_rng(0).uniform((-100, -60, 100), (100, 80, 520), (200, 3))
        first, second = (each.from_body(body) for each in patient.days)
        np.testing.assert_allclose(patient.days[1].to_body(second), body, atol=1e-5)
        np.testing.assert_allclose(patient.to_study(first, 0, 1), second, atol=1e-4)
        apart = second - first
        # no mere shift of the table
        assert np.linalg.norm(apart - apart.mean(0), axis=1).mean() > 3.0


def test_every_fate_is_there_and_means_what_it_says(patients: list[PhantomFollowUp]) -> None:
    states = set()
    for patient in patients:
        lesions = {lesion.id: lesion for lesion in patient.lesions}
        for lesion in patient.lesions:
            states |= {state.state for state in lesion.states}
            assert any(state.state == VISIBLE for state in lesion.states)
            for volume, state in zip(patient.volumes, lesion.states, strict=True):
                inside = bool(volume.contains(state.point_ras[None])[0])
                if state.state in (VISIBLE, NOT_THERE):
                    assert inside
                elif state.state == OUTSIDE:
                    assert not inside
                assert (state.radius_mm > 0) == (state.state == VISIBLE)
            if lesion.split_from:
                states.add("split")
                whole = lesions[lesion.split_from].states[0]
                apart = np.linalg.norm(
                    patient.to_study(whole.point_ras[None], 0, 1)[0] - lesion.states[1].point_ras
                )
                assert lesion.states[1].radius_mm < whole.radius_mm
                assert apart < 1.2 * whole.radius_mm
            if lesion.states[1].state == MERGED:
                into = lesions[lesion.states[1].into].states[1]
                place = patient.to_study(lesion.states[0].point_ras[None], 0, 1)[0]
                assert np.linalg.norm(into.point_ras - place) < into.radius_mm
    assert states == {VISIBLE, NOT_THERE, OUTSIDE, MERGED, "split"}


# -- drawing ----------------------------------------------------------------------------------------------------------


def _grid(spacing: tuple[float, float, float]) -> ScanGrid:
    shape = tuple(int(60 / s) for s in spacing[::-1])
    return ScanGrid(
        np.array([30.0, 30.0, -30.0]) + [-spacing[0] / 2, -spacing[1] / 2, spacing[2] / 2],
        spacing,
        shape,
    )


def _ball() -> Shape:
    # cos(pi / 2): no lobes
    return Shape(np.eye(3), (1.0, 1.0, 1.0), np.array([[0, 0, 0, np.pi / 2]] * 3), 1)


@pytest.mark.parametrize("spacing", [(1.0, 1.0, 1.0), (0.8, 0.8, 5.0), (2.0, 2.0, 3.0)])
def test_a_ball_has_its_volume_its_place_and_its_number(
    spacing: tuple[float, float, float],
) -> None:
    grid = _grid(spacing)
    middle = np.array([1.3, -2.7, 0.9])
    voxels = np.full(grid.shape, -850.0, np.float32)
    draw_lesion(voxels, grid, "lung nodule", "portal", [(middle, RADIUS)], _ball())
    hu = KINDS["lung nodule"][3][PHASES.index("portal")]
    share = (voxels + 850) / (hu + 850)
    assert share.sum() * np.prod(spacing) == pytest.approx(4 / 3 * np.pi * RADIUS**3, rel=0.04)
    k, j, i = np.indices(grid.shape).reshape(3, -1)
    places = transform_points(grid.ijk_to_ras, np.stack([i, j, k], axis=1).astype(float))
    np.testing.assert_allclose(np.average(places, axis=0, weights=share.ravel()), middle, atol=0.25)
    assert np.median(voxels[share > 0.97]) == pytest.approx(hu, abs=5)
    soft = ((share > 0.1) & (share < 0.9)).sum() * np.prod(spacing)
    assert soft > 0.5 * 4 * np.pi * RADIUS**2  # the edge is at least half a millimetre soft
