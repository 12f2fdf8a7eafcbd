"""Training of the network that finds mirrored scans (`embedding/models/mirror_network`).

No labels are needed: every scan that is stored the right way round is an example. The answers for a scan and for its
mirror image are opposite by construction, so that the scan alone is enough.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.models.mirror_network import STRIDE, MirrorNetwork
from .loop import OptimiserSpec, TrainingLoop

_BATCH = 8
_OPTIMISER = OptimiserSpec(2e-3, final=0.01, weight_decay=3e-2, gradient_clip=5.0)
_IMPORTANCE = (1.0, 0.5, 0.5)  # of left and right, front and back, head and feet: the first is the hardest
_LEAST_LAYERS = 5  # of cells along the body that a part of a scan has


def train_mirror_network(
    scans: Sequence[torch.Tensor],
    shares: Sequence[float],
    steps: int,
    seed: int = 0,
    report: Callable[[int, float], None] = lambda step, loss: None,
) -> MirrorNetwork:
    """Train one network. scans: (3, k, j, i) each, of `orientation.in_cells`. shares: how often each is drawn.

    report: called with (step, loss).
    """
    torch.manual_seed(seed)
    network = MirrorNetwork()
    chances = np.array(shares) / np.sum(shares)
    importance = torch.tensor(_IMPORTANCE)

    def loss_of(number: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, number])
        chosen = rng.choice(len(scans), _BATCH, p=chances)
        log_odds = network(_batch([_vary(scans[n].float(), rng) for n in chosen], rng))
        return F.softplus(-log_odds).mean(0) @ importance

    loop = TrainingLoop(network, _OPTIMISER, steps)
    loop.run(loss_of, progress=lambda done: report(done.step, done.loss))
    return network.eval()


def _batch(scans: Sequence[torch.Tensor], rng: np.random.Generator) -> torch.Tensor:
    """(b, 3, k, j, i) scans in the middle of air."""
    size = [(-(-max(n) // STRIDE) + 1) * STRIDE for n in zip(*(scan.shape[1:] for scan in scans), strict=True)]
    batch = torch.zeros(len(scans), 3, *size)
    for place, scan in zip(batch, scans, strict=True):
        rounded = rng.integers(0, 2, 3)
        low = [(whole - n + up) // 2 for whole, n, up in zip(size, scan.shape[1:], rounded, strict=True)]
        place[:, *(slice(a, a + n) for a, n in zip(low, scan.shape[1:], strict=True))] = scan
    return batch


def _vary(scan: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """A part of a scan, turned and stretched a little, of other noise and contrast."""
    layers = scan.shape[1]
    if rng.random() < 0.6 and layers > _LEAST_LAYERS:
        kept = int(rng.integers(_LEAST_LAYERS, layers + 1))
        scan = scan.narrow(1, int(rng.integers(0, layers - kept + 1)), kept)
    if rng.random() < 0.15:  # a field of view that cuts the body
        axis = int(rng.integers(2, 4))
        kept = int(scan.shape[axis] * rng.uniform(0.75, 1))
        scan = scan.narrow(axis, int(rng.integers(0, scan.shape[axis] - kept + 1)), kept)
    if rng.random() < 0.8:
        affine = np.zeros((3, 4))
        affine[:, :3] = (np.eye(3) + rng.normal(0, 0.06, (3, 3))) * np.exp(rng.normal(0, 0.1, 3))[:, None]
        affine[:, 3] = rng.normal(0, 0.05, 3)
        grid = F.affine_grid(torch.from_numpy(affine[None]).float(), [1, *scan.shape], align_corners=False)
        scan = F.grid_sample(scan[None], grid, align_corners=False)[0]
    mean, spread, body = scan
    mean = mean * float(np.exp(rng.normal(0, 0.05))) + float(rng.uniform(0, 0.03)) * torch.randn_like(mean)
    if rng.random() < 0.5:
        mean = mean + float(rng.normal(0, 0.3)) * mean * (1 - mean) * body
    return torch.stack([mean, spread * float(np.exp(rng.normal(0, 0.4))), body])
