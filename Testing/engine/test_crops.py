"""Test training crops of scans whose HU and body coordinates are known functions of the position."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from training_scans import BODY_MARGIN, SHAPE, SPACING_MM, frame, linear_scan, scan_hu

from AnatomicalEmbedding.training.crops import cell_positions, cut_crop, draw_geometry
from AnatomicalEmbedding.training.recipes import AugmentationSpec

AFFINE = AugmentationSpec(spacing_scale=[0.7, 1.4], axis_scale=[0.9, 1.1], rotation_rad=0.2)
WARPED = replace(AFFINE, elastic_mm=4.0, elastic_probability=1.0)
SIZE = (24, 20, 16)  # i, j, k
CENTRE_IJK = (np.array(SHAPE[::-1]) - 1) / 2


def rng(seed=0):
    return np.random.default_rng(seed)


def warped_crop(scan, seed, centre=CENTRE_IJK, spec=WARPED):
    return cut_crop(scan, centre, draw_geometry(spec, SIZE, np.array(SPACING_MM), rng(seed)), SIZE)


@pytest.mark.parametrize("seed", range(4))
def test_warped_crop_shows_the_scan_at_the_voxels_it_names(seed):
    crop = warped_crop(linear_scan(), seed)
    voxel = crop.warp.voxel_ijk()
    last = torch.tensor(SHAPE[::-1]) - 1
    inside = ((voxel >= 0) & (voxel <= last)).all(-1)
    assert inside.float().mean() > 0.6
    torch.testing.assert_close(crop.hu[inside], scan_hu(voxel)[inside], rtol=0, atol=0.05)
    far = ((voxel < -1) | (voxel > last + 1)).any(-1)
    assert (crop.hu[far] == -1000).all()


def test_cells_get_the_frames_coordinates_of_their_centres():
    guess = frame((1.0, 0.9, 1.1), (12.0, -7.0, 230.0))
    scan = linear_scan(guess=guess)
    crop = warped_crop(scan, 1, CENTRE_IJK + np.array([14, 0, 8]), AFFINE)
    target, inside = cell_positions(scan, crop)
    centre = F.avg_pool3d(crop.warp.voxel_ijk().movedim(-1, 0)[None].double(), 4)[0].numpy()
    assert target.shape == (3, 4, 5, 6)
    ras = np.moveaxis(centre, 0, -1) * SPACING_MM + scan.grid_to_ras[:3, 3]
    np.testing.assert_allclose(np.moveaxis(target.numpy(), 0, -1), guess.apply(ras), atol=1e-3)
    edge = np.array([BODY_MARGIN - 0.5] * 3), np.array(SHAPE[::-1]) - BODY_MARGIN - 0.5
    expected = np.all(
        [(c > low) & (c < high) for c, low, high in zip(centre, *edge, strict=True)], axis=0
    )
    assert expected.any()
    assert not expected.all()
    np.testing.assert_array_equal(inside.numpy(), expected)


def test_a_crop_never_folds_along_the_slices():
    strong = replace(WARPED, elastic_mm=60.0)
    for seed in range(5):
        depth = warped_crop(linear_scan(), seed, spec=strong).warp.voxel_ijk()[..., 2]
        assert (depth.diff(dim=0) > 0).all()
