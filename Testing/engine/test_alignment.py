"""Test the alignment of scans, with maps whose coordinates are a known smooth function of the place plus errors."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_models import analytic_map
from training_scans import SPACING_MM, linear_scan

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, VolumeError
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.training.preparation import align_scan
from AnatomicalEmbedding.training.scans import FIELD_STEP


def bent(ras):
    """A scaled, turned and gently bent body frame, mm."""
    straight = ras @ np.array([[1.1, 0.05, 0.0], [-0.05, 0.95, 0.1], [0.0, -0.1, 0.9]]).T + (
        5.0,
        -20.0,
        300.0,
    )
    return straight + 6 * np.sin(ras[:, [2, 0, 1]] / 90)


def map_of(scan, to_body, noise_mm=0.0, lost=0.0):
    """A map on 4-voxel cells of the scan; a share of `lost` cells is wrong by decimetres."""
    rng = np.random.default_rng(0)

    def coordinate(ras):
        wrong = rng.random((len(ras), 1)) < lost
        return to_body(ras) + rng.normal(size=ras.shape) * noise_mm + wrong * (150.0, -100.0, 200.0)

    corner = scan.grid_to_ras[:3, 3] - np.array(SPACING_MM) / 2
    cell_mm = tuple(4 * s for s in SPACING_MM)
    return analytic_map(coordinate, tuple(n // 4 for n in scan.hu.shape), cell_mm, tuple(corner))


def field_at(scan, ras):
    voxel = torch.from_numpy(transform_points(np.linalg.inv(scan.grid_to_ras), ras)).float()
    extent = torch.tensor(scan.body_field.shape[:0:-1]) - 1
    grid = voxel / FIELD_STEP * (2 / extent) - 1
    return F.grid_sample(scan.body_field[None], grid[None, None, None], align_corners=True)[
        0, :, 0, 0
    ].T.numpy()


def inner_points(scan):
    ijk = np.random.default_rng(1).uniform(0.1, 0.9, (300, 3)) * (np.array(scan.hu.shape[::-1]) - 1)
    return transform_points(scan.grid_to_ras, ijk)


@pytest.mark.parametrize(
    ("noise_mm", "lost", "within"), [(0.0, 0.0, 1.5), (8.0, 0.0, 4.0), (4.0, 0.05, 6.0)]
)
def test_field_follows_the_map_not_its_faults(noise_mm, lost, within):
    scan = linear_scan()
    aligned = align_scan(scan, map_of(scan, bent, noise_mm, lost))
    points = inner_points(scan)
    error = np.linalg.norm(field_at(aligned, points) - bent(points), axis=1)
    assert np.median(error) < within / 2
    assert error.max() < within


def test_frame_is_the_line_of_the_map_and_settled():
    scan = linear_scan()
    scale = np.array([1.1, 0.9, 1.05])
    shift = np.array([4.0, -8.0, 260.0])
    aligned = align_scan(scan, map_of(scan, lambda ras: ras * scale + shift))
    np.testing.assert_allclose(aligned.frame.scale, scale, atol=1e-3)
    np.testing.assert_allclose(aligned.frame.shift_mm, shift, atol=0.1)
    assert (aligned.frame.shift_sd_mm < 5).all()
    assert aligned.name == scan.name
    assert torch.equal(aligned.hu, scan.hu)


@pytest.mark.parametrize("scale", [0.2, 4.0, -1.0])
def test_maps_of_badly_trained_weights_are_refused(scale):
    scan = linear_scan()
    with pytest.raises(VolumeError, match="linear: the body heights in its map cannot be true"):
        align_scan(scan, map_of(scan, lambda ras: ras * (1, 1, scale)))


def test_maps_without_a_frame_in_mm_are_refused():
    embedding = map_of(linear_scan(), bent)
    foreign = replace(embedding, provenance=replace(embedding.provenance, metric=False))
    with pytest.raises(AnatomicalEmbeddingError, match="no body coordinates in mm"):
        align_scan(linear_scan(), foreign)
