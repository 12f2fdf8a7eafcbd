"""The best point of small structures, in drawn scans whose tubes and organs are known."""

import numpy as np
import pytest

from AnatomicalEmbedding.words.fine_point import fine_point
from AnatomicalEmbedding.words.grid_weights import Field, Grid
from AnatomicalEmbedding.words.occupancy import Evidence, chance, gather, sharpened

STEP = np.array([4.0, 4.0, 5.0])
SHAPE = (16, 20, 20)  # k, j, i
MIDDLE = (np.array(SHAPE[::-1]) - 1) / 2 * STEP
FAT, BLOOD = -100.0, 150.0


def tube(place: np.ndarray, x: float, y: float, radius: float) -> np.ndarray:
    """Which places (..., 3) lie in a tube along the body."""
    return np.hypot(place[..., 0] - MIDDLE[0] - x, place[..., 1] - MIDDLE[1] - y) < radius


def places(step: np.ndarray, shape) -> np.ndarray:
    """(k, j, i, 3) middles of parts of cells, mm."""
    axes = [s * np.arange(n) - (STEP[a] - s) / 2 for a, (s, n) in enumerate(zip(step, shape[::-1], strict=True))]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).transpose(2, 1, 0, 3)


def scan(inside) -> Grid:
    """Blood in fat, with noise; inside: which places hold blood."""
    fine = np.where(inside(places(STEP / 2, [2 * n for n in SHAPE])), BLOOD, FAT)
    fine = fine + np.random.default_rng(0).normal(0, 8, fine.shape)
    hu = fine.reshape(SHAPE[0], 2, SHAPE[1], 2, SHAPE[2], 2).mean(axis=(1, 3, 5)).astype(np.float32)
    return Grid(np.zeros(3), STEP, SHAPE, np.ones(SHAPE, bool), None, hu, np.rint(fine).astype(np.int16))


def share_about(x: float, y: float, largest: float, sd: float = 9.0) -> Field:
    """An atlas's share, largest along an axis of the body."""
    at = places(STEP, SHAPE) - MIDDLE
    values = largest * np.exp(-(np.square(at[..., 0] - x) + np.square(at[..., 1] - y)) / (2 * sd**2))
    return Field((0, 0, 0), values.astype(np.float32))


def found(grid: Grid, share: Field, start: np.ndarray, thin: bool, *others: Evidence) -> np.ndarray:
    return fine_point(grid, start, gather(grid, share, "vessel"), list(others), thin)


@pytest.mark.parametrize("x", [-1.5, 0.0, 2.3])
def test_a_tube_thinner_than_two_cells_is_found_where_the_atlas_is_some_mm_off(x):
    grid = scan(lambda at: tube(at, x, 1.0, 3.2))
    point = found(grid, share_about(7.0, -4.0, 0.3), MIDDLE + [7, -4, 0], thin=False)
    assert tube(point, x, 1.0, 3.2)


def test_a_thin_vessel_is_told_from_a_wide_one_of_its_brightness():
    grid = scan(lambda at: tube(at, -8, 0, 3.2) | tube(at, 8, 0, 10))
    share, start = share_about(0, 0, 0.3), MIDDLE + [6.0, 0, 0]
    assert tube(found(grid, share, start, thin=True), -8, 0, 3.2)
    assert tube(found(grid, share, start, thin=False), 8, 0, 10)


def test_what_others_hold_is_not_the_structure():
    grid = scan(lambda at: tube(at, -7, 0, 3.2) | tube(at, 7, 0, 3.2))
    share = share_about(3.0, 0, 0.3)
    assert tube(found(grid, share, MIDDLE, thin=True), 7, 0, 3.2)
    other = gather(grid, share_about(7, 0, 0.9, 5.0), "vessel")
    assert tube(found(grid, share, MIDDLE, True, other), -7, 0, 3.2)


def test_the_point_stays_within_reach_and_where_nothing_speaks_for_another():
    grid = scan(lambda at: tube(at, 30, 0, 3.2))
    start = MIDDLE - [10, 0, 0]
    assert np.linalg.norm(found(grid, share_about(0, 0, 0.3, 20), start, thin=True) - start) <= 14
    nothing = Evidence(Field((0, 0, 0), np.zeros(SHAPE, np.float32)), None)
    assert (fine_point(grid, start, nothing, [], True) == start).all()


def test_cells_have_the_chance_of_their_share_and_ct_number():
    grid = scan(lambda at: tube(at, 0, 0, 10))
    evidence = gather(grid, share_about(0, 0, 0.4), "vessel")
    field = sharpened(grid, evidence)
    inside = tube(places(STEP, SHAPE), 0, 0, 6)
    assert field.values[inside].min() > evidence.share.values[inside].max()
    assert np.allclose(field.values, chance(evidence.share.values, grid.hu, evidence.ratio))
