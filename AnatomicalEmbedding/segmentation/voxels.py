"""The network that outlines structures, and the patches on which it is trained.

The labels of the examples are carried over to a new scan; these labels are called the guess. The network classifies
each voxel near the guess. It reads the image around the voxel, the voxel's body coordinate, the guess and the
descriptor of the map. The voxels of a few scans are enough training data, so training takes a minute or two on a
CPU. In training, voxels are read from random patches. The patches are turned, scaled and bent, and their grey values
and coordinates are changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..embedding.device import fast_dtype, mixed_precision
from ..embedding.working_grid import AIR_HU
from ..errors import CancelledError
from ..scan.geometry import rotations
from ..training.loop import OptimiserSpec
from .grids import UNIT_MM, Crop

WINDOWS = ((-150.0, 250.0), (-1000.0, 200.0), (50.0, 1250.0))  # HU: soft tissue, lung, bone; one channel each
INPUTS = len(WINDOWS) + 3
_TURN_DEG = 12.0
_SCALE = 0.18
_BEND_MM = 5.0
_KNOTS = 4  # control points of the bending along each axis of a patch
_SHIFT_HU, _CONTRAST, _NOISE_HU = 25.0, 0.2, 25.0
_MISPLACED_MM = 7.0  # standard deviation of the shift of a patch's coordinates
_DISPLACED_MM = (2.0, 8.0)  # range of the displacement of a guess that is made from the patch's own labels
_CARRIED, _NO_GUESS = 0.6, 0.05  # fraction of patches with a guess from other examples, and without any guess
_ON_STRUCTURE = 0.8  # share of patches whose middle lies in a structure


@dataclass(frozen=True, eq=False)
class TrainingCrop:
    """The crop of an example for a group of s structures.

    labels: (s, k, j, i) float16, how much of each voxel lies in the structure, 0..1. known: (s,) bool, whether the
    example outlines the structure. carried: (s, k, j, i) float16, labels carried from other examples, or None.
    """

    crop: Crop
    labels: torch.Tensor
    known: torch.Tensor
    carried: torch.Tensor | None = None


@dataclass(frozen=True, eq=False)
class Patch:
    """A patch for training.

    x: (1, INPUTS + s, k, j, i), input of the network. features: (1, c, k/2, j/2, i/2) descriptors, or None.
    labels: (1, s, k, j, i), 0..1, of s structures. known: (s,) bool, whether the example outlines the structure.
    """

    x: torch.Tensor
    features: torch.Tensor | None
    labels: torch.Tensor
    known: torch.Tensor


def network_input(hu: torch.Tensor, coordinate: torch.Tensor, guess: torch.Tensor) -> torch.Tensor:
    """Make the input (1, INPUTS + s, k, j, i) from HU (k, j, i), coordinates (3, k, j, i), first guess (s, k, j, i)."""
    grey = [((hu - low) / (high - low)).clamp(0, 1) for low, high in WINDOWS]
    return torch.cat([torch.stack(grey), coordinate, guess])[None]


class PatchSampler:
    """Makes random patches of one size from the examples of a group."""

    def __init__(self, examples: list[TrainingCrop], size: tuple[int, int, int], rng: np.random.Generator):
        self._examples, self._size, self._rng = examples, size, rng
        self._sources = [torch.cat([e.crop.hu[None], e.crop.coordinate, e.labels.float()])[None] for e in examples]
        self._places = [[torch.nonzero(label > 0.5).numpy() for label in e.labels] for e in examples]

    def draw(self) -> Patch:
        n = int(self._rng.integers(len(self._examples)))
        example = self._examples[n]
        where = self._grid(self._centre(n), example.crop.spacing_mm)  # (k, j, i, 3) voxels, axes i, j, k
        source = self._sources[n]
        values = F.grid_sample(source, _normalised(where, source.shape), padding_mode="border", align_corners=False)[0]
        size = torch.tensor(example.crop.shape[::-1])
        outside = ((where < -0.5) | (where > size - 0.5)).any(-1)
        hu, coordinate, labels = values[0], values[1:4], values[4:]
        hu = self._other_grey(torch.where(outside, torch.tensor(AIR_HU), hu))
        labels = torch.where(outside, torch.tensor(0.0), labels)
        features = self._features(example.crop, where)
        guess = self._guess(n, where)
        shift = torch.from_numpy(self._rng.normal(0, _MISPLACED_MM / UNIT_MM, 3)).float()
        scale = torch.from_numpy(np.exp(self._rng.normal(0, 0.04, 3))).float()
        coordinate = coordinate * scale[:, None, None, None] + shift[:, None, None, None]
        return Patch(network_input(hu, coordinate, guess), features, labels[None], example.known)

    def _guess(self, n: int, where: torch.Tensor) -> torch.Tensor:
        """Return a random first guess (s, k, j, i) for a patch of example n: labels that registration carried to the
        example, its own labels with a random deformation, or zeros. where: positions of the patch's voxels in the
        example."""
        example, rng = self._examples[n], self._rng
        if rng.random() < _NO_GUESS:
            return torch.zeros(len(example.labels), *self._size)
        halved = F.avg_pool3d(where.movedim(-1, 0)[None], 2)[0].movedim(0, -1)
        if example.carried is not None and rng.random() < _CARRIED:
            source = example.carried.float()[None]
        else:
            source = self._sources[n][:, 4:]
            size = float(rng.uniform(*_DISPLACED_MM)) / example.crop.spacing_mm
            knots = torch.from_numpy(rng.normal(0, size, (1, 3, _KNOTS, _KNOTS, _KNOTS))).float()
            knots = knots + torch.from_numpy(rng.normal(0, size / 2, (1, 3, 1, 1, 1))).float()
            bent = F.interpolate(knots, halved.shape[:3], mode="trilinear", align_corners=True)[0].movedim(0, -1)
            halved = halved + bent
        read = F.grid_sample(source, _normalised(halved, source.shape), padding_mode="zeros", align_corners=False)
        if rng.random() < 0.5:  # smooth, like the mean of labels from several examples
            read = F.avg_pool3d(read, 3, 1, 1)
        return F.interpolate(read, self._size, mode="trilinear", align_corners=False)[0]

    def _centre(self, n: int) -> np.ndarray:
        """Return the middle (3,) i, j, k of a random patch in example number `n`. Many patches lie near a structure."""
        crop, held = self._examples[n].crop, [p for p in self._places[n] if len(p)]
        shape, size = np.array(crop.shape), np.array(self._size)
        if held and self._rng.random() < _ON_STRUCTURE:
            of = held[self._rng.integers(len(held))]
            centre = of[self._rng.integers(len(of))] + self._rng.normal(0, size / 8)
        else:
            centre = self._rng.uniform(np.minimum(size / 2, shape / 2), np.maximum(shape - size / 2, shape / 2))
        low, high = np.minimum(size / 2, shape / 2), np.maximum(shape - size / 2, shape / 2)
        return np.clip(centre, low, high)[::-1] - 0.5

    def _grid(self, centre: np.ndarray, spacing_mm: float) -> torch.Tensor:
        rng = self._rng
        axes = [torch.arange(n) - (n - 1) / 2 for n in self._size]
        k, j, i = torch.meshgrid(*axes, indexing="ij")
        offset = torch.stack([i, j, k], dim=-1).float()
        about_i, about_j, about_k = rotations(np.radians(rng.normal(0, _TURN_DEG / 2, 3)))
        matrix = (
            about_i @ about_j @ about_k @ np.diag(np.exp(rng.uniform(-_SCALE, _SCALE) + rng.normal(0, _SCALE / 4, 3)))
        )
        knots = torch.from_numpy(rng.normal(0, _BEND_MM / spacing_mm, (1, 3, _KNOTS, _KNOTS, _KNOTS))).float()
        bent = F.interpolate(knots, self._size, mode="trilinear", align_corners=True)[0].movedim(0, -1)
        return offset @ torch.from_numpy(matrix.T).float() + bent + torch.from_numpy(centre.copy()).float()

    def _other_grey(self, hu: torch.Tensor) -> torch.Tensor:
        rng = self._rng
        if rng.random() < 0.3:  # like a smoother reconstruction kernel
            hu = F.avg_pool3d(hu[None, None], 3, 1, 1, count_include_pad=False)[0, 0].lerp(hu, float(rng.random()))
        contrast = float(np.exp(rng.normal(0, _CONTRAST / 2)))
        soft = (1 - ((hu - 50) / 250).abs()).clamp(0, 1)  # contrast medium changes soft tissue, not air
        hu = hu + soft * ((contrast - 1) * (hu - 50) + float(rng.normal(0, _SHIFT_HU)))
        noise = torch.from_numpy(rng.standard_normal(hu.shape, dtype=np.float32))
        return hu + noise * float(rng.uniform(0, _NOISE_HU))

    def _features(self, crop: Crop, where: torch.Tensor) -> torch.Tensor | None:
        if crop.features is None:
            return None
        halved = F.avg_pool3d(where.movedim(-1, 0)[None], 2)[0].movedim(0, -1)
        read = read_features(crop, halved)
        keep = torch.from_numpy(self._rng.random(read.shape[1]) > 0.1).float()
        noise = torch.from_numpy(self._rng.normal(0, 0.05, read.shape)).float()
        return read * keep[None, :, None, None, None] + noise


def read_features(crop: Crop, where: torch.Tensor) -> torch.Tensor:
    """Interpolate a crop's descriptors at a grid of places. Returns (1, c, k, j, i): c numbers for each place.
    where: (k, j, i, 3), for each place its coordinates i, j, k in voxels of the crop."""
    ras = where * crop.spacing_mm + torch.from_numpy(crop.origin_ras).float()
    cells = (ras - torch.from_numpy(crop.feature_low).float()) / torch.from_numpy(crop.feature_mm).float()
    source = crop.features[None]
    return F.grid_sample(source, _normalised(cells, source.shape), padding_mode="border", align_corners=False)


def _normalised(where: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Convert positions (k, j, i, 3), in voxels i, j, k of an array of this shape, to F.grid_sample's coordinates."""
    return ((where + 0.5) * 2 / torch.tensor(shape[:1:-1]) - 1)[None]


OPTIMISER = OptimiserSpec(3e-3, warm_up=0.0, final=0.01, weight_decay=1e-3, ema=0.99)
_PATCH = 48  # voxels along an axis
_HIDDEN = 96
_DROP = 0.1
_TRUST = 6.0  # before training, logits of voxels with guess 1 are higher by this value than with guess 0
_NEVER = -10.0  # logit of voxels far from every guess
_REACH = 6  # voxels are classified within this distance, in voxels, of the guess
_BLOCKS = (3, 6, 14)  # approximate sides, in voxels, of the blocks whose means are read
_NEAR = [s for s in product((-1, 0, 1), repeat=3) if any(s)]
_FAR = [tuple(r * int(a == axis) for a in range(3)) for r in (-5, -2, 2, 5) for axis in range(3)]
_PATCHES, _LEAST_PATCHES, _ROWS = 96, 8, 5000  # number of patches for training (most, least), voxels per patch
_BATCH = 4096
_CHUNK = 65536
_MOST_CHANNELS = 4096
_WINDOW, _STEP = 112, 8  # voxels along an axis: the largest window; window sizes are multiples of _STEP
# Changes of the input that should not change the outline: HU added in soft tissue, shift of the coordinates in mm.
CHANGES = ((0.0, (0.0, 0.0, 0.0)), (15.0, (4.0, -4.0, 4.0)), (-15.0, (-4.0, 4.0, -4.0)))


class VoxelNet(nn.Module):
    """The network that outlines structures. It computes one logit per structure for each voxel.

    structures: number of structures. descriptors: channels of the map's local descriptor; 0 if the weights have none.
    Raises ValueError if `structures` or `descriptors` is out of range.
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
        """Compute logits (1, structures, k, j, i) of x (1, INPUTS + structures, k, j, i); k, j and i must be even."""
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
    """Average the grey values, and the first guess, over blocks around each voxel. x: result of `network_input`.

    Returns one tensor for each block size in `_BLOCKS`. For the smallest blocks, it is (1, c, k, j, i): c means for
    each voxel. For larger blocks, it is (1, c, k/2, j/2, i/2), to save time and memory.
    """
    read = torch.cat([x[:, : len(WINDOWS)], x[:, x.shape[1] - structures :]], dim=1)
    halved = F.avg_pool3d(read, 2)
    large = [_pool_axes(F.avg_pool3d, halved, size // 2, count_include_pad=False) for size in _BLOCKS[1:]]
    return [_pool_axes(F.avg_pool3d, read, _BLOCKS[0], count_include_pad=False), *large]


def _dilate(x: torch.Tensor, reach: int) -> torch.Tensor:
    """Return (b, 1, k, j, i): for each voxel, the largest value of all channels within `reach` voxels on each axis."""
    return _pool_axes(F.max_pool3d, x.amax(1, keepdim=True), 2 * reach + 1)


def _pool_axes(pool: Callable[..., torch.Tensor], x: torch.Tensor, size: int, **options: bool) -> torch.Tensor:
    """Apply `pool` over the cube of `size` voxels around each voxel, axis by axis, which is faster than 3-D pooling."""
    for axis in range(3):
        window, half = [1, 1, 1], [0, 0, 0]
        window[axis], half[axis] = size, size // 2
        x = pool(x, window, 1, half, **options)
    return x


def read_context(
    x: torch.Tensor, features: torch.Tensor | None, blocks: list[torch.Tensor], where: torch.Tensor
) -> torch.Tensor:
    """Collect rows (n, c) for `VoxelNet.logits`. where: (n, 3) k, j, i of n voxels. Other arguments: see `forward`."""
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
    """Choose random voxels of the examples. Returns a function that computes the loss of training step 0, 1, ...

    The voxels of a step depend on seed and step number alone. Raises CancelledError once `cancelled` returns True.
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

    logits, labels, known: (n, s). known: whether the example outlines the structure; if False, the entry is not used.
    Without the Dice loss, outlines of thin structures such as the oesophagus are too small. A structure that no voxel
    shows has no Dice loss.
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
    """Return three tensors about n voxels of random patches: the network's input (n, c); the share of the voxel that
    each structure fills (n, s); and (n, s) bool, whether the example outlines the structure."""
    largest = [max(e.crop.shape[axis] for e in examples) for axis in range(3)]
    k, j, i = (min(_PATCH, -(-n // 2) * 2) for n in largest)
    sampler = PatchSampler(examples, (k, j, i), rng)
    rows, labels, known = [], [], []
    for _ in range(patches):
        if cancelled():
            raise CancelledError("training stopped before the first step; run the same command to start again.")
        patch = sampler.draw()
        where = _choose_voxels(patch, rng)
        blocks = block_means(patch.x, patch.labels.shape[1])
        rows.append(read_context(patch.x, patch.features, blocks, where).half())
        k, j, i = where.T
        labels.append(patch.labels[0, :, k, j, i].T.half())
        known.append(patch.known[None].expand(len(where), -1))
    return torch.cat(rows), torch.cat(labels), torch.cat(known)


def _choose_voxels(patch: Patch, rng: np.random.Generator) -> torch.Tensor:
    """Return voxels (n, 3), k, j, i: half at borders of structures, a third near the first guess, a sixth anywhere."""
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
def predict(
    network: VoxelNet, crop: Crop, guess: torch.Tensor, step: Callable[[float], None] = lambda share: None
) -> torch.Tensor:
    """Compute the probability of s structures in each voxel of a crop: (len(CHANGES), s, k, j, i).

    The network runs once for each entry of CHANGES, a small shift of HU and coordinates; the first shift is zero.
    guess: (s, k, j, i) mean of the labels carried over from the examples, 0..1.
    """
    device = next(network.parameters()).device
    k, j, i = (min(_WINDOW, -(-n // _STEP) * _STEP) for n in crop.shape)
    size = (k, j, i)
    # bfloat16 is more than twice as fast if the device has instructions for it
    precision = mixed_precision(device, fast_dtype(device))
    padded = [max(0, n - whole) for n, whole in zip(size, crop.shape, strict=True)]
    pad = [0, padded[2], 0, padded[1], 0, padded[0]]
    hu = F.pad(crop.hu, pad, value=AIR_HU)
    coordinate = F.pad(crop.coordinate[None], pad, mode="replicate")[0] if any(padded) else crop.coordinate
    guess = F.pad(guess, pad)
    starts = [_starts(n, window) for n, window in zip(hu.shape, size, strict=True)]
    weight = _window_weight(size)
    found = torch.zeros(len(CHANGES), network.structures, *hu.shape)
    total = torch.zeros(hu.shape)
    windows = list(product(*starts))
    for number, first in enumerate(windows):
        block = tuple(slice(a, a + n) for a, n in zip(first, size, strict=True))
        features = None
        if crop.features is not None:
            axes = [a + 2 * torch.arange(n // 2) + 0.5 for a, n in zip(first, size, strict=True)]
            features = read_features(crop, torch.stack(torch.meshgrid(*axes, indexing="ij")[::-1], dim=-1)).to(device)
        total[block] += weight
        for change, (shift_hu, moved) in enumerate(CHANGES):
            soft = (1 - ((hu[block] - 50) / 250).abs()).clamp(0, 1)
            place = coordinate[(slice(None), *block)] + torch.tensor(moved)[:, None, None, None] / UNIT_MM
            with precision:
                x = network_input(hu[block] + soft * shift_hu, place, guess[(slice(None), *block)])
                logits = network(x.to(device), features)
            found[(change, slice(None), *block)] += logits.float().sigmoid()[0].cpu() * weight
        step((number + 1) / len(windows))
    k, j, i = crop.shape
    return (found / total)[:, :, :k, :j, :i]


def _starts(whole: int, window: int) -> list[int]:
    """Return the first voxel of each window, so that windows cover `whole` voxels and overlap by at least a third."""
    count = 1 if whole <= window else int(np.ceil((whole - window) / (window * 2 / 3))) + 1
    return np.unique(np.rint(np.linspace(0, whole - window, count)).astype(int)).tolist()


def _window_weight(size: tuple[int, int, int]) -> torch.Tensor:
    k, j, i = (torch.exp(-(torch.linspace(-2, 2, n) ** 2) / 2) + 0.01 for n in size)
    return k[:, None, None] * j[None, :, None] * i
