"""Train the network that outlines structures.

The voxels of a few scans are enough training data, so training takes a minute or two on a CPU. The voxels are read from
random patches.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F

from ..errors import CancelCallback, CancelledError
from ..training.loop import OptimiserSpec
from .patches import Patch, PatchSampler, TrainingCrop
from .voxels import VoxelNet, block_means, dilate, pool_axes, read_context

# by hand; losses, not rates, were compared (LOG, Segmentation)
OPTIMISER = OptimiserSpec(3e-3, warm_up=0.0, final=0.01, weight_decay=1e-3, ema=0.99)
_PATCH = 48  # voxels along an axis
# number of patches for training (most, least), voxels per patch
_PATCHES, _LEAST_PATCHES, _ROWS = 96, 8, 5000
_BATCH = 4096  # rows of a step; by hand


def voxel_losses(
    network: VoxelNet,
    examples: Sequence[TrainingCrop],
    steps: int,
    seed: int,
    cancelled: CancelCallback = lambda: False,
) -> Callable[[int], torch.Tensor]:
    """Choose random voxels of the examples. Returns a function that computes the loss of training step 0, 1, ...

    Args:
        network: the network.
        examples: the crops of a group of structures.
        steps: number of training steps.
        seed: random seed; the voxels of a step depend on seed and step number alone.
        cancelled: if it returns True, CancelledError is raised.
    """
    patches = max(_LEAST_PATCHES, min(_PATCHES, steps // 6))
    device = next(network.parameters()).device
    rng = np.random.default_rng([seed, 1])
    rows, labels, outlined = _draw_rows(list(examples), rng, cancelled, patches)

    def loss_of(step: int) -> torch.Tensor:
        """Compute the loss of _BATCH of these voxels."""
        step_rng = np.random.default_rng([seed, 2, step])
        pick = torch.from_numpy(step_rng.integers(len(rows), size=_BATCH))
        torch.manual_seed(seed * 1_000_003 + step)  # for the dropout
        logits = network.logits(rows[pick].float().to(device))
        return voxel_loss(logits, labels[pick].float().to(device), outlined[pick].to(device))

    return loss_of


def voxel_loss(logits: torch.Tensor, labels: torch.Tensor, outlined: torch.Tensor) -> torch.Tensor:
    """Compute cross entropy plus soft Dice loss of n voxels and s structures.

    Without the Dice loss, outlines of thin structures such as the oesophagus are too small. A structure that no voxel
    shows has no Dice loss.

    Args:
        logits: (n, s), result of `VoxelNet.logits`.
        labels: (n, s), how much of each voxel lies in the structure, 0..1.
        outlined: bool (n, s), whether the example outlines the structure; if False, the entry is not used.
    """
    weight = outlined.float()
    losses = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    entropy = (losses * weight).sum() / weight.sum().clamp(min=1)
    share = logits.sigmoid() * weight
    labels = labels * weight
    overlap = (share * labels).sum(0)
    total = (share + labels).sum(0)
    present = labels.sum(0) > 1
    dice = 1 - (2 * overlap + 1) / (total + 1)
    return entropy * 5 + (dice * present).sum() / present.sum().clamp(min=1)


def _draw_rows(
    examples: list[TrainingCrop],
    rng: np.random.Generator,
    cancelled: CancelCallback,
    patches: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return three tensors about n voxels of random patches: the network's input (n, c); the share of the voxel that
    each structure fills (n, s); and (n, s) bool, whether the example outlines the structure."""
    largest = [max(e.crop.shape[axis] for e in examples) for axis in range(3)]
    k, j, i = (min(_PATCH, n + n % 2) for n in largest)  # even, for blocks of 2 x 2 x 2 voxels
    sampler = PatchSampler(examples, (k, j, i), rng)
    rows = []
    labels = []
    outlined = []
    for _ in range(patches):
        if cancelled():
            raise CancelledError(
                "training stopped before the first step; run the same command to start again."
            )
        patch = sampler.draw()
        where = _choose_voxels(patch, rng)
        blocks = block_means(patch.x, patch.labels.shape[1])
        rows.append(read_context(patch.x, patch.features, blocks, where).half())
        k, j, i = where.T
        labels.append(patch.labels[0, :, k, j, i].T.half())
        outlined.append(patch.outlined[None].expand(len(where), -1))
    return torch.cat(rows), torch.cat(labels), torch.cat(outlined)


def _choose_voxels(patch: Patch, rng: np.random.Generator) -> torch.Tensor:
    """Return voxels (n, 3), k, j, i: half at borders of structures, a third near the first guess, a sixth anywhere."""
    share = pool_axes(F.avg_pool3d, patch.labels, 5)
    border = (share > 0.02) & (share < 0.98)
    guess = patch.x[:, -patch.labels.shape[1] :]  # the last channels of the input
    in_reach = dilate(guess)[0, 0] > 0.02
    chosen = [torch.from_numpy(rng.integers(0, patch.x.shape[2:], size=(_ROWS // 6, 3)))]
    present = [row for row in range(border.shape[1]) if border[0, row].any()]
    # (where voxels are drawn, how many)
    masks = [(in_reach, _ROWS // 3)]
    masks += [(border[0, row], _ROWS // 2 // len(present)) for row in present]
    for mask, count in masks:
        places = torch.nonzero(mask)
        if len(places):
            chosen.append(places[torch.from_numpy(rng.integers(len(places), size=count))])
    return torch.cat(chosen)
