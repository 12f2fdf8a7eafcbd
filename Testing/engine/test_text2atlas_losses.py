"""Test the losses of the text network: values and gradients equal those of the formulas in the papers."""

import math

import numpy as np
import pytest
import torch

from AnatomicalEmbedding.papers.text2atlas.run import soft_organ_distance


def batch(seed: int, size: int = 3, organs: int = 4, points: int = 5):
    """Points that texts were given, organs of which each text names some, in float64."""
    rng = np.random.default_rng(seed)
    named = rng.random((size, organs)) < 0.6
    named[:, 0] = True
    of = (rng.normal(size=(size, 3)), rng.normal(size=(size, organs, points, 3)), named)
    return tuple(map(torch.from_numpy, of))


def literal_sod(predicted, points, named, gamma_p=0.1, gamma_o=1.0):
    """Equations 2 and 3 of Grujicic 2020, one sum after the other."""
    total = 0.0
    for y_hat, organs, there in zip(predicted, points, named, strict=True):
        organ_losses = []
        for organ, is_named in zip(organs, there, strict=True):
            if not is_named:
                continue
            distances = [math.dist(y_hat, y) for y in organ]
            bottom = sum(math.exp(-d / gamma_p) for d in distances)
            organ_losses.append(sum(d * math.exp(-d / gamma_p) / bottom for d in distances))
        bottom = sum(math.exp(-loss / gamma_o) for loss in organ_losses)
        total += sum(loss * math.exp(-loss / gamma_o) / bottom for loss in organ_losses)
    return total / len(predicted)


@pytest.mark.parametrize("seed", range(3))
def test_values_are_those_of_the_formulas(seed):
    predicted, points, named = batch(seed)
    assert float(soft_organ_distance(predicted, points, named)) == pytest.approx(
        literal_sod(predicted.tolist(), points.tolist(), named.tolist()), rel=1e-12
    )
