"""The network that outlines structures. It classifies single voxels near the labels carried over from examples.

The network reads the image around the voxel, the voxel's body coordinate, the carried labels and the descriptor of the
map. Single voxels of a few scans are enough training data, so training takes less than a minute on a CPU.
"""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..embedding.device import fast_dtype
from ..embedding.working_grid import AIR_HU
from ..errors import CancelledError
from ..training.loop import OptimiserSpec
from .grids import UNIT_MM, Crop
from .patches import INPUTS, WINDOWS, Patch, PatchSampler, TrainingCrop, network_input, read_features

OPTIMISER = OptimiserSpec(3e-3, warm_up=0.0, final=0.01, weight_decay=1e-3, ema=0.99)
_PATCH = 48  # voxels along an axis
_HIDDEN = 96
_DROP = 0.1
_TRUST = 6.0  # difference of the start logits for a guess of 0 and of 1
_NEVER = -10.0  # logit of voxels far from every guess
_REACH = 6  # a structure is expected within this many voxels of the guess
_BLOCKS = (3, 6, 14)  # approximate sides, in voxels, of the blocks whose means are read
_NEAR = [s for s in product((-1, 0, 1), repeat=3) if any(s)]
_FAR = [tuple(r * int(a == axis) for a in range(3)) for r in (-5, -2, 2, 5) for axis in range(3)]
_PATCHES, _LEAST_PATCHES, _ROWS = 96, 8, 5000  # patches drawn for training (usual, least), voxels per patch
_BATCH = 4096
_CHUNK = 65536
_MOST_CHANNELS = 4096
# Changes of the input that should not change the answer: HU added in soft tissue, shift of the coordinates in mm.
CHANGES = ((0.0, (0.0, 0.0, 0.0)), (15.0, (4.0, -4.0, 4.0)), (-15.0, (-4.0, 4.0, -4.0)))


class VoxelNet(nn.Module):
    """The network. It computes one logit per structure for each voxel.

    structures: number of structures. descriptors: channels of the map's local descriptor; 0 if the weights have none.
    Raises ValueError if a number is out of range.
    """

    def __init__(self, structures: int, descriptors: int):
        super().__init__()
        if not 1 <= structures <= _MOST_CHANNELS or not 0 <= descriptors <= _MOST_CHANNELS:
            raise ValueError("a network cannot be of these sizes")
        self.structures, self.descriptors = structures, descriptors
        around = len(_NEAR) + 2 * len(_FAR) + len(_BLOCKS) * (len(WINDOWS) + structures)
        channels = INPUTS + structures + around + descriptors
        self.scale = nn.BatchNorm1d(channels)
        self.body = nn.Sequential(
            nn.Linear(channels, _HIDDEN), nn.ReLU(), nn.Dropout(_DROP), nn.Linear(_HIDDEN, _HIDDEN), nn.ReLU(),
            nn.Dropout(_DROP), nn.Linear(_HIDDEN, _HIDDEN), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(_HIDDEN, structures)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def logits(self, rows: torch.Tensor) -> torch.Tensor:
        """Compute logits (n, structures) from rows (n, c) of `read_context`."""
        guess = _TRUST * (rows[:, INPUTS : INPUTS + self.structures] - 0.5)
        return self.head(self.body(self.scale(rows))) + guess

    def forward(self, x: torch.Tensor, features: torch.Tensor | None = None) -> torch.Tensor:
        """Compute logits (1, structures, k, j, i) of an image x (1, INPUTS + structures, k, j, i) of even sizes."""
        near = _dilate(x[:, -self.structures :], _REACH) > 0.02
        if not near.any():
            near = torch.ones_like(near)
        where = torch.nonzero(near[0, 0])
        blocks = block_means(x, self.structures)
        parts = [self.logits(read_context(x, features, blocks, part)) for part in where.split(_CHUNK)]
        result = torch.full((1, self.structures, *x.shape[2:]), _NEVER, device=x.device)
        k, j, i = where.T
        result[0, :, k, j, i] = torch.cat(parts).T
        return result


def block_means(x: torch.Tensor, structures: int) -> list[torch.Tensor]:
    """Compute the means of grey values and guess in blocks around every voxel, one tensor per size of `_BLOCKS`.

    The smallest blocks give (1, c, k, j, i). The larger blocks have half the resolution, which costs an eighth.
    """
    read = torch.cat([x[:, : len(WINDOWS)], x[:, x.shape[1] - structures :]], dim=1)
    halved = F.avg_pool3d(read, 2)
    large = [_pool_axes(F.avg_pool3d, halved, size // 2, count_include_pad=False) for size in _BLOCKS[1:]]
    return [_pool_axes(F.avg_pool3d, read, _BLOCKS[0], count_include_pad=False), *large]


def _dilate(x: torch.Tensor, reach: int) -> torch.Tensor:
    """Return (b, 1, k, j, i): the largest value of all channels within `reach` voxels along each axis."""
    return _pool_axes(F.max_pool3d, x.amax(1, keepdim=True), 2 * reach + 1)


def _pool_axes(pool: Callable[..., torch.Tensor], x: torch.Tensor, size: int, **options: bool) -> torch.Tensor:
    """Pool over blocks, one axis after another. The result equals 3-D pooling, with far less work."""
    for axis in range(3):
        window, half = [1, 1, 1], [0, 0, 0]
        window[axis], half[axis] = size, size // 2
        x = pool(x, window, 1, half, **options)
    return x


def read_context(
    x: torch.Tensor, features: torch.Tensor | None, blocks: list[torch.Tensor], where: torch.Tensor
) -> torch.Tensor:
    """Collect (n, c) input, neighbours, block means and descriptor at voxels `where` (n, 3), order k, j, i."""
    last = torch.tensor(x.shape[2:], device=x.device) - 1

    def at(values: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        k, j, i = torch.minimum(place.clamp(min=0), last).T
        return values[0, :, k, j, i].T

    parts = [at(x, where)]
    parts += [at(x[:, :1], where + torch.tensor(step, device=x.device)) for step in _NEAR]
    parts += [at(x[:, :2], where + torch.tensor(step, device=x.device)) for step in _FAR]
    parts.append(at(blocks[0], where))
    k, j, i = (where // 2).T
    parts += [block[0, :, k, j, i].T for block in (*blocks[1:], *([] if features is None else [features]))]
    return torch.cat(parts, dim=1)


def voxel_losses(
    network: VoxelNet,
    examples: Sequence[TrainingCrop],
    steps: int,
    seed: int,
    cancelled: Callable[[], bool] = lambda: False,
) -> Callable[[int], torch.Tensor]:
    """Draw voxels of the examples; return a function that computes the loss of a step from its number.

    The loss depends on (seed, step) alone. Raises CancelledError once `cancelled` returns True.
    """
    patches = max(_LEAST_PATCHES, min(_PATCHES, steps // 6))
    device = next(network.parameters()).device
    rows, labels, known = _draw_rows(list(examples), np.random.default_rng([seed, 1]), cancelled, patches)

    def loss_of(step: int) -> torch.Tensor:
        pick = torch.from_numpy(np.random.default_rng([seed, 2, step]).integers(len(rows), size=_BATCH))
        torch.manual_seed(seed * 1_000_003 + step)  # for the dropout
        logits = network.logits(rows[pick].float().to(device))
        return voxel_loss(logits, labels[pick].float().to(device), known[pick].to(device))

    return loss_of


def voxel_loss(logits: torch.Tensor, labels: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Compute cross entropy plus soft Dice loss of n voxels and s structures.

    logits, labels, known: (n, s). Entries count only if the voxel's example outlines the structure (known). Without the
    Dice loss, outlines of thin structures such as the oesophagus are too small. A structure that no voxel shows has no
    Dice loss.
    """
    weight = known.float()
    each = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    entropy = (each * weight).sum() / weight.sum().clamp(min=1)
    share, labels = logits.sigmoid() * weight, labels * weight
    both, total = (share * labels).sum(0), (share + labels).sum(0)
    shown = labels.sum(0) > 1
    dice = 1 - (2 * both + 1) / (total + 1)
    return entropy * 5 + (dice * shown).sum() / shown.sum().clamp(min=1)


def _draw_rows(
    examples: list[TrainingCrop], rng: np.random.Generator, cancelled: Callable[[], bool], patches: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw voxels of random patches; returns rows (n, c) float16, labels (n, s) float16 and known (n, s) bool."""
    largest = [max(e.crop.shape[axis] for e in examples) for axis in range(3)]
    k, j, i = (min(_PATCH, -(-n // 2) * 2) for n in largest)
    sampler = PatchSampler(examples, (k, j, i), rng)
    rows, labels, known = [], [], []
    for _ in range(patches):
        if cancelled():
            raise CancelledError("stopped before the first step; run the same command to continue.")
        patch = sampler.draw()
        where = _choose_voxels(patch, rng)
        blocks = block_means(patch.x, patch.labels.shape[1])
        rows.append(read_context(patch.x, patch.features, blocks, where).half())
        k, j, i = where.T
        labels.append(patch.labels[0, :, k, j, i].T.half())
        known.append(patch.known[None].expand(len(where), -1))
    return torch.cat(rows), torch.cat(labels), torch.cat(known)


def _choose_voxels(patch: Patch, rng: np.random.Generator) -> torch.Tensor:
    """Choose voxels (n, 3), order k, j, i, of a patch: half near borders of structures, a third near the guess."""
    shown = _pool_axes(F.avg_pool3d, patch.labels, 5)
    border = (shown > 0.02) & (shown < 0.98)
    guess = patch.x[:, -patch.labels.shape[1] :]
    near = _dilate(guess, _REACH)[0, 0] > 0.02
    chosen = [torch.from_numpy(rng.integers(0, patch.x.shape[2:], size=(_ROWS // 6, 3)))]
    present = [row for row in range(border.shape[1]) if border[0, row].any()]
    masks = [(near, _ROWS // 3)] + [(border[0, row], _ROWS // 2 // len(present)) for row in present]
    for mask, count in masks:
        places = torch.nonzero(mask)
        if len(places):
            chosen.append(places[torch.from_numpy(rng.integers(len(places), size=count))])
    return torch.cat(chosen)


@torch.no_grad()
def predict(network: VoxelNet, crop: Crop, guess: torch.Tensor) -> torch.Tensor:
    """Compute the probability of each structure in each voxel of a crop, for each of CHANGES: (changes, s, k, j, i).

    guess: (s, k, j, i) mean of the labels carried over from the examples, 0..1.
    """
    device = next(network.parameters()).device
    k, j, i = crop.shape
    pad = [0, i % 2, 0, j % 2, 0, k % 2]  # to even sizes, as block means and descriptors have half the resolution
    hu, guess = F.pad(crop.hu, pad, value=AIR_HU), F.pad(guess, pad)
    coordinate = F.pad(crop.coordinate[None], pad, mode="replicate")[0]
    features = None
    if crop.features is not None:
        axes = [2 * torch.arange(n // 2) + 0.5 for n in hu.shape]
        features = read_features(crop, torch.stack(torch.meshgrid(*axes, indexing="ij")[::-1], dim=-1)).to(device)
    soft = (1 - ((hu - 50) / 250).abs()).clamp(0, 1)
    found = torch.empty(len(CHANGES), network.structures, *hu.shape)
    for change, (shift_hu, moved) in enumerate(CHANGES):
        place = coordinate + torch.tensor(moved)[:, None, None, None] / UNIT_MM
        x = network_input(hu + soft * shift_hu, place, guess).to(device)
        # bfloat16 if the device has instructions for it: more than twice as fast
        with torch.autocast(device.type, torch.bfloat16, enabled=fast_dtype(device) == torch.bfloat16):
            found[change] = network(x, features).float().sigmoid()[0].cpu()
    return found[:, :, :k, :j, :i]
