"""Maps: sampling at points, what lies outside, and files that come back exactly or are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from small_models import analytic_map, cell_centres, write_small_weights

from AnatomicalEmbedding.embedding.map import FORMAT_VERSION, EmbeddingMap
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
    def test_at_cell_centres_it_is_what_the_cell_holds(self, whole):
        at_centres = whole.sample(cell_centres(whole).reshape(-1, 3))
        held = whole.coordinate.numpy().reshape(3, -1).T
        np.testing.assert_allclose(at_centres, held, atol=1e-3)

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.tuples(*[st.floats(0, 1)] * 3), min_size=1, max_size=30))
    def test_between_cells_it_is_linear(self, whole, fractions):
        centres = cell_centres(whole).reshape(-1, 3)
        points = centres.min(axis=0) + np.array(fractions) * np.ptp(centres, axis=0)
        np.testing.assert_allclose(whole.sample(points), affine(points), atol=2e-3)

    def test_between_the_outermost_centres_and_the_edge_of_the_scan_the_outermost_cell_holds(self, whole):
        low, high = scan_bounds(whole)
        centres = cell_centres(whole).reshape(-1, 3)
        np.testing.assert_allclose(
            whole.sample([low, high]), affine(np.array([centres.min(axis=0), centres.max(axis=0)])), atol=1e-3
        )

    def test_cells_that_are_not_body_take_no_part(self, half):
        border = cell_centres(half)[:, :, 11].reshape(-1, 3)
        for beyond_mm in (0.0, 3.0, 7.0):
            found = half.sample(border + np.array((beyond_mm, 0, 0)))
            np.testing.assert_allclose(found, affine(border), atol=1e-3)

    def test_in_the_air_it_is_the_coordinate_of_the_nearest_body_cell(self, half):
        border = cell_centres(half)[3, 4, 11]
        np.testing.assert_allclose(half.sample(border + np.array((60, 1.0, -2.0))), affine(border[None]), atol=1e-3)

    def test_many_points_in_the_air(self, half):
        points = np.repeat(cell_centres(half)[:, :, 20].reshape(-1, 3), 5, axis=0)
        nearest = np.repeat(cell_centres(half)[:, :, 11].reshape(-1, 3), 5, axis=0)
        np.testing.assert_allclose(half.sample(points), affine(nearest), atol=1e-3)

    def test_a_list_one_point_and_no_point_are_all_welcome(self, whole):
        points = cell_centres(whole)[2, 3, 4:6]
        np.testing.assert_array_equal(whole.sample(points.tolist()), whole.sample(points))
        np.testing.assert_array_equal(whole.sample(points[0]), whole.sample(points[:1]))
        assert whole.sample([]).shape == whole.sample(np.zeros((0, 3))).shape == (0, 3)

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

    @pytest.mark.parametrize("points", [[[1.0, 2.0]], [1.0, 2.0, 3.0, 4.0], np.zeros((2, 2, 3))])
    def test_points_that_are_not_three_numbers_are_refused(self, whole, points):
        with pytest.raises(PointsError, match="x, y, z in RAS mm"):
            whole.sample(points)

    def test_a_point_that_is_not_a_number_lies_outside(self, whole):
        assert not whole.contains([np.nan, 0, 310])[0]
        with pytest.raises(PointsError, match="nan"):
            whole.sample([np.nan, 0, 310])

    def test_a_scan_without_body_has_no_coordinates(self):
        empty = analytic_map(affine, body=np.zeros((16, 20, 24), dtype=bool), name="air.nii.gz")
        with pytest.raises(MapError, match=r"air\.nii\.gz: holds no body"):
            empty.sample([0.0, 0.0, 350.0])


class TestFile:
    def test_comes_back_exactly(self, half, tmp_path):
        path = tmp_path / "deeper" / "half.map.safetensors"
        half.save(path)
        back = EmbeddingMap.load(path)
        assert torch.equal(back.coordinate, half.coordinate)
        assert torch.equal(back.body, half.body)
        assert (back.coordinate.dtype, back.body.dtype) == (torch.float32, torch.bool)
        np.testing.assert_array_equal(back.cell_to_ras, half.cell_to_ras)
        np.testing.assert_array_equal(back.scan_to_ras, half.scan_to_ras)
        assert (back.scan_shape, back.provenance, back.notes) == (half.scan_shape, half.provenance, half.notes)
        points = cell_centres(half)[:, 5, :12].reshape(-1, 3) + 1.3
        np.testing.assert_array_equal(back.sample(points), half.sample(points))
        assert [p.name for p in path.parent.iterdir()] == [path.name]

    def test_keeps_what_is_not_ascii(self, tmp_path):
        embedding = analytic_map(affine, name="Röntgen 胸部.nii.gz")
        embedding.save(tmp_path / "map.safetensors")
        assert EmbeddingMap.load(tmp_path / "map.safetensors").provenance.scan == "Röntgen 胸部.nii.gz"

    @pytest.mark.parametrize("kept", [0, 5, 100, 4000, -1])
    def test_a_file_cut_short_is_refused(self, whole, tmp_path, kept):
        path = tmp_path / "cut.map.safetensors"
        whole.save(path)
        path.write_bytes(path.read_bytes()[:kept])
        assert_refused(path, "damaged; embed the scan again.")

    def test_other_files_are_refused(self, tmp_path):
        assert_refused(tmp_path / "missing.safetensors", "no such file")
        assert_refused(tmp_path, "no such file")
        (tmp_path / "text.safetensors").write_text("a map, honestly")
        assert_refused(tmp_path / "text.safetensors", "not an embedding map")
        assert_refused(write_small_weights(tmp_path), "not an embedding map")

    @pytest.mark.parametrize(
        "about", [{}, {"format_version": 1}, {"format_version": "x"}, [], {"format_version": 1, "provenance": {"a": 1}}]
    )
    def test_a_map_without_its_description_is_refused(self, whole, tmp_path, about):
        path = tmp_path / "map.safetensors"
        whole.save(path)
        save_file(load_file(path), path, {"anatomical_embedding_map": json.dumps(about)})
        assert_refused(path, "not an embedding map")

    def test_a_newer_format_is_refused_as_such_whatever_it_holds(self, tmp_path):
        path = tmp_path / "newer.safetensors"
        about = {"format_version": FORMAT_VERSION + 1}
        save_file({"unheard_of": torch.zeros(3)}, path, {"anatomical_embedding_map": json.dumps(about)})
        assert_refused(path, "newer version")

    def test_a_place_that_cannot_be_written_is_named(self, whole, tmp_path):
        (tmp_path / "file").write_text("")
        path = tmp_path / "file" / "map.safetensors"
        with pytest.raises(MapError) as refusal:
            whole.save(path)
        assert str(refusal.value).startswith(f"{path}: cannot be written")

    def test_a_full_disk_leaves_the_old_file(self, whole, half, tmp_path):
        limits = pytest.importorskip("resource")  # POSIX only
        path = tmp_path / "map.safetensors"
        half.save(path)
        before = path.read_bytes()
        soft, hard = limits.getrlimit(limits.RLIMIT_FSIZE)
        limits.setrlimit(limits.RLIMIT_FSIZE, (1000, hard))
        try:
            with pytest.raises(MapError, match="not full"):
                whole.save(path)
        finally:
            limits.setrlimit(limits.RLIMIT_FSIZE, (soft, hard))
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]


def assert_refused(path: Path, because: str) -> None:
    with pytest.raises(MapError) as refusal:
        EmbeddingMap.load(path)
    message = str(refusal.value)
    assert message.startswith(f"{path}: ")
    assert because in message
    assert "\n" not in message
