"""Running the network on a scan that does not fit the memory budget: exact slabs instead of blended tiles.

A cell's coordinate depends on the whole body, so tiles with any affordable overlap differ from the whole-volume run by
millimetres (measured: 17 mm at most with 20 cm of overlap, 3 mm with 30 cm). But only the finest level of the U-Net and
the local descriptor take much memory, and their receptive field is a few cells. So these are computed slab by slab
along k, twice (down and up), and the coarser levels, an eighth of the cells, at once: the result equals that of the
whole volume up to rounding.
"""

from collections.abc import Callable

import torch

from .models.network import LOCAL_STRIDE, STRIDE, EmbeddingNetwork, Features

FINE_REACH_CELLS = 2  # of the two 3x3x3 convolutions on either side of the finest level


def run_in_slabs(
    network: EmbeddingNetwork,
    x: torch.Tensor,
    slab_cells: int,
    device: torch.device,
    step: Callable[[float], None],
    descriptors: bool = True,
) -> Features:
    """Features (batch of one) of input (1, k, j, i), as the whole-volume run gives them, on the CPU.

    The global descriptor, which only training needs, is left out.
    slab_cells: cells along k that a slab yields; even, so that pooling cells are never split.
    step: called with the share done, after each slab.
    """
    stride, cells = network.stride, x.shape[1] // network.stride
    reach = network.reach_cells if descriptors else FINE_REACH_CELLS
    slabs = [(k, min(k + slab_cells, cells)) for k in range(0, cells, slab_cells)]

    def fine(low: int, high: int) -> torch.Tensor:
        """Finest features of cells low..high, undisturbed by the slab's own border."""
        a, b = max(low - FINE_REACH_CELLS, 0), min(high + FINE_REACH_CELLS, cells)
        features = network.fine(x[None, :, a * stride : b * stride].to(device))
        return features[:, :, low - a : high - a]

    pooled = []
    for number, (low, high) in enumerate(slabs):
        pooled.append(network.pool(fine(low, high)))
        step(0.4 * (number + 1) / len(slabs))
    coarse = network.coarse(torch.cat(pooled, dim=2))
    step(0.5)
    parts = []
    for number, (low, high) in enumerate(slabs):
        a, b = max(low - reach, 0), min(high + reach, cells)
        part = x[None, :, a * stride : b * stride].to(device)
        found = network.finish(coarse[:, :, a // 2 : -(-b // 2)], fine(a, b), part, descriptors)
        steps = (1, 1, STRIDE // LOCAL_STRIDE, 1)
        parts.append(
            [
                None if part is None else part[:, :, (low - a) * n : (high - a) * n].cpu()
                for part, n in zip(found, steps, strict=True)
            ]
        )
        step(0.5 + 0.5 * (number + 1) / len(slabs))
    return Features(*(None if of[0] is None else torch.cat(of, dim=2) for of in zip(*parts, strict=True)))
