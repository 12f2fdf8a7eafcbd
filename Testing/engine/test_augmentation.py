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
