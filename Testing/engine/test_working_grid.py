"""Test the working grid: for any header, the network gets the same voxels at the same places."""

import numpy as np
import pytest
from scan_files import centred_affine, true_hu, voxel_positions

from AnatomicalEmbedding.embedding.working_grid import resample
from AnatomicalEmbedding.scan.geometry import AIR_HU, rotations
from AnatomicalEmbedding.scan.volume import Volume

SPACING_MM = (2.0, 2.0, 3.0)
LATTICE, STEP = 8, 4


def linear_volume(shape=(24, 26, 28), ijk_to_ras=None, shift=(13.0, -71.0, 40.0)):
    """A float scan of the linear function, away from the world's origin."""
    if ijk_to_ras is None:
        ijk_to_ras = centred_affine(np.diag((3.0, 3.2, 3.5)), shape)
    matrix = ijk_to_ras.copy()
    matrix[:3, 3] += shift
    return Volume(true_hu(voxel_positions(shape, matrix)).astype(np.float32), matrix)


def rotation(degrees, axis):
    return rotations(np.full(3, np.radians(degrees)))[axis]


def truth_on(grid, volume, margin_mm=0.0):
    """The linear function at every grid voxel, and which of those lie between voxel centres of the scan."""
    points = voxel_positions(tuple(grid.hu.shape), grid.grid_to_ras)
    ijk = points @ volume.ras_to_ijk[:3, :3].T + volume.ras_to_ijk[:3, 3]
    margin = margin_mm / np.array(volume.spacing)
    last = np.array(volume.shape[::-1]) - 1
    return true_hu(points), np.all((ijk >= margin) & (ijk <= last - margin), axis=-1)


@pytest.mark.parametrize(
    "voxel_mm",
    [
        (3.0, 3.2, 3.5),  # coarser than the grid: interpolated
        (2.0, 2.0, 3.0),  # as fine
        (0.7, 0.9, 1.1),  # finer: averaged in bins of 2 or 3 first, which must not shift it
        (0.98, 0.98, 0.6),
    ],
)
def test_linear_function_is_sampled_exactly(voxel_mm):
    shape = tuple(int(70 / v) for v in reversed(voxel_mm))
    volume = linear_volume(shape, centred_affine(np.diag(voxel_mm), shape))
    grid = resample(volume, SPACING_MM, LATTICE, STEP)
    truth, inside = truth_on(grid, volume, margin_mm=3.0)
    assert inside.sum() > 10_000
    np.testing.assert_allclose(grid.hu.numpy()[inside], truth[inside], atol=0.02)


@pytest.mark.parametrize("voxel_mm", [(3.0, 3.2, 3.5), (0.8, 0.8, 1.0)])
@pytest.mark.parametrize(
    "turn", [rotation(20, 2), rotation(-35, 0) @ rotation(10, 1), rotation(3, 1)]
)
def test_oblique_scan_is_sampled_exactly(turn, voxel_mm):
    shape = tuple(int(70 / v) for v in reversed(voxel_mm))
    volume = linear_volume(shape, centred_affine(turn * voxel_mm, shape))
    voxels = volume.voxels.copy()
    grid = resample(volume, SPACING_MM, LATTICE, STEP)
    np.testing.assert_array_equal(volume.voxels, voxels)
    truth, inside = truth_on(grid, volume, margin_mm=3.0)
    assert inside.sum() > 10_000
    np.testing.assert_allclose(grid.hu.numpy()[inside], truth[inside], atol=0.05)


@pytest.mark.parametrize(
    "shift", [(0.0, 0.0, 0.0), (13.0, -71.0, 40.0), (-300.25, 0.4, -1234.5), (16.0, 16.0, 24.0)]
)
@pytest.mark.parametrize(("lattice", "step"), [(32, 4), (8, 8), (2, 2)])
def test_grid_starts_on_the_world_lattice_and_covers_the_scan(shift, lattice, step):
    volume = linear_volume(shift=shift)
    grid = resample(volume, SPACING_MM, lattice, step)
    edge = grid.origin_ras - np.array(SPACING_MM) / 2
    pitch = np.array(SPACING_MM) * lattice
    np.testing.assert_allclose(edge / pitch, np.rint(edge / pitch), atol=1e-9)
    size_ijk = np.array(grid.hu.shape[::-1])
    assert (size_ijk % step == 0).all()
    low, high = volume.bounds_ras
    assert (edge <= low + 1e-3).all()
    assert (low < edge + pitch + 1e-3).all()
    end = edge + size_ijk * SPACING_MM
    assert (end >= high - 1e-3).all()
    assert (end < high + np.array(SPACING_MM) * step + 1e-3).all()


@pytest.mark.parametrize("turn", [np.eye(3), rotation(25, 2)])
def test_outside_the_scan_is_air(turn):
    volume = linear_volume(ijk_to_ras=centred_affine(turn * (3.0, 3.2, 3.5), (24, 26, 28)))
    grid = resample(volume, SPACING_MM, 32, 4)
    _, beyond = truth_on(grid, volume, margin_mm=-4.0)
    assert (~beyond).sum() > 1000
    assert (grid.hu.numpy()[~beyond] == AIR_HU).all()


def test_noise_is_averaged_not_picked():
    voxels = np.random.default_rng(0).normal(40, 60, size=(60, 60, 60)).astype(np.float32)
    volume = Volume(voxels, np.diag([0.5, 0.5, 0.75, 1.0]))
    inner = resample(volume, SPACING_MM, 2, 2).hu[2:-2, 2:-2, 2:-2]
    assert float(inner.std()) < 60 / 64**0.5 * 1.3  # 4 x 4 x 4 voxels a bin
    assert float(inner.mean()) == pytest.approx(40, abs=2)
