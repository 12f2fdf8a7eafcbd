"""Test the training loop on models so small that the right result of each step can be written down."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.training.loop import CHECKPOINT, OptimiserSpec, TrainingLoop


def line(**options) -> TrainingLoop:
    """A loop about a single weight, at 1."""
    network = nn.Linear(1, 1, bias=False)
    nn.init.ones_(network.weight)
    return TrainingLoop(network, OptimiserSpec(**({"learning_rate": 0.01} | options)), steps=10)


def pull(loop: TrainingLoop, goals):
    """The loss of batches that pull the weight to a goal each."""
    return lambda number: (loop.network.weight - goals[number % len(goals)]).square().sum()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 200), st.floats(0, 0.5), st.floats(0, 1))
def test_the_rate_rises_and_comes_down_to_its_end(steps, warm_up, final):
    loop = TrainingLoop(nn.Linear(1, 1), OptimiserSpec(1.0, warm_up=warm_up, final=final), steps)
    rates = []
    for loop.step in range(steps):
        rates.append(loop.rate())
    top = rates.index(max(rates))
    assert all(0 < rate <= 1 for rate in rates)
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert top <= warm_up * steps + 1
    assert rates[-1] >= min(final, 0.04)


def test_further_modules_learn_at_their_own_rate():
    other = nn.Linear(1, 1, bias=False)
    nn.init.ones_(other.weight)
    loop = TrainingLoop(
        nn.Linear(1, 1), OptimiserSpec(0.0, warm_up=0.0), 3, modules={"other": (other, 0.5)}
    )
    loop.update(lambda number: other.weight.sum() + 0 * loop.network.weight.sum())
    assert float(other.weight.detach()) < 0.6
    assert torch.equal(loop.averaged.weight, loop.network.weight)


def test_minutes_end_a_run(tmp_path):
    loop = line()
    loop.run(pull(loop, (0.0,)), tmp_path, minutes=0.0)
    assert loop.step == 1
    loop.minutes = 5.0
    loop.run(pull(loop, (0.0,)), tmp_path, minutes=5.0)
    assert loop.step == 1
    loop.run(pull(loop, (0.0,)), tmp_path)
    assert loop.step == 10


def test_a_checkpoint_with_parts_missing_is_named(tmp_path):
    loop = line()
    torch.save({"identity": "", "network": {}}, tmp_path / CHECKPOINT)
    with pytest.raises(AnatomicalEmbeddingError, match=r"checkpoint\.pt: is damaged; delete it"):
        loop.resume(tmp_path / CHECKPOINT)
