"""Pairs of views: a point of one is the same point in the other, whatever was done to either."""

import numpy as np
import pytest
import torch
from training_scans import SPACING_MM, linear_scan, scan_hu, tiny_recipe

from AnatomicalEmbedding.training.contrast import read_cells
from AnatomicalEmbedding.training.crops import cut_crop, draw_geometry
from AnatomicalEmbedding.training.objectives import make_sampler
from AnatomicalEmbedding.training.recipes import AugmentationSpec
from AnatomicalEmbedding.training.views import matching_cells

SIZE = (24, 20, 16)
SIDES = (8, 8, 8)
AFFINE = {"spacing_scale": [0.7, 1.3], "axis_scale": [0.9, 1.1], "rotation_rad": 0.3}
ELASTIC = AFFINE | {"elastic_mm": 3.0, "elastic_probability": 1.0}


def crops(changes, seed):
    scan, rng = linear_scan(), np.random.default_rng(seed)
    middle = (np.array(scan.hu.shape[::-1]) - 1) / 2
    spec = AugmentationSpec(**changes)
    return scan, [
        cut_crop(scan, middle + rng.uniform(-4, 4, 3), draw_geometry(spec, SIZE, np.array(SPACING_MM), rng), SIZE)
        for _ in range(2)
    ]


def position(crop, cells):
    """(p, 3) voxels of the scan at continuous local cells of a crop."""
    return read_cells(crop.warp.voxel_ijk(2).movedim(-1, 0), cells, unit=False)


@pytest.mark.parametrize(("changes", "tolerance"), [({}, 0.01), (AFFINE, 0.01), (ELASTIC, 1.0)])
@pytest.mark.parametrize("seed", range(4))
def test_matching_cells_show_the_same_point(changes, tolerance, seed):
    scan, (first, second) = crops(changes, seed)
    a, b = matching_cells(first, second, scan.grid_to_ras, 200, np.random.default_rng(seed))
    assert len(a) > 25
    torch.testing.assert_close(a, a.round(), rtol=0, atol=0)
    apart = (position(first, a) - position(second, b)).norm(dim=1)
    assert apart.max() < tolerance  # voxels; a local cell is about two


def test_crops_without_overlap_share_nothing():
    scan = linear_scan()
    lattice = draw_geometry(AugmentationSpec(), SIDES, np.array(SPACING_MM), np.random.default_rng(0))
    one, other = (cut_crop(scan, np.array(c), lattice, SIDES) for c in ((12, 12, 12), (32, 24, 28)))
    a, b = matching_cells(one, other, scan.grid_to_ras, 100, np.random.default_rng(0))
    assert len(a) == len(b) == 0


def test_crop_of_air_has_no_points():
    scan = linear_scan()
    lattice = draw_geometry(AugmentationSpec(), SIDES, np.array(SPACING_MM), np.random.default_rng(0))
    air = cut_crop(scan, np.array([500.0, 0, 0]), lattice, SIDES)
    assert len(matching_cells(air, air, scan.grid_to_ras, 50, np.random.default_rng(0))[0]) == 0


@pytest.mark.parametrize("objective", ["descriptors", "hybrid"])
def test_points_of_a_batch_look_the_same_in_both_views(objective):
    """The linear scan's HU tells a place; without changes of intensity both views must show it."""
    batch = make_sampler([linear_scan()], tiny_recipe(objective, augmentation=AFFINE), 2, 3)[1]
    pairs = len(batch.first_cells)
    assert batch.image.shape[0] == 2 * pairs == 4
    for n in range(pairs):
        for view, cells in ((n, batch.first_cells[n]), (pairs + n, batch.second_cells[n])):
            voxels = read_cells(batch.position_mm[view], cells, unit=False)
            corner = torch.from_numpy(linear_scan().grid_to_ras[:3, 3])
            truth = scan_hu((voxels - corner) / torch.tensor(SPACING_MM))
            shown = read_cells(batch.image[view], cells * 2 + 0.5, unit=False)[:, 0] * 2000 - 1000
            inner = ((cells >= 1) & (cells <= torch.tensor([10, 8, 6]))).all(1)
            assert (shown - truth)[inner].abs().median() < 2
        a, b = (
            read_cells(batch.position_mm[v], c, unit=False)
            for v, c in ((n, batch.first_cells[n]), (pairs + n, batch.second_cells[n]))
        )
        assert (a - b).norm(dim=1).max() < 0.1


def test_batch_depends_on_seed_and_step_alone():
    one, other = (make_sampler([linear_scan()], tiny_recipe("hybrid", augmentation=ELASTIC), 5, 9) for _ in range(2))
    _ = other[7]
    assert all(torch.equal(x, y) for x, y in zip(vars(one[3]).values(), vars(other[3]).values(), strict=True))
    assert not torch.equal(one[3].image, one[4].image)
