"""Splines: what they are by definition, and that every way of reading them is the same."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from AnatomicalEmbedding.registration.lattice import Lattice
from AnatomicalEmbedding.registration.spline import SplineField, conjugate_gradients

LOW, HIGH = np.array([-31.0, 4.0, 100.0]), np.array([47.0, 60.0, 171.0])


def made_up_field(knot_mm: float = 20.0, seed: int = 0) -> SplineField:
    field = SplineField.over(LOW, HIGH, knot_mm)
    knots = torch.from_numpy(np.random.default_rng(seed).normal(0, 5, field.coefficients.shape)).float()
    return SplineField(field.low, field.knot_mm, knots)


def on_points(field: SplineField, lattice: Lattice) -> np.ndarray:
    return field.on(lattice).permute(1, 2, 3, 0).reshape(-1, 3).numpy()


@pytest.fixture
def lattice() -> Lattice:
    return Lattice.within(LOW, HIGH, 7.0)


def test_knots_on_a_plane_displace_linearly(lattice):
    """Cubic B-splines reproduce linear functions: knot n sits at low + (n - 1) * distance."""
    field = SplineField.over(LOW, HIGH, 20.0)
    knots = field.coefficients.clone()
    knots[1] = 0.1 * (LOW[0] + 20.0 * (torch.arange(knots.shape[3]) - 1))
    found = on_points(SplineField(field.low, 20.0, knots), lattice)
    assert np.allclose(found[:, 1], 0.1 * lattice.points_ras()[:, 0], atol=1e-4)


def test_points_and_lattice_read_the_same(lattice):
    field = made_up_field()
    assert np.allclose(on_points(field, lattice), field.at(lattice.points_ras()), atol=1e-4)


def test_beyond_the_box_holds_what_is_at_its_edge():
    field = made_up_field()
    beyond = np.array([[LOW[0] - 50, 20.0, 120.0], [10.0, 30.0, LOW[2] + 500]])
    edge = np.clip(beyond, LOW, LOW + np.array(field.intervals) * 20.0)
    assert np.allclose(field.at(beyond), field.at(edge))


def test_slopes_are_the_differences_of_displacements(lattice):
    field = made_up_field()
    points = lattice.points_ras()
    slopes = field.slopes(lattice).permute(2, 3, 4, 0, 1).reshape(-1, 3, 3).numpy()
    inner = ((points > LOW + 1) & (points < HIGH - 1)).all(1)
    for axis in range(3):
        step = np.zeros(3)
        step[axis] = 1e-3
        wanted = (field.at(points + step) - field.at(points - step)) / 2e-3
        assert np.allclose(slopes[inner, :, axis], wanted[inner], atol=1e-3)


@pytest.mark.parametrize("knot_mm", [10.0, 5.0])
def test_a_refined_spline_displaces_as_before(lattice, knot_mm):
    field = made_up_field()
    assert np.allclose(on_points(field.refined(knot_mm), lattice), on_points(field, lattice), atol=1e-3)


@given(seed=st.integers(0, 1000))
def test_gather_is_the_transpose_of_spread(seed):
    lattice = Lattice.within(LOW, HIGH, 9.0)
    basis = made_up_field().basis(lattice)
    rng = np.random.default_rng(seed)
    knots = torch.from_numpy(rng.normal(size=(3, len(basis.s.T), len(basis.a.T), len(basis.r.T)))).float()
    values = torch.from_numpy(rng.normal(size=(3, *lattice.shape))).float()
    assert float((basis.spread(knots) * values).sum()) == pytest.approx(
        float((knots * basis.gather(values)).sum()), abs=0.05
    )


def test_conjugate_gradients_solve():
    torch.manual_seed(0)
    root = torch.randn(12, 12, dtype=torch.float64)
    matrix = root @ root.T + torch.eye(12)
    wanted = torch.randn(12, dtype=torch.float64)
    found = conjugate_gradients(lambda x: matrix @ x, wanted, matrix.diagonal(), 40)
    assert torch.allclose(found, torch.linalg.solve(matrix, wanted), atol=1e-6)
