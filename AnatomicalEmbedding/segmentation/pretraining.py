"""Starts for the network: contrast of places (PCL, Zeng 2021), by slice index as in the paper, or by body position.

The paper's positives are slices whose relative index m / n differs by less than a threshold. That is true only where
all scans show the same part of the body. Here positives may also be graded by the distance in mm of the common body,
which holds for scans cut anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..training.loop import LoopSettings, TrainingLoop
from .grids import UNIT_MM
from .network import UNet, UNetSpec, precision
from .patches import PatchSampler, TrainingCrop

PAPER, BODY = "pcl-paper", "pcl-body"
TEMPERATURE = 0.1  # of the paper
THRESHOLD = 0.1  # of the paper, in shares of a scan's height
NEAR_MM = 15.0  # distance at which a pair counts exp(-1/2) as a positive
_CHANNELS = 64
_STEPS = 60
_BATCH = 6  # places a step, each seen twice
_PATCH = (32, 32, 32)
_RATE = 1e-3
_LEAST = 1e-3  # weight of a pair that is no positive


def position_contrast(z: torch.Tensor, weights: torch.Tensor, temperature: float = TEMPERATURE) -> torch.Tensor:
    """Multi-positive contrast (Zeng 2021, equation 2; Khosla 2020), with graded positives; mean over samples.

    z: (n, c) vectors. weights: (n, n) how much j is a positive of i, 0..1; the diagonal is ignored. A sample without
    positives counts 0.
    """
    n = len(z)
    unit = F.normalize(z, dim=1)
    itself = torch.eye(n, dtype=torch.bool, device=z.device)
    likeness = (unit @ unit.T / temperature).masked_fill(itself, float("-inf"))
    log_share = (likeness - torch.logsumexp(likeness, dim=1, keepdim=True)).masked_fill(itself, 0.0)
    positive = weights.masked_fill(itself, 0.0)
    return -((positive * log_share).sum(1) / positive.sum(1).clamp(min=1e-6)).mean()


def by_slice(position: torch.Tensor, threshold: float = THRESHOLD) -> torch.Tensor:
    """(n, n) 1 where relative slice positions (n,), 0..1, differ by less than the threshold (Zeng 2021, 3.2)."""
    return ((position[:, None] - position[None]).abs() < threshold).float()


def by_body(place_mm: torch.Tensor, near_mm: float = NEAR_MM) -> torch.Tensor:
    """(n, n) how near two places (n, d) in mm of the common body are: exp(-d^2 / 2 near^2), 0 where it is tiny."""
    weights = torch.exp(-torch.cdist(place_mm, place_mm).square() / (2 * near_mm**2))
    return torch.where(weights < _LEAST, torch.zeros_like(weights), weights)


class Projected(nn.Module):
    """The encoder of a U-Net with a projection of its pooled deepest level, which is dropped after pre-training."""

    def __init__(self, network: UNet, channels: int = _CHANNELS):
        super().__init__()
        self.network = network
        deepest = network.spec.widths[-1]
        self.project = nn.Sequential(nn.Linear(deepest, deepest), nn.ReLU(), nn.Linear(deepest, channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.project(self.network.encode(x)[-1].flatten(2).mean(2).float())


def pretrain(
    spec: UNetSpec,
    examples: Sequence[TrainingCrop],
    kind: str,
    seed: int,
    device: torch.device,
    progress: Callable[[float], None] = lambda share: None,
) -> dict[str, torch.Tensor]:
    """Weights of an encoder for `spec` that tells places of the body apart, learned from the examples' images alone.

    kind: PAPER or BODY. The coordinates and the guess among the inputs are zero, so that the image must tell.
    """
    torch.manual_seed(seed)
    model = Projected(UNet(spec)).to(device).train()
    sampler = PatchSampler(list(examples), _PATCH, np.random.default_rng(seed))

    def loss_of(_: int) -> torch.Tensor:
        x, places, slices = [], [], []
        for _ in range(_BATCH):
            pair, place, height = sampler.draw_twice()
            x += pair
            places += [place] * 2
            slices += [height] * 2
        with precision(device):
            z = model(torch.cat(x).to(device))
        weights = by_slice(torch.tensor(slices)) if kind == PAPER else by_body(torch.stack(places) * UNIT_MM)
        return position_contrast(z, weights.to(device))

    loop = TrainingLoop(model, LoopSettings(_RATE, warm_up=0.0, final=1.0), _STEPS)
    loop.run(loss_of, progress=lambda done: progress(done.step / _STEPS))
    return model.network.encoder.state_dict()
