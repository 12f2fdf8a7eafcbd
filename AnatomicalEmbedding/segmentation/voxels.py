"""The network that outlines structures.

The labels of the examples are carried over to a new scan; these labels are called the guess. The network classifies
each voxel near the guess. It reads the image around the voxel, the voxel's body coordinate, the guess and the
descriptor of the map.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..embedding.device import fast_dtype, mixed_precision
from ..embedding.models.network import MOST_CHANNELS
from ..errors import ShareCallback
from ..scan.geometry import AIR_HU
from .grids import UNIT_MM, GroupCrop, read_grid

# HU: soft tissue, lung, bone; one channel each
WINDOWS = ((-150.0, 250.0), (-1000.0, 200.0), (50.0, 1250.0))
INPUTS = len(WINDOWS) + 3  # windows and coordinates
_HIDDEN = 96  # channels of the hidden layers; by hand, not tuned
_DROP = 0.1  # share; by hand, not tuned
# before training, logits of voxels with guess 1 are higher by this value than with guess 0
_TRUST = 6.0
_NEVER = -10.0  # logit of voxels far from every guess
_REACH = 6  # voxels are classified within this distance, in voxels, of the guess
_BLOCKS = (3, 6, 14)  # approximate sides, in voxels, of the blocks whose means are read
# neighbours whose grey values are read
_NEAR = [s for s in product((-1, 0, 1), repeat=3) if any(s)]
# voxels farther off along the axes, which are read in two windows
_FAR = [tuple(step) for distance in (-5, -2, 2, 5) for step in distance * np.eye(3, dtype=int)]
_CHUNK = 65536  # voxels at a time; only limits memory
# voxels along an axis: the largest window; window sizes are multiples of _STEP
_WINDOW, _STEP = 112, 8
# Changes of the input that should not change the outline: HU added in soft tissue, shift of the coordinates in mm.
CHANGES = ((0.0, (0.0, 0.0, 0.0)), (15.0, (4.0, -4.0, 4.0)), (-15.0, (-4.0, 4.0, -4.0)))


def network_input(hu: torch.Tensor, coordinate: torch.Tensor, guess: torch.Tensor) -> torch.Tensor:
    """Make the input of the network, (1, INPUTS + s, k, j, i) for s structures.

    Args:
        hu: (k, j, i) HU.
        coordinate: (3, k, j, i) body coordinates.
        guess: (s, k, j, i) first guess.
    """
    grey = [((hu - low) / (high - low)).clamp(0, 1) for low, high in WINDOWS]
    return torch.cat([torch.stack(grey), coordinate, guess])[None]


class VoxelNet(nn.Module):
    """The network that outlines structures. It computes one logit per structure for each voxel.

    structures: number of structures. descriptors: channels of the map's local descriptor; 0 if the weights have none.
    Raises ValueError if `structures` or `descriptors` is out of range.
    """

    def __init__(self, structures: int, descriptors: int):
        super().__init__()
        if not 1 <= structures <= MOST_CHANNELS or not 0 <= descriptors <= MOST_CHANNELS:
            raise ValueError("a network cannot be of these sizes")
        self.structures = structures
        self.descriptors = descriptors
        around = len(_NEAR) + 2 * len(_FAR) + len(_BLOCKS) * (len(WINDOWS) + structures)
        channels = INPUTS + structures + around + descriptors
        self.scale = nn.BatchNorm1d(channels)
        self.body = nn.Sequential(
            nn.Linear(channels, _HIDDEN),
            nn.ReLU(),
            nn.Dropout(_DROP),
            nn.Linear(_HIDDEN, _HIDDEN),
            nn.ReLU(),
            nn.Dropout(_DROP),
            nn.Linear(_HIDDEN, _HIDDEN),
            nn.ReLU(),
        )
        self.head = nn.Linear(_HIDDEN, structures)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def logits(self, rows: torch.Tensor) -> torch.Tensor:
        """Compute logits (n, structures) from rows (n, c) of `read_context`."""
        guess = _TRUST * (rows[:, INPUTS : INPUTS + self.structures] - 0.5)
        return self.head(self.body(self.scale(rows))) + guess

    def forward(self, x: torch.Tensor, features: torch.Tensor | None) -> torch.Tensor:
        """Compute logits (1, structures, k, j, i) of x (1, INPUTS + structures, k, j, i); k, j and i must be even."""
        in_reach = dilate(x[:, -self.structures :]) > 0.02
        if not in_reach.any():  # without any guess, all voxels are classified
            in_reach = torch.ones_like(in_reach)
        where = torch.nonzero(in_reach[0, 0])
        blocks = block_means(x, self.structures)
        parts = [
            self.logits(read_context(x, features, blocks, part)) for part in where.split(_CHUNK)
        ]
        result = torch.full((1, self.structures, *x.shape[2:]), _NEVER, device=x.device)
        k, j, i = where.T
        result[0, :, k, j, i] = torch.cat(parts).T
        return result


def block_means(x: torch.Tensor, structures: int) -> list[torch.Tensor]:
    """Average the grey values, and the first guess, over blocks around each voxel. x: result of `network_input`.

    Returns one tensor for each block size in `_BLOCKS`. For the smallest blocks, it is (1, c, k, j, i): c means for
    each voxel. For larger blocks, it is (1, c, k/2, j/2, i/2), to save time and memory.
    """
    values = torch.cat([x[:, : len(WINDOWS)], x[:, x.shape[1] - structures :]], dim=1)
    halved = F.avg_pool3d(values, 2)
    smallest, *larger = _BLOCKS
    means = [pool_axes(F.avg_pool3d, values, smallest, count_include_pad=False)]
    for size in larger:
        means.append(pool_axes(F.avg_pool3d, halved, size // 2, count_include_pad=False))
    return means


def dilate(x: torch.Tensor) -> torch.Tensor:
    """Return (b, 1, k, j, i): for each voxel, the largest value of all channels within _REACH voxels on each axis."""
    return pool_axes(F.max_pool3d, x.amax(1, keepdim=True), 2 * _REACH + 1)


def pool_axes(
    pool: Callable[..., torch.Tensor], x: torch.Tensor, size: int, **options: bool
) -> torch.Tensor:
    """Pool over the cube around each voxel, axis by axis, which is faster than 3-D pooling.

    Args:
        pool: pooling function of torch.
        x: (b, c, k, j, i).
        size: side of the cube, voxels.
        options: further arguments of `pool`.
    """
    for axis in range(3):
        window = [1, 1, 1]
        half = [0, 0, 0]
        window[axis] = size
        half[axis] = size // 2
        x = pool(x, window, 1, half, **options)
    return x


def read_context(
    x: torch.Tensor, features: torch.Tensor | None, blocks: list[torch.Tensor], where: torch.Tensor
) -> torch.Tensor:
    """Collect rows (n, c) for `VoxelNet.logits`.

    Args:
        x, features: as for `VoxelNet.forward`.
        blocks: result of `block_means`.
        where: (n, 3) k, j, i of n voxels.
    """
    last = torch.tensor(x.shape[2:], device=x.device) - 1

    def read(values: torch.Tensor, step: tuple[int, ...] = (0, 0, 0)) -> torch.Tensor:
        """Return (n, channels) of the voxels, or of the voxels `step` (k, j, i) away, limited to the grid."""
        k, j, i = torch.minimum((where + torch.tensor(step, device=x.device)).clamp(min=0), last).T
        return values[0, :, k, j, i].T

    # near voxels are read in the first window, far ones in the first two
    parts = [read(x)]
    parts += [read(x[:, :1], step) for step in _NEAR]
    parts += [read(x[:, :2], step) for step in _FAR]
    parts.append(read(blocks[0]))
    # the larger blocks and the descriptors have half the resolution
    k, j, i = (where // 2).T
    halved = blocks[1:] if features is None else [*blocks[1:], features]
    parts += [values[0, :, k, j, i].T for values in halved]
    return torch.cat(parts, dim=1)


def read_features(crop: GroupCrop, where: torch.Tensor) -> torch.Tensor:
    """Interpolate a crop's descriptors at a grid of places. Returns (1, c, k, j, i): c numbers for each place.
    where: (k, j, i, 3), for each place its coordinates i, j, k in voxels of the crop."""
    origin, low, size = (
        torch.from_numpy(values).float()
        for values in (crop.origin_ras, crop.feature_low, crop.feature_mm)
    )
    cells = (where * crop.spacing_mm + origin - low) / size
    return read_grid(crop.features[None], cells, "border")


@torch.no_grad()
def predict(
    network: VoxelNet,
    crop: GroupCrop,
    guess: torch.Tensor,
    step: ShareCallback = lambda share: None,
) -> torch.Tensor:
    """Compute the probability of s structures in each voxel of a crop: (len(CHANGES), s, k, j, i).

    The network runs once for each entry of CHANGES, a small shift of HU and coordinates; the first shift is zero.

    Args:
        network: the network.
        crop: part of a scan.
        guess: (s, k, j, i) mean of the labels carried over from the examples, 0..1.
        step: called with the share of the work that is done, 0 to 1.
    """
    device = next(network.parameters()).device
    # bfloat16 is more than twice as fast if the device has instructions for it
    precision = mixed_precision(device, fast_dtype(device))
    size = tuple(min(_WINDOW, int(np.ceil(n / _STEP)) * _STEP) for n in crop.shape)
    hu, coordinate, guess = _padded(crop, guess, size)
    weight = _window_weight(size)
    # sums over the windows, which overlap
    weighted = torch.zeros(len(CHANGES), network.structures, *hu.shape)
    weights = torch.zeros(hu.shape)
    starts = [_starts(n, window) for n, window in zip(hu.shape, size, strict=True)]
    windows = list(product(*starts))
    for number, first in enumerate(windows):
        window = tuple(slice(start, start + n) for start, n in zip(first, size, strict=True))
        channels = (slice(None), *window)
        features = None
        if crop.features is not None:
            features = read_features(crop, _block_centres(first, size)).to(device)
        for change, (shift_hu, shift_mm) in enumerate(CHANGES):
            changed_hu = hu[window] + softness(hu[window]) * shift_hu
            changed_place = coordinate[channels] + torch.tensor(shift_mm).view(3, 1, 1, 1) / UNIT_MM
            with precision:
                x = network_input(changed_hu, changed_place, guess[channels])
                logits = network(x.to(device), features)
            weighted[change][channels] += logits.float().sigmoid()[0].cpu() * weight
        weights[window] += weight
        step((number + 1) / len(windows))
    k, j, i = crop.shape
    return (weighted / weights)[:, :, :k, :j, :i]


def _padded(
    crop: GroupCrop, guess: torch.Tensor, size: tuple[int, ...]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return HU, coordinates and guess of a crop, enlarged at the upper ends so that a window of this size fits in."""
    k, j, i = (max(0, window - n) for window, n in zip(size, crop.shape, strict=True))
    pad = [0, i, 0, j, 0, k]
    coordinate = F.pad(crop.coordinate[None], pad, mode="replicate")[0]
    return F.pad(crop.hu, pad, value=AIR_HU), coordinate, F.pad(guess, pad)


def _block_centres(first: tuple[int, ...], size: tuple[int, ...]) -> torch.Tensor:
    """Return the centres (k, j, i, 3) of the blocks of 2 x 2 x 2 voxels of a window, as i, j, k of the crop."""
    axes = [start + 2 * torch.arange(n // 2) + 0.5 for start, n in zip(first, size, strict=True)]
    k, j, i = torch.meshgrid(*axes, indexing="ij")
    return torch.stack([i, j, k], dim=-1)


def softness(hu: torch.Tensor) -> torch.Tensor:
    """Return how much contrast medium changes tissues of these HU, 0 to 1: 1 at 50 HU, 0 beyond -200 and 300 HU."""
    return (1 - ((hu - 50) / 250).abs()).clamp(0, 1)


def _starts(whole: int, window: int) -> list[int]:
    """Return the first voxel of each window, so that windows cover `whole` voxels and overlap by at least a third.

    `whole` is at least as large as `window`.
    """
    count = int(np.ceil((whole - window) / (window * 2 / 3))) + 1
    return np.unique(np.rint(np.linspace(0, whole - window, count)).astype(int)).tolist()


def _window_weight(size: tuple[int, ...]) -> torch.Tensor:
    """Return the weight (k, j, i) of each voxel of a window: highest in the middle, above 0 at the border."""
    k, j, i = (torch.exp(-(torch.linspace(-2, 2, n) ** 2) / 2) + 0.01 for n in size)
    return k[:, None, None] * j[None, :, None] * i
