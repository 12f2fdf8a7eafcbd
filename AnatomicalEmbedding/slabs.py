"""Running the network on a scan that does not fit the memory budget: exact slabs instead of blended tiles.

A cell's coordinate depends on the whole body, so tiles with any affordable overlap disagree with the whole-volume run
by millimetres (measured: 17 mm at most with 20 cm of overlap, 3 mm with 30 cm). But only the finest level of the U-Net
takes much memory, and that level sees no further than two cells. So the finest level is computed slab by slab along k,
twice (on the way down and on the way up), and the coarser levels, an eighth of the cells, at once: the result is that
of the whole volume up to rounding.
"""

from collections.abc import Callable
from typing import Protocol

import torch

REACH_CELLS = 2  # of the two 3x3x3 convolutions on either side of the finest level


class SlabNetwork(Protocol):
    """A network whose finest level can be computed apart; see CoordinateNetwork."""

    stride: int

    def fine(self, x: torch.Tensor) -> torch.Tensor: ...
    def pool(self, fine: torch.Tensor) -> torch.Tensor: ...
    def coarse(self, pooled: torch.Tensor) -> torch.Tensor: ...
    def finish(self, coarse: torch.Tensor, fine: torch.Tensor) -> torch.Tensor: ...


def run_in_slabs(
    network: SlabNetwork,
    x: torch.Tensor,
    slab_cells: int,
    device: torch.device,
    step: Callable[[float], None],
) -> torch.Tensor:
    """Output (3, k, j, i) on the stride grid for input (1, k, j, i), as the whole-volume run gives it.

    slab_cells: cells along k that a slab is responsible for; even, so that pooling cells are never split.
    step: called with the share done, after each slab.
    """
    if slab_cells < 2 or slab_cells % 2:
        raise ValueError("slab_cells must be even and positive")
    stride, cells = network.stride, x.shape[1] // network.stride
    slabs = [(k, min(k + slab_cells, cells)) for k in range(0, cells, slab_cells)]

    def fine(low: int, high: int) -> torch.Tensor:
        """Finest features of cells low..high, undisturbed by the slab's own border."""
        a, b = max(low - REACH_CELLS, 0), min(high + REACH_CELLS, cells)
        features = network.fine(x[None, :, a * stride : b * stride].to(device))
        return features[:, :, low - a : high - a]

    pooled = []
    for number, (low, high) in enumerate(slabs):
        pooled.append(network.pool(fine(low, high)))
        step(0.4 * (number + 1) / len(slabs))
    coarse = network.coarse(torch.cat(pooled, dim=2))
    step(0.5)
    done = []
    for number, (low, high) in enumerate(slabs):
        a, b = max(low - REACH_CELLS, 0), min(high + REACH_CELLS, cells)
        result = network.finish(coarse[:, :, a // 2 : -(-b // 2)], fine(a, b))
        done.append(result[0, :, low - a : high - a].float().cpu())
        step(0.5 + 0.5 * (number + 1) / len(slabs))
    return torch.cat(done, dim=1)
