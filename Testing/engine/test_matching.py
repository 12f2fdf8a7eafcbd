"""Test matching on maps whose coordinates are a known function: the answer must be its inverse, exactly."""

import numpy as np
import pytest
import torch
from described_maps import errors
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import analytic_map, cell_centres

from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.errors import MapError, PointsError
from AnatomicalEmbedding.matching import match as matching
from AnatomicalEmbedding.matching.coordinates import find_coordinates, read_coordinates
from AnatomicalEmbedding.matching.match import match, match_all
from AnatomicalEmbedding.matching.target_batch import TargetRows
from AnatomicalEmbedding.scan.geometry import transform_points

LOW = np.array((-90.0, -75.0, 300.0))
HIGH = LOW + np.array((24 * 8.0, 20 * 8.0, 16 * 12.0))
MIDDLE = (LOW + HIGH) / 2


def itself(points: np.ndarray) -> np.ndarray:
    return points


def waves(points: np.ndarray) -> np.ndarray:
    """A smooth nonlinear frame: each axis moved by up to 6 mm along waves of 250 mm over the next axis."""
    return points + 6 * np.sin(
        2 * np.pi * np.roll(points, 1, axis=1) / 250 + np.array((0.3, 1.7, 2.9))
    )


def inverse(function, coordinates: np.ndarray) -> np.ndarray:
    """Where `function`, a small move of each point, takes the given values: by fixed-point iteration."""
    points = coordinates.copy()
    for _ in range(60):
        points += coordinates - function(points)
    np.testing.assert_allclose(function(points), coordinates, atol=1e-9)
    return points


def inside(
    margin_mm: float, count: int = 300, seed: int = 0, high: np.ndarray = HIGH
) -> np.ndarray:
    """Random points (count, 3) of the scan, none nearer than `margin_mm` to its edge."""
    return np.random.default_rng(seed).uniform(LOW + margin_mm, high - margin_mm, (count, 3))


def places_of(coordinates: np.ndarray, target: EmbeddingMap) -> np.ndarray:
    """RAS mm (n, 3) where a map holds coordinates (n, 3)."""
    rows = TargetRows.each([target], len(coordinates))
    return transform_points(
        target.cell_to_ras, find_coordinates(torch.from_numpy(coordinates), rows).cells.numpy()
    )


def cells_of(points: np.ndarray, embedding: EmbeddingMap) -> tuple[np.ndarray, ...]:
    """Index (k, j, i) of the cell that holds each point."""
    ijk = np.rint((points - embedding.cell_to_ras[:3, 3]) / embedding.cell_mm).astype(int)
    return tuple(ijk[:, ::-1].T)


@st.composite
def frames(draw) -> tuple[np.ndarray, np.ndarray]:
    """Slope and level of a plausible change of frame: up to 25 % longer or shorter, turned and sheared."""
    scale = np.diag([draw(st.floats(0.8, 1.25)) for _ in range(3)])
    turn = np.array([[draw(st.floats(-0.12, 0.12)) for _ in range(3)] for _ in range(3)])
    return scale @ (np.eye(3) + turn), np.array([draw(st.floats(-200, 200)) for _ in range(3)])


class TestAnalytic:
    @settings(max_examples=25, deadline=None)
    @given(frames(), frames(), st.integers(0, 1000))
    def test_affine_frames(self, first, second, seed):
        """Two scans of one body, each in a frame of its own: the answer is the exact map between the frames."""
        (slope_a, level_a), (slope_b, level_b) = first, second
        truth = inside(margin_mm=26, seed=seed)
        points = np.linalg.solve(slope_a, (truth @ slope_b.T + level_b - level_a).T).T
        corner = tuple(points.min(axis=0) - 20)
        shape = tuple(np.ceil((np.ptp(points, axis=0) + 40) / (8, 8, 12)).astype(int)[::-1])
        template = analytic_map(lambda p: p @ slope_a.T + level_a, shape, corner_ras=corner)
        target = analytic_map(lambda p: p @ slope_b.T + level_b)
        matches = match(template, points, target)
        assert errors(matches.points_ras, truth).max() < 0.5
        assert matches.score.min() > 0.9

    @pytest.mark.parametrize("cell_mm", [(8.0, 8.0, 12.0), (16.0, 16.0, 16.0)])
    def test_nonlinear_frames_to_a_fraction_of_a_cell(self, cell_mm):
        shape = tuple(np.rint(((HIGH - LOW) / cell_mm)[::-1]).astype(int))
        target = analytic_map(waves, shape, cell_mm)
        truth = inside(margin_mm=30)
        found = places_of(waves(truth), target)
        assert errors(found, truth).max() < 1.0


class TestEdges:
    @pytest.mark.parametrize("axis", range(3))
    @pytest.mark.parametrize("side", [0, 1])
    def test_points_on_the_edge_of_the_scan(self, axis, side):
        """The outermost voxels, beyond the outermost cell centres, are found where they are."""
        target = analytic_map(itself)
        truth = inside(margin_mm=26)
        truth[:, axis] = (LOW + 1.0, HIGH - 1.0)[side][axis]
        found = places_of(truth, target)
        assert target.contains(found).all()
        assert errors(found, truth).max() < 1.0

    def test_a_target_that_lacks_part_of_the_body(self):
        """What is in the target's field of view is found; what is beyond comes out at its border, with a low score."""
        template = analytic_map(itself)
        target = analytic_map(itself, (8, 20, 24))
        cut = LOW[2] + 8 * 12.0
        points = inside(margin_mm=10)
        matches = match(template, points, target)
        present = points[:, 2] < cut - 4
        absent = points[:, 2] > cut + 40
        assert errors(matches.points_ras[present], points[present]).max() < 2.0
        assert target.contains(matches.points_ras).all()
        at_border = matches.points_ras[absent]
        assert (at_border[:, 2] > cut - 12).all()
        assert np.abs(at_border - points[absent])[:, :2].max() < 8.0
        assert np.median(np.abs(at_border - points[absent])[:, :2]) < 2.0
        assert matches.score[absent].max() < matches.score[present].min()
        assert matches.score[present].min() > 0.8

    @pytest.mark.parametrize("axis", range(3))
    def test_the_coordinate_of_a_point_beside_one_plane_of_body_cells(self, axis):
        """A chin that touches the first slice: all body cells around the point lie in the next plane of cells."""
        centres = cell_centres(analytic_map(itself))
        layer = centres[..., axis] == np.unique(centres[..., axis])[1]
        points = inside(margin_mm=40)
        points[:, axis] = LOW[axis] + 1.0
        coordinates, sizes = read_coordinates(analytic_map(itself, body=layer), points)
        np.testing.assert_allclose(coordinates, points, atol=0.1)
        np.testing.assert_allclose(sizes, 1.0, atol=0.01)

    @settings(max_examples=15, deadline=None)
    @given(st.integers(0, 10_000))
    def test_air_is_never_an_answer(self, seed):
        """Any coordinates whatever: each answer lies in the scan and in a body cell."""
        middle = cell_centres(analytic_map(itself)) - MIDDLE
        body = np.linalg.norm(middle / (80, 60, 200), axis=-1) < 1
        target = analytic_map(waves, body=body)
        coordinates = np.random.default_rng(seed).uniform(LOW - 300, HIGH + 300, (200, 3))
        found = places_of(coordinates, target)
        assert target.contains(found).all()
        assert body[cells_of(found, target)].all()


class TestMany:
    @pytest.mark.parametrize("effort", ["fast", "standard"])
    def test_several_targets_are_each_answered_as_if_alone(self, effort, monkeypatch):
        """Targets of different size and body, more rows than are answered at once."""
        monkeypatch.setattr(matching, "_BATCH_POINTS", 100)
        body = np.ones((12, 18, 20), dtype=bool)
        body[:, :3] = False
        template = analytic_map(waves)
        targets = [
            analytic_map(itself),
            analytic_map(waves, (12, 18, 20), body=body),
            analytic_map(itself, noise=2.0),
        ]
        for points in (inside(margin_mm=5, count=40), inside(margin_mm=5, count=130)):
            together = match_all(template, points, targets, effort)
            for found, target in zip(together, targets, strict=True):
                alone = match(template, points, target, effort)
                np.testing.assert_allclose(found.points_ras, alone.points_ras, atol=1e-6)
                np.testing.assert_allclose(found.score, alone.score, atol=1e-6)


class TestRefused:
    def test_maps_of_different_weights(self):
        other = analytic_map(itself, weights_hash="cd" * 32, name="other.nii.gz")
        with pytest.raises(
            MapError, match=r"other\.nii\.gz: the map of this scan was made with other weights"
        ):
            match(analytic_map(itself), MIDDLE, other)

    def test_a_point_outside_the_template(self):
        with pytest.raises(
            PointsError, match=r"\(500\.0, 0\.0, 350\.0\) RAS mm lies outside analytic"
        ):
            match(analytic_map(itself), [[0, 0, 350], [500, 0, 350]], analytic_map(itself))
