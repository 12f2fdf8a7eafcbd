"""Random changes of the grey values of a crop: contrast, noise, sharpness, and parts replaced by other values."""

import numpy as np
import torch

from ..embedding.models.network import NetworkSpec
from .recipes import AugmentationSpec

_LOWEST_HU = -1100
_HIGHEST_HU = 1700
# The HU of soft tissue depend on contrast phase, kernel and dose; the HU of air and dense bone hardly do. At each of
# these HU, a random value between the two next rows is added; all by hand, not tuned.
_REMAP_HU = np.array([-1100.0, -500, -120, 0, 40, 80, 150, 300, 700, 1700])
_REMAP_LOW = np.array([-40.0, -80, -30, -25, -25, -30, -50, -100, -150, 0])
_REMAP_HIGH = np.array([40.0, 80, 30, 25, 25, 50, 120, 200, 200, 0])
_BLOCKS = 6  # most blocks in a crop; by hand
_BLOCK_SIZE = (8, 36)  # voxels along a side; by hand
_CUT_SHARE = 0.4  # largest share that is replaced by air; by hand


def augment(
    hu: torch.Tensor, spec: AugmentationSpec, network: NetworkSpec, rng: np.random.Generator
) -> torch.Tensor:
    """Convert a crop from HU (k, j, i) to network input 0..1 (k, j, i), with the random changes of the recipe.

    Args:
        hu: (k, j, i) HU of the crop.
        spec: the random changes.
        network: settings of the network's input.
        rng: random numbers.
    """
    table = torch.from_numpy(_input_table(spec, network, rng)).to(hu.device)
    # to the nearest integer HU
    row = (hu - (_LOWEST_HU - 0.5)).clamp_(0, len(table) - 1).to(torch.int32)
    x = table.index_select(0, row.flatten()).view(hu.shape)
    if rng.random() < spec.filter_probability:
        smooth = _mean_of_27(x)
        x = smooth if rng.random() < 0.5 else x + (x - smooth) * rng.uniform(0, 1.5)
    if rng.random() < spec.noise_probability:
        generator = torch.Generator(x.device).manual_seed(int(rng.integers(2**62)))
        noise = torch.randn(x.shape, generator=generator, device=x.device)
        x = noise.mul_(rng.uniform(0, spec.noise_level)).add_(x)
    if rng.random() < spec.block_probability:
        for _ in range(rng.integers(1, _BLOCKS + 1)):
            k_size, j_size, i_size = rng.integers(*_BLOCK_SIZE, size=3)
            k, j, i = (int(rng.integers(0, max(n - 8, 1))) for n in x.shape)
            x[k : k + k_size, j : j + j_size, i : i + i_size] = float(rng.random())
    if rng.random() < spec.cut_probability:
        # replace the first or last slices, or one side, by air
        axis = int(rng.choice(3, p=[0.6, 0.2, 0.2]))
        depth = int(rng.integers(0, max(int(x.shape[axis] * _CUT_SHARE), 1)))
        start = 0 if rng.random() < 0.5 else x.shape[axis] - depth
        x.narrow(axis, start, depth).zero_()
    return x


def _mean_of_27(x: torch.Tensor) -> torch.Tensor:
    """Return the mean of the 3 x 3 x 3 voxels around each voxel of `x`. Beyond the edges, edge voxels are repeated."""
    for axis in range(3):
        size = x.shape[axis] - 2
        inner = x.narrow(axis, 1, size) + x.narrow(axis, 0, size) + x.narrow(axis, 2, size)
        first = x.narrow(axis, 0, 1) * 2 + x.narrow(axis, 1, 1)
        last = x.narrow(axis, -1, 1) * 2 + x.narrow(axis, -2, 1)
        x = torch.cat([first, inner, last], axis).div_(3)
    return x


def _input_table(
    spec: AugmentationSpec, network: NetworkSpec, rng: np.random.Generator
) -> np.ndarray:
    """Return the network input of each integer HU from _LOWEST_HU to _HIGHEST_HU, with random changes of contrast."""
    hu = np.arange(_LOWEST_HU, _HIGHEST_HU + 1, dtype=np.float64)
    if rng.random() < spec.hu_remap_probability:
        hu = np.interp(hu, _REMAP_HU, _REMAP_HU + rng.uniform(_REMAP_LOW, _REMAP_HIGH))
    if rng.random() < spec.window_probability:
        low, high = (rng.uniform(ends[0], ends[1]) for ends in (spec.window_low, spec.window_high))
        # as in the paper of APE, the window is stretched over the whole input range
        if network.normalise_output:
            grey = (hu.clip(low, high) - low) / (high - low)
        else:
            grey = np.interp(hu.clip(low, high), network.hu_knots, network.level_knots)
    else:
        grey = np.interp(hu, network.hu_knots, network.level_knots)
    if rng.random() < spec.gamma_probability:
        grey = grey ** rng.uniform(spec.gamma[0], spec.gamma[1])
    return grey.astype(np.float32)
