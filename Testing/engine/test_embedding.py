"""Test maps: values at points, and points outside the map."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import analytic_map, cell_centres

from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.errors import MapError, PointsError

SLOPE = np.array([(0.9, 0.1, 0.0), (-0.2, 1.1, 0.05), (0.0, 0.1, 0.8)])
LEVEL = np.array((5.0, -60.0, 250.0))


def affine(points_ras: np.ndarray) -> np.ndarray:
    return points_ras @ SLOPE.T + LEVEL


@pytest.fixture(scope="module")
def whole() -> EmbeddingMap:
    """Every cell is body and holds an affine function of its place."""
    return analytic_map(affine)


@pytest.fixture(scope="module")
def half() -> EmbeddingMap:
    """Only cells 0..11 along R are body; the rest hold nonsense."""
    body = np.zeros((16, 20, 24), dtype=bool)
    body[:, :, :12] = True
    return analytic_map(affine, body=body, name="half.nii.gz")


def scan_bounds(embedding: EmbeddingMap) -> tuple[np.ndarray, np.ndarray]:
    low = embedding.scan_to_ras[:3, 3] - np.diag(embedding.scan_to_ras)[:3] / 2
    return low, low + np.diag(embedding.scan_to_ras)[:3] * embedding.scan_shape[::-1]


class TestSample:
    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.tuples(*[st.floats(0, 1)] * 3), min_size=1, max_size=30))
    def test_between_cells_it_is_linear(self, whole, fractions):
        centres = cell_centres(whole).reshape(-1, 3)
        points = centres.min(axis=0) + np.array(fractions) * np.ptp(centres, axis=0)
        np.testing.assert_allclose(whole.sample(points), affine(points), atol=2e-3)

    def test_cells_that_are_not_body_take_no_part(self, half):
        border = cell_centres(half)[:, :, 11].reshape(-1, 3)
        for beyond_mm in (0.0, 3.0, 7.0):
            found = half.sample(border + np.array((beyond_mm, 0, 0)))
            np.testing.assert_allclose(found, affine(border), atol=1e-3)

    def test_in_the_air_it_is_the_coordinate_of_the_nearest_body_cell(self, half):
        border = cell_centres(half)[3, 4, 11]
        np.testing.assert_allclose(
            half.sample(border + np.array((60, 1.0, -2.0))), affine(border[None]), atol=1e-3
        )

    @pytest.mark.parametrize("axis", range(3))
    @pytest.mark.parametrize("side", [0, 1])
    def test_a_point_outside_the_scan_is_refused_by_name(self, half, axis, side):
        point = scan_bounds(half)[side].copy()
        assert half.contains(point).all()
        point[axis] += (-0.4, 0.4)[side]
        r, a, s = point
        with pytest.raises(PointsError) as refusal:
            half.sample([[-60.0, -50.0, 350.0], point])
        assert f"({r:.1f}, {a:.1f}, {s:.1f}) RAS mm lies outside half.nii.gz" in str(refusal.value)

    def test_a_scan_without_body_has_no_coordinates(self):
        empty = analytic_map(affine, body=np.zeros((16, 20, 24), dtype=bool), name="air.nii.gz")
        with pytest.raises(MapError, match=r"air\.nii\.gz: shows no body"):
            empty.sample([0.0, 0.0, 350.0])
