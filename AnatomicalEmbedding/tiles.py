"""Running a network over a volume that does not fit the memory budget: overlapping tiles, blended.

The whole-volume run is the reference. A tile sees zeros (air) where its neighbours would be, which disturbs its rim;
so tiles overlap, each counts fully in its middle and fades out before its rim.
"""

from collections.abc import Callable, Iterator
from itertools import product

import torch

HALO_LATTICE = 3  # units of the network's total stride around each tile's core; see test_tiles for the agreement


def run_in_tiles(
    network: Callable[[torch.Tensor], torch.Tensor],
    x: torch.Tensor,
    core: tuple[int, int, int],
    lattice: int,
    stride: int,
    step: Callable[[float], None],
) -> torch.Tensor:
    """Output (3, k, j, i) on the stride grid for input (1, k, j, i), computed tile by tile.

    core: (k, j, i) input voxels each tile is responsible for, multiples of `lattice`. step: called with the share done.
    """
    halo = HALO_LATTICE * lattice
    shape = x.shape[1:]
    out = torch.zeros(3, *(n // stride for n in shape))
    total = torch.zeros(out.shape[1:])
    tiles = list(_tiles(shape, core))
    for number, starts in enumerate(tiles):
        low = [max(s - halo, 0) for s in starts]
        high = [min(s + c + halo, n) for s, c, n in zip(starts, core, shape, strict=True)]
        part = x[:, low[0] : high[0], low[1] : high[1], low[2] : high[2]]
        result = network(part[None])[0].float().cpu()
        where = tuple(slice(a // stride, b // stride) for a, b in zip(low, high, strict=True))
        weight = _weight(low, high, shape, halo, stride)
        out[(slice(None), *where)] += result * weight
        total[where] += weight
        step((number + 1) / len(tiles))
    return out / total


def _tiles(shape: torch.Size, core: tuple[int, int, int]) -> Iterator[tuple[int, ...]]:
    return product(*(range(0, n, c) for n, c in zip(shape, core, strict=True)))


def _weight(low: list[int], high: list[int], shape: torch.Size, halo: int, stride: int) -> torch.Tensor:
    """1 in the middle, falling to (almost) 0 over the inner half of the halo, on sides where the volume goes on."""
    ramps = []
    for a, b, n in zip(low, high, shape, strict=True):
        position = torch.arange((b - a) // stride) * stride + stride / 2
        ramp = torch.ones_like(position)
        if a > 0:
            ramp = torch.minimum(ramp, (position - halo / 2) / (halo / 2))
        if b < n:
            ramp = torch.minimum(ramp, (b - a - position - halo / 2) / (halo / 2))
        ramps.append(ramp.clamp(1e-6, 1.0))
    return ramps[0][:, None, None] * ramps[1][None, :, None] * ramps[2][None, None, :]
