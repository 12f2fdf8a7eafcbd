"""Test the matching of blocks of descriptors, on maps with known descriptors and deformed targets."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from described_maps import described, errors, inner_points

from AnatomicalEmbedding.matching.match import match


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
