"""Test the matching of blocks of descriptors, on maps with known descriptors and deformed targets."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from described_maps import described, errors, inner_points

from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.matching.target_batch import TargetRows
from AnatomicalEmbedding.scan.geometry import transform_points


def cells(embedding, points):
    return torch.from_numpy(transform_points(np.linalg.inv(embedding.cell_to_ras), points))


def each(target, points):
    return TargetRows.each([target], len(points))


def noisy(embedding, share, seed=0):
    """The map with a share of its local descriptors replaced by others of no meaning."""
    generator = torch.Generator().manual_seed(seed)
    wrong = torch.rand(embedding.local.shape[1:], generator=generator) < share
    random = torch.nn.functional.normalize(
        torch.randn(embedding.local.shape, generator=generator), dim=0
    ).half()
    return replace(embedding, local=torch.where(wrong, random, embedding.local))


@pytest.mark.parametrize("moved", [(1.7, 0.9, -2.6), (7.0, -5.0, 9.0)])
def test_displacements_are_found_between_the_cells(moved):
    template = described()
    target = described(moved=moved)
    points = inner_points(80)
    found = match(template, points, target).points_ras - points - np.array(moved)
    assert np.linalg.norm(found, axis=1).max() < 1.0  # local cells are 4 x 4 x 6 mm
    assert np.abs(found.mean(axis=0)).max() < 0.15


def test_blocks_see_through_faults_that_mislead_single_descriptors():
    moved = np.array([4.0, -6.0, 5.0])
    off = np.array([8.0, 6.0, -5.0])
    template = noisy(described(), 0.3)
    target = noisy(described(lambda p: p + off, moved), 0.3, seed=1)
    points = inner_points(60)
    single = errors(match(template, points, target, effort="fast").points_ras, points + moved)
    blocks = errors(match(template, points, target).points_ras, points + moved)
    assert np.percentile(single, 90) > 5
    assert blocks.max() < 2.5
    assert np.median(blocks) < 1.0


def test_a_stretched_and_sheared_target_is_followed():
    slope = np.array([[1.1, 0.05, 0.0], [-0.05, 0.92, 0.04], [0.0, 0.08, 1.05]])
    middle = inner_points().mean(axis=0)

    def to_template(p):
        return (p - middle) @ slope.T + middle

    made = described()
    k, j, i = np.indices(made.local.shape[1:])
    places = transform_points(
        made.cell_to_ras, (np.stack([i, j, k], -1).reshape(-1, 3) + 0.5) / 2 - 0.5
    )
    seen = to_template(places)
    shown = made.local_rows[0:1].new_zeros(len(places), made.local.shape[0])
    inside = torch.from_numpy(transform_points(np.linalg.inv(made.cell_to_ras), seen)).float()
    grid = (inside + 0.5) * (2 / torch.tensor(made.body.shape[::-1])) - 1
    read = torch.nn.functional.grid_sample(
        made.local[None].float(),
        grid[None, :, None, None].float(),
        align_corners=False,
        padding_mode="border",
    )[0, :, :, 0, 0]
    shown = torch.nn.functional.normalize(read, dim=0).view(made.local.shape).half()
    target = replace(described(to_template), local=shown)
    points = inner_points(60, rim_mm=60.0)
    truth = (points - middle) @ np.linalg.inv(slope).T + middle
    assert errors(match(described(), points, target).points_ras, truth).max() < 1.5
