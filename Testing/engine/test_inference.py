"""Test embedding: the coordinate of each cell, cancelling, the cache and devices."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scan_files import (
    HU_GRADIENT,
    ORDERS,
    centred_affine,
    linear_ct,
    patient,
    reordered,
    true_hu,
)
from small_models import Averaging, cell_centres, small_network

from AnatomicalEmbedding.embedding.cache import MapCache
from AnatomicalEmbedding.embedding.coverage import body_points
from AnatomicalEmbedding.embedding.device import choose_device
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, CancelledError, VolumeError
from AnatomicalEmbedding.scan.volume import Volume

HASH = "0" * 64


def model(cache: MapCache | None = None, **spec: object) -> Model:
    return Model(small_network(**spec), "small", HASH, cache=cache)


def count_runs(one: Model) -> list[int]:
    """A list that grows by one at each run of the model's network."""
    runs: list[int] = []
    one.network.register_forward_pre_hook(lambda *_: runs.append(1))
    return runs


@pytest.fixture
def cache(tmp_path: Path) -> MapCache:
    return MapCache(tmp_path / "cache")


@pytest.fixture(scope="module")
def scan() -> Volume:
    return patient()


class TestPlace:
    @pytest.mark.parametrize("spacing_mm", [(2.0, 2.0, 3.0), (1.5, 2.0, 2.5)])
    def test_each_cell_says_what_is_at_its_centre(self, spacing_mm):
        """HU linear in place, averaged over cells: half a voxel off anywhere would show as several HU."""
        voxels, affine = linear_ct(
            (40, 44, 48), centred_affine(np.diag((2.6, 2.8, 3.1)), (40, 44, 48))
        )
        voxels = (voxels / 4).astype(np.float32)  # all of it tissue
        found = Model(Averaging(spacing_mm), "averaging", HASH).embed(Volume(voxels, affine))
        centres = cell_centres(found)
        middle = (np.abs(centres) < 35).all(axis=-1)
        assert middle.sum() > 50
        expected = true_hu(centres[middle]) / 4
        # what 0.3 mm would do; storage rounds to whole HU
        tolerance = np.abs(HU_GRADIENT).max() / 4 * 0.3
        np.testing.assert_allclose(found.coordinate[0].numpy()[middle], expected, atol=tolerance)
        np.testing.assert_allclose(found.cell_mm, np.array(spacing_mm) * 4)

    def test_the_48_ways_to_store_a_scan_give_one_map(self, scan):
        one = model(spacing_mm=(4.0, 4.0, 5.0))
        reference = one.embed(scan)
        points = cell_centres(reference)[reference.body.numpy()] + (1.0, -0.7, 1.3)
        points = points[scan.contains(points)]
        expected = reference.sample(points)
        assert len(points) > 100
        assert np.ptp(expected, axis=0).min() > 0.01
        assert len(ORDERS) == 48
        for axes, flips in ORDERS:
            stored = reordered(scan, axes, flips)
            np.testing.assert_allclose(stored.sample(points), scan.sample(points), atol=1e-6)
            found = one.embed(stored)
            assert torch.equal(found.body, reference.body)
            np.testing.assert_allclose(found.sample(points), expected, atol=1e-3)

    def test_coordinates_without_unit_are_of_no_common_body(self, scan):
        unitless = Model(small_network(unit_mm=None), "one", HASH).embed(scan)
        with pytest.raises(
            AnatomicalEmbeddingError, match="the weights one give no body coordinates in mm"
        ):
            body_points(unitless)


class TestProgress:
    def test_cancelling_at_any_moment_keeps_nothing(self, scan, cache):
        one = model(cache)
        asked: list[int] = []
        model().embed(scan, cancelled=lambda: asked.append(1) is not None)
        assert len(asked) >= 4
        for moment in range(len(asked)):
            left = [False] * moment + [True]
            with pytest.raises(CancelledError, match="patient was cancelled"):
                one.embed(scan, cancelled=lambda left=left: left.pop(0))
            assert (cache.count(), list(cache.folder.glob("**/*"))) == (0, [])
        assert one.embed(scan, cancelled=lambda: False).body.any()
        assert cache.count() == 1


class TestCached:
    def test_a_scan_seen_before_is_not_embedded_again(self, scan, cache):
        first = model(cache)
        made = first.embed(scan)
        later = model(cache)
        runs = count_runs(later)
        kept = later.embed(scan)
        assert runs == []
        apart = (kept.coordinate - made.coordinate)[:, made.body].abs().max()
        assert apart < 1e-4 * made.coordinate[:, made.body].abs().max()
        assert torch.equal(kept.body, made.body)
        np.testing.assert_array_equal(kept.cell_to_ras, made.cell_to_ras)
        assert (kept.provenance, kept.scan_shape, kept.notes) == (
            made.provenance,
            made.scan_shape,
            made.notes,
        )

    def test_whatever_changes_the_map_is_not_served_from_the_cache(self, scan, cache):
        model(cache).embed(scan)
        changed = scan.voxels.copy()
        changed[15, 17, 19] += 1
        moved = scan.ijk_to_ras.copy()
        moved[0, 3] += 0.01
        others = {
            "a voxel": (HASH, replace(scan, voxels=changed)),
            "the place": (HASH, replace(scan, ijk_to_ras=moved)),
            "the weights": ("1" * 64, scan),
        }
        for what, (weights_hash, volume) in others.items():
            other = Model(small_network(), "small", weights_hash, cache=cache)
            runs = count_runs(other)
            other.embed(volume)
            assert runs, what


class TestRefused:
    @pytest.mark.parametrize("hu", [-1000, -1024, -700])
    def test_a_scan_without_a_patient(self, hu, tmp_path):
        affine = centred_affine(np.diag((4.0, 4.0, 5.0)), (20, 24, 28))
        empty = Volume(
            np.full((20, 24, 28), hu, np.int16), affine, path=str(tmp_path / "empty.nii.gz")
        )
        with pytest.raises(VolumeError) as refusal:
            model().embed(empty)
        assert str(refusal.value).startswith(f"{empty.path}: no patient was found")


class TestDevice:
    @pytest.mark.parametrize("name", ["tpu", "", "cuda:x", "gpu"])
    def test_unknown_names_are_refused(self, name):
        with pytest.raises(AnatomicalEmbeddingError, match="choose auto, cpu, cuda or mps"):
            choose_device(name)

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    def test_a_gpu_gives_the_map_of_the_cpu(self, scan):
        reference = model().embed(scan)
        found = Model(small_network(), "small", HASH, torch.device("cuda")).embed(scan)
        assert torch.equal(found.body, reference.body)
        difference = (found.coordinate - reference.coordinate)[:, found.body].abs().max()
        assert difference < 0.02 * reference.coordinate[:, reference.body].std()
