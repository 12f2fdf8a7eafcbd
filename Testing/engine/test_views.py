"""Test pairs of training crops (views): a point that both show is the same point in the scan."""

import numpy as np
import pytest
import torch
from training_scans import SPACING_MM, linear_scan, make_sampler, scan_hu, tiny_recipe

from AnatomicalEmbedding.training.crops import cut_crop, draw_geometry
from AnatomicalEmbedding.training.objectives import read_cells
from AnatomicalEmbedding.training.recipes import AugmentationSpec

SIZE = (24, 20, 16)
AFFINE = {"spacing_scale": [0.7, 1.3], "axis_scale": [0.9, 1.1], "rotation_rad": 0.3}


def crops(changes, seed):
    scan = linear_scan()
    rng = np.random.default_rng(seed)
    middle = (np.array(scan.hu.shape[::-1]) - 1) / 2
    spec = AugmentationSpec(**changes)
    return scan, [
        cut_crop(
            scan,
            middle + rng.uniform(-4, 4, 3),
            draw_geometry(spec, SIZE, np.array(SPACING_MM), rng),
            SIZE,
        )
        for _ in range(2)
    ]


@pytest.mark.parametrize("objective", ["descriptors", "hybrid"])
def test_points_of_a_batch_look_the_same_in_both_views(objective):
    """The linear scan's HU tells a place; without changes of intensity both views must show it."""
    batch = make_sampler([linear_scan()], tiny_recipe(objective, augmentation=AFFINE), 2)[1]
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
