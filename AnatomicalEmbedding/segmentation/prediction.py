"""Probabilities of a group's structures in a scan: windows over its part of the scan, averaged over changed inputs."""

from collections.abc import Callable
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.device import fast_dtype
from ..embedding.working_grid import AIR_HU
from .grids import UNIT_MM, Crop
from .patches import network_input, read_features
from .voxels import VoxelNet

# Changes of the input that the answer should not depend on: HU added in soft tissue, displaced coordinates in mm.
_WINDOW, _STEP = 112, 8  # voxels along an axis: the largest window, and the multiple that its size is
CHANGES = ((0.0, (0.0, 0.0, 0.0)), (15.0, (4.0, -4.0, 4.0)), (-15.0, (-4.0, 4.0, -4.0)))


@torch.no_grad()
def predict(
    network: VoxelNet, crop: Crop, guess: torch.Tensor, step: Callable[[float], None] = lambda share: None
) -> torch.Tensor:
    """(changes, s, k, j, i) probability of each structure in each voxel of a crop, for each of CHANGES.

    guess: (s, k, j, i) labels carried over from the examples, 0..1.
    """
    device = next(network.parameters()).device
    k, j, i = (min(_WINDOW, -(-n // _STEP) * _STEP) for n in crop.shape)
    size = (k, j, i)
    # half precision where the device computes in it: more than twice as fast on CPUs with bfloat16 instructions
    precision = torch.autocast(device.type, torch.bfloat16, enabled=fast_dtype(device) == torch.bfloat16)
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
        features = None if crop.features is None else _window_features(crop, first, size).to(device)
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
    """First voxels of windows that cover an axis, overlapping by a third or more."""
    count = 1 if whole <= window else int(np.ceil((whole - window) / (window * 2 / 3))) + 1
    return np.unique(np.rint(np.linspace(0, whole - window, count)).astype(int)).tolist()


def _window_weight(size: tuple[int, int, int]) -> torch.Tensor:
    """(k, j, i) weight of a window's voxels, highest in its middle."""
    k, j, i = (torch.exp(-(torch.linspace(-2, 2, n) ** 2) / 2) + 0.01 for n in size)
    return k[:, None, None] * j[None, :, None] * i


def _window_features(crop: Crop, first: tuple[int, ...], size: tuple[int, int, int]) -> torch.Tensor:
    axes = [a + 2 * torch.arange(n // 2) + 0.5 for a, n in zip(first, size, strict=True)]
    k, j, i = torch.meshgrid(*axes, indexing="ij")
    return read_features(crop, torch.stack([i, j, k], dim=-1))
