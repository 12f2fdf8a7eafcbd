"""Test the losses of the text network: values and gradients equal those of the formulas in the papers."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

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


def test_gradients_are_those_of_the_formulas():
    predicted, points, named = batch(7)
    predicted.requires_grad_()
    soft_organ_distance(predicted, points, named).backward()
    step = 1e-6
    for n in range(len(predicted)):
        for axis in range(3):
            ends = []
            for sign in (-1, 1):
                moved = predicted.detach().clone()
                moved[n, axis] += sign * step
                ends.append(literal_sod(moved.tolist(), points.tolist(), named.tolist()))
            assert float(predicted.grad[n, axis]) == pytest.approx(
                (ends[1] - ends[0]) / (2 * step), abs=1e-7
            )


coordinates = st.floats(-3, 3, width=32)
clouds = arrays(np.float64, (2, 3, 4, 3), elements=coordinates)
places = arrays(np.float64, (2, 3), elements=coordinates)


@settings(max_examples=60, deadline=None)
@given(places, clouds)
def test_organs_that_are_not_named_do_not_count(predicted, points):
    predicted = torch.from_numpy(predicted)
    points = torch.from_numpy(points)
    named = torch.tensor([[True, True, False]] * 2)
    alone = soft_organ_distance(predicted, points[:, :2], named[:, :2])
    assert float(soft_organ_distance(predicted, points, named)) == pytest.approx(
        float(alone), abs=1e-12
    )
