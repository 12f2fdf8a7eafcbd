"""Test the contrastive loss: it is small if descriptors differ between places; near neighbours do not count."""

import math
from dataclasses import replace

import pytest
import torch
from training_scans import linear_scan, make_sampler, tiny_recipe

from AnatomicalEmbedding.embedding.models.network import Features
from AnatomicalEmbedding.training.objectives import near_loss


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def placed(position_mm, length_mm, channels=64):
    """Unit descriptors of a place in mm: alike within about `length_mm`, unlike beyond."""
    frequency = torch.randn(3, channels // 2, generator=generator(3)) / length_mm
    phase = torch.einsum("nckji,cf->nfkji", position_mm, frequency)
    return torch.cat([phase.cos(), phase.sin()], dim=1) / math.sqrt(channels / 2)


@pytest.fixture(scope="module")
def views():
    recipe = tiny_recipe("hybrid", augmentation={"spacing_scale": [0.8, 1.2], "rotation_rad": 0.15})
    return make_sampler([linear_scan()], recipe, 1)[2], recipe.loss


def test_near_loss_tells_descriptors_of_places_from_others(views):
    batch, spec = views
    spec = replace(spec, temperature=0.1)

    def loss(local):
        return float(near_loss(Features(None, None, local), batch, spec, generator()))

    sharp, blurred = (placed(batch.position_mm, length) for length in (4.0, 40.0))
    same = torch.ones_like(sharp) / 8
    assert loss(sharp) < 0.2 * loss(blurred)
    drawn = 1 + 2 * 4 * (spec.negatives // 4)  # the positive and, in either view, near and far ones
    assert loss(blurred) < loss(same) <= math.log(drawn) + 1e-4
