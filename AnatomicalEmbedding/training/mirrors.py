"""Train the network that recognises mirrored scans.

The network's output changes its sign if a scan is mirrored. So scans with correct orientation are enough for training.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..embedding.models.mirror_network import STRIDE, MirrorNetwork
from ..embedding.orientation import FORMAT_VERSION, METADATA_KEY
from ..embedding.tensor_files import write_tensor_file
from ..errors import WeightsError
from .loop import OptimiserSpec, TrainingLoop

_WIDTHS = (16, 32, 64)  # channels; by hand, not tuned
_BATCH = 8  # parts of scans in a step; by hand
# by hand, not tuned; a faster rate did not help (LOG, Orientation and odd scans)
_OPTIMISER = OptimiserSpec(2e-3, final=0.01, weight_decay=3e-2, gradient_clip=5.0)
# of left and right, front and back, head and feet: the first is the hardest
_IMPORTANCE = (1.0, 0.5, 0.5)
_LEAST_LAYERS = 5  # least number of layers of cells along the body in a part of a scan


def train_mirror_networks(
    scans: Sequence[torch.Tensor],
    shares: Sequence[float],
    steps: int,
    seeds: Sequence[int],
    report: Callable[[int, float], None] = lambda step, loss: None,
) -> MirrorNetwork:
    """Train one member for each seed, and join the members to one network.

    Args:
        scans: (3, k, j, i) each, results of `orientation.in_cells`.
        shares: how often each scan is chosen, relative to the others.
        steps: number of steps for each member.
        seeds: seed of each member.
        report: called with (step, loss) after each step.
    """
    network = MirrorNetwork(_WIDTHS, len(seeds))
    for number, seed in enumerate(seeds):
        network.members[number] = _train_member(scans, shares, steps, seed, report)
    return network.eval()


def write_mirror_network(network: MirrorNetwork, path: Path) -> None:
    """Write a file like Resources/Orientation/ct.safetensors. Raises WeightsError if this is not possible."""
    members = len(network.members)
    facts = {"format_version": FORMAT_VERSION, "widths": _WIDTHS, "members": members}
    write_tensor_file(path, network.state_dict(), {METADATA_KEY: json.dumps(facts)}, WeightsError)


def _train_member(
    scans: Sequence[torch.Tensor],
    shares: Sequence[float],
    steps: int,
    seed: int,
    report: Callable[[int, float], None],
) -> nn.Module:
    """Train one member. For the arguments see `train_mirror_networks`."""
    torch.manual_seed(seed)
    network = MirrorNetwork(_WIDTHS)
    for layer in network.modules():
        # the usual start is so weak that hundreds of steps pass without progress
        if isinstance(layer, nn.Conv3d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    chances = np.array(shares) / np.sum(shares)
    importance = torch.tensor(_IMPORTANCE)

    def loss_of(number: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, number])
        chosen = rng.choice(len(scans), _BATCH, p=chances)
        log_odds = network(_batch([_vary(scans[n].float(), rng) for n in chosen], rng))
        return F.softplus(-log_odds).mean(0) @ importance

    loop = TrainingLoop(network, _OPTIMISER, steps)
    loop.run(loss_of, progress=lambda done: report(done.step, done.loss))
    return network.eval().members[0]


def _batch(scans: Sequence[torch.Tensor], rng: np.random.Generator) -> torch.Tensor:
    """Put each scan in the middle of air. Returns (b, 3, k, j, i)."""
    largest = np.max([scan.shape[1:] for scan in scans], axis=0)
    # multiples of STRIDE, with at least STRIDE cells of air
    size = (-(-largest // STRIDE) + 1) * STRIDE
    batch = torch.zeros(len(scans), 3, *size)
    for part, scan in zip(batch, scans, strict=True):
        shape = np.array(scan.shape[1:])
        k, j, i = (size - shape + rng.integers(0, 2, 3)) // 2
        part[:, k : k + shape[0], j : j + shape[1], i : i + shape[2]] = scan
    return batch


def _vary(scan: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Return a part of a scan, turned and stretched a little, with other noise and contrast."""
    layers = scan.shape[1]
    if rng.random() < 0.6 and layers > _LEAST_LAYERS:
        length = int(rng.integers(_LEAST_LAYERS, layers + 1))
        scan = scan.narrow(1, int(rng.integers(0, layers - length + 1)), length)
    if rng.random() < 0.15:  # a field of view that cuts the body
        axis = int(rng.integers(2, 4))
        length = int(scan.shape[axis] * rng.uniform(0.75, 1))
        scan = scan.narrow(axis, int(rng.integers(0, scan.shape[axis] - length + 1)), length)
    if rng.random() < 0.8:
        affine = np.zeros((3, 4))
        turn = np.eye(3) + rng.normal(0, 0.06, (3, 3))
        affine[:, :3] = turn * np.exp(rng.normal(0, 0.1, 3))[:, None]
        affine[:, 3] = rng.normal(0, 0.05, 3)
        grid = F.affine_grid(
            torch.from_numpy(affine[None]).float(), [1, *scan.shape], align_corners=False
        )
        scan = F.grid_sample(scan[None], grid, align_corners=False)[0]
    mean, spread, body = scan
    mean = mean * float(np.exp(rng.normal(0, 0.05)))
    mean = mean + float(rng.uniform(0, 0.03)) * torch.randn_like(mean)
    if rng.random() < 0.5:
        mean = mean + float(rng.normal(0, 0.3)) * mean * (1 - mean) * body
    return torch.stack([mean, spread * float(np.exp(rng.normal(0, 0.4))), body])
