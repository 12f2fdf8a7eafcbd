"""Test that each random change of HU in a crop does what its docstring says."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from AnatomicalEmbedding.embedding.models.network import EmbeddingNetwork, NetworkSpec
from AnatomicalEmbedding.training.augmentation import augment
from AnatomicalEmbedding.training.recipes import AugmentationSpec

PLAIN = AugmentationSpec()
OURS = NetworkSpec()
PAPER = NetworkSpec(
    hu_knots=(-1000.0, 300.0), level_knots=(0.0, 1.0), unit_mm=None, normalise_output=True
)
LEVEL_OF_ONE_HU = 0.6 / 400  # steepest part of the network's input curve


def rng(seed=0):
    return np.random.default_rng(seed)


def spread_hu(shape=(16, 20, 24)):
    """Noise-free HU over the whole range, in no order."""
    return torch.from_numpy(rng(7).uniform(-1000, 1500, size=shape)).float()


@pytest.mark.parametrize("network", [OURS, PAPER])
def test_without_changes_the_input_is_what_inference_prepares(network):
    hu = spread_hu()
    expected = EmbeddingNetwork(replace(network, widths=(4,))).prepare(hu)[0]
    torch.testing.assert_close(
        augment(hu.clone(), PLAIN, network, rng()), expected, rtol=0, atol=LEVEL_OF_ONE_HU
    )


def test_window_clips_ours_and_stretches_the_papers():
    spec = replace(
        PLAIN, window_probability=1.0, window_low=[-300.0, -300.0], window_high=[400.0, 400.0]
    )
    hu = torch.tensor([-1000.0, -300, 50, 400, 1200]).view(1, 1, 5)
    paper = augment(hu.clone(), spec, PAPER, rng()).flatten()
    torch.testing.assert_close(paper, torch.tensor([0, 0, 0.5, 1, 1]), rtol=0, atol=2e-3)
    ours = augment(hu.clone(), spec, OURS, rng()).flatten()
    plain = augment(hu.clamp(-300, 400), PLAIN, OURS, rng()).flatten()
    torch.testing.assert_close(ours, plain, rtol=0, atol=1e-6)


def test_cut_leaves_one_side_unscanned():
    flat = torch.full((20, 24, 28), 40.0)
    spec = replace(PLAIN, cut_probability=1.0)
    sides = set()
    for seed in range(40):
        empty = augment(flat.clone(), spec, OURS, rng(seed)) == 0
        for axis in range(3):
            line = empty.movedim(axis, 0).flatten(1)
            # whole planes across this axis
            if empty.any() and torch.equal(line.any(1), line.all(1)):
                planes = torch.nonzero(line.all(1)).flatten().tolist()
                first = planes[0]
                last = planes[-1]
                assert planes == list(range(first, last + 1))
                assert first == 0 or last == empty.shape[axis] - 1
                assert len(planes) <= 0.4 * empty.shape[axis]
                sides.add((axis, first == 0))
                break
        else:
            assert not empty.any()
    assert {axis for axis, _ in sides} == {0, 1, 2}
    assert {low for _, low in sides} == {True, False}
