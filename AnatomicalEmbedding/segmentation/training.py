"""Training a group's network on patches of the examples: cross entropy and Dice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..training.loop import LoopSettings
from .network import STEP, UNet, precision
from .patches import PatchSampler, TrainingCrop, patch_size

PATCH = 40  # voxels along an axis
SETTINGS = LoopSettings(4e-3, warm_up=0.05, final=0.02, weight_decay=1e-3, clip=1.0, average=0.98)


def ready(network: nn.Module, device: torch.device) -> nn.Module:
    """On its device, in the memory layout in which it computes fastest."""
    if isinstance(network, UNet) and network.spec.dimensions == 3:
        network = network.to(memory_format=torch.channels_last_3d)
    return network.to(device)


def patch_losses(network: UNet, examples: Sequence[TrainingCrop], seed: int) -> Callable[[int], torch.Tensor]:
    """The loss of a step by its number, on a patch that depends on (seed, step) alone."""
    device = next(network.parameters()).device
    largest = torch.Size(max(e.crop.shape[axis] for e in examples) for axis in range(3))
    sampler = PatchSampler(list(examples), patch_size(largest, PATCH, STEP), np.random.default_rng(seed))

    def loss_of(step: int) -> torch.Tensor:
        sampler.rng = np.random.default_rng([seed, step])
        patch = sampler.draw()
        features = None if patch.features is None else patch.features.to(device)
        with precision(device):
            logits = network(patch.x.to(device), features)
        return segmentation_loss(logits.float(), patch.labels.to(device), patch.known.to(device))

    return loss_of


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
