"""Training a group's network: patches of the examples, cross entropy and Dice, weights averaged over the last steps."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..errors import CancelledError
from .network import STEP, UNet, precision
from .patches import PatchSampler, TrainingCrop, patch_size

PATCH = 40  # voxels along an axis
_RATE = 4e-3
_DECAY = 1e-3
_WARM_STEPS = 20
_AVERAGE = 0.98  # of the weights, a step
_CLIP = 1.0
SAVE_EVERY = 50


@dataclass(eq=False)
class TrainingState:
    """What a run needs to go on exactly where it stopped: weights, their average, optimiser and random numbers."""

    network: nn.Module
    average: nn.Module
    optimiser: torch.optim.Optimizer
    rng: np.random.Generator
    step: int = 0
    losses: list[float] = field(default_factory=list)

    def to_dict(self) -> dict:
        """As values that torch stores."""
        return {
            "network": self.network.state_dict(), "average": self.average.state_dict(), "step": self.step,
            "optimiser": self.optimiser.state_dict(), "rng": repr(self.rng.bit_generator.state), "losses": self.losses,
        }  # fmt: skip

    def load(self, values: dict) -> None:
        import ast

        self.network.load_state_dict(values["network"])
        self.average.load_state_dict(values["average"])
        self.optimiser.load_state_dict(values["optimiser"])
        self.rng.bit_generator.state = ast.literal_eval(values["rng"])
        self.step, self.losses = int(values["step"]), list(values["losses"])


def start(network: nn.Module, seed: int, device: torch.device) -> TrainingState:
    """A new state about a network."""
    network = ready(network, device).train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=_DECAY)
    average = copy.deepcopy(network).requires_grad_(False)
    return TrainingState(network, average, optimiser, np.random.default_rng(seed))


def ready(network: nn.Module, device: torch.device) -> nn.Module:
    """On its device, in the memory layout in which it computes fastest."""
    if isinstance(network, UNet) and network.spec.dimensions == 3:
        network = network.to(memory_format=torch.channels_last_3d)
    return network.to(device)


def train(
    state: TrainingState,
    examples: Sequence[TrainingCrop],
    steps: int,
    progress: Callable[[int, float], None] = lambda step, loss: None,
    save: Callable[[TrainingState], None] = lambda state: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> UNet:
    """Take the state to `steps` steps; returns the averaged network, ready to predict.

    progress: called with each step and its loss. save: called every SAVE_EVERY steps, and when `cancelled` says so
    before CancelledError is raised.
    """
    device = next(state.network.parameters()).device
    largest = torch.Size(max(e.crop.shape[axis] for e in examples) for axis in range(3))
    sampler = PatchSampler(list(examples), patch_size(largest, PATCH, STEP), state.rng)
    while state.step < steps:
        if cancelled():
            save(state)
            raise CancelledError(f"stopped at step {state.step} of {steps}; the same command goes on from there.")
        for part in state.optimiser.param_groups:
            part["lr"] = _rate(state.step, steps)
        patch = sampler.draw()
        features = None if patch.features is None else patch.features.to(device)
        with precision(device):
            logits = state.network(patch.x.to(device), features)
        loss = segmentation_loss(logits.float(), patch.labels.to(device), patch.known.to(device))
        state.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(state.network.parameters(), _CLIP)
        state.optimiser.step()
        state.step += 1
        update_average(state.average, state.network, min(_AVERAGE, state.step / (state.step + 10)))
        state.losses.append(round(float(loss.detach()), 5))
        progress(state.step, state.losses[-1])
        if state.step % SAVE_EVERY == 0:
            save(state)
    return state.average.eval()


def segmentation_loss(logits: torch.Tensor, labels: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Cross entropy and soft Dice of the structures that the example outlines.

    logits, labels: (b, s, ...). known: (s,) bool. The Dice of a structure that the patch does not show is left out.
    """
    logits, labels = logits[:, known], labels[:, known]
    if not logits.shape[1]:
        return logits.sum() * 0
    entropy = F.binary_cross_entropy_with_logits(logits, labels)
    axes = tuple(range(2, logits.dim()))
    share = logits.sigmoid()
    both, total = (share * labels).sum(axes), (share + labels).sum(axes)
    shown = labels.sum(axes) > 1
    dice = 1 - (2 * both + 1) / (total + 1)
    return entropy * 5 + (dice * shown).sum() / shown.sum().clamp(min=1)


@torch.no_grad()
def update_average(average: nn.Module, network: nn.Module, keep: float) -> None:
    """Exponential moving average of the weights."""
    for mean, now in zip(average.parameters(), network.parameters(), strict=True):
        mean.lerp_(now, 1 - keep)
    for kept, now in zip(average.buffers(), network.buffers(), strict=True):
        kept.copy_(now)


def _rate(step: int, steps: int) -> float:
    """Linear warm-up, then half a cosine down to a fiftieth."""
    warm = min(1.0, (step + 1) / _WARM_STEPS)
    return _RATE * warm * (0.02 + 0.98 * (1 + math.cos(math.pi * step / steps)) / 2)
