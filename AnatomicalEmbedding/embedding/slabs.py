"""Running the network on a scan that does not fit the memory budget: exact slabs instead of blended tiles.

A cell's coordinate depends on the whole body, so tiles with any affordable overlap differ from the whole-volume run by
millimetres (measured: 17 mm at most with 20 cm of overlap, 3 mm with 30 cm). But only the finest level of the U-Net and
the local descriptor take much memory, and their receptive field is a few cells. So these are computed slab by slab
along k, twice (down and up), and the coarser levels, an eighth of the cells, at once: the result equals that of the
whole volume up to rounding.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import torch

from .models.network import LOCAL_STRIDE, STRIDE, Features

FINE_REACH_CELLS = 2  # of the two 3x3x3 convolutions on either side of the finest level


class SlabNetwork(Protocol):
    """A network whose finest level can be computed separately; see EmbeddingNetwork."""

    stride: int
    reach_cells: int
    fixed_bytes_per_voxel: float

    def fine(self, x: torch.Tensor) -> torch.Tensor: ...
    def pool(self, fine: torch.Tensor) -> torch.Tensor: ...
    def coarse(self, pooled: torch.Tensor) -> torch.Tensor: ...
    def describe(self, coarse: torch.Tensor) -> torch.Tensor | None: ...
    def finish(
        self, coarse: torch.Tensor, fine: torch.Tensor, x: torch.Tensor, descriptors: bool = True
    ) -> Features: ...


def run_in_slabs(
    network: SlabNetwork,
    x: torch.Tensor,
    slab_cells: int,
    device: torch.device,
    step: Callable[[float], None],
    descriptors: bool = True,
) -> Features:
    """Features (batch of one) of input (1, k, j, i), as the whole-volume run gives them, on the CPU.

    slab_cells: cells along k that a slab yields; even, so that pooling cells are never split.
    step: called with the share done, after each slab.
    """
    if slab_cells < 2 or slab_cells % 2:
        raise ValueError("slab_cells must be even and positive")
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
        parts.append(
            Features(
                _middle(found.coordinate, low - a, high - a),
                None,
                _middle(found.local, (low - a) * STRIDE // LOCAL_STRIDE, (high - a) * STRIDE // LOCAL_STRIDE),
                _middle(found.organs, low - a, high - a),
            )
        )
        step(0.5 + 0.5 * (number + 1) / len(slabs))
    global_ = network.describe(coarse) if descriptors else None
    coordinate, local, organs = (
        _joined(getattr(part, name) for part in parts) for name in ("coordinate", "local", "organs")
    )
    return Features(coordinate, global_, local, organs)


def _middle(map_: torch.Tensor | None, low: int, high: int) -> torch.Tensor | None:
    return None if map_ is None else map_[:, :, low:high].cpu()


def _joined(maps: Iterable[torch.Tensor | None]) -> torch.Tensor | None:
    found = [m for m in maps if m is not None]
    return torch.cat(found, dim=2) if found else None
