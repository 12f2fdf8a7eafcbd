"""What is learnt: for each objective of the recipes, the batches it needs and the loss of one."""

import torch
from torch import nn

from ..embedding.grid_reading import read_linear
from ..embedding.models.network import STRIDE, EmbeddingNetwork, Features
from .contrast import near_loss, sam_loss
from .losses import FrameCorrections, coordinate_loss, distance_loss
from .recipes import Recipe
from .sampler import BatchSampler, CoordinateBatch, CoordinateSampler, PairBatch, PairSampler
from .scans import PreparedScan
from .views import ViewBatch, ViewSampler

Batch = CoordinateBatch | PairBatch | ViewBatch
_SAMPLERS = {
    "coordinates": CoordinateSampler,
    "distances": PairSampler,
    "descriptors": ViewSampler,
    "hybrid": ViewSampler,
}


def make_sampler(
    scans: list[PreparedScan], recipe: Recipe, seed: int, steps: int, share: tuple[int, int] = (0, 1)
) -> BatchSampler:
    """The sampler that a recipe's objective asks for. share: (rank, world) of processes that train together."""
    return _SAMPLERS[recipe.objective](scans, recipe, seed, steps, share)


class Learner(nn.Module):
    """Network, frames and loss as one module: what processes that train together keep in step."""

    def __init__(self, network: EmbeddingNetwork, frames: FrameCorrections, recipe: Recipe, dtype: torch.dtype):
        super().__init__()
        self.network, self.frames, self.recipe, self.dtype = network, frames, recipe, dtype

    def forward(self, batch: Batch, generator: torch.Generator) -> torch.Tensor:
        device = next(self.network.parameters()).device.type
        precision = torch.autocast(device, self.dtype, enabled=self.dtype != torch.float32)
        return batch_loss(self.network, self.frames, batch, self.recipe, precision, generator)


def batch_loss(
    network: EmbeddingNetwork,
    frames: FrameCorrections,
    batch: Batch,
    recipe: Recipe,
    precision: torch.autocast,
    generator: torch.Generator,
) -> torch.Tensor:
    """Loss of a batch, a scalar. precision: what the network runs under. generator: of random negatives."""
    if isinstance(batch, PairBatch):
        with precision:
            maps = network(torch.cat([batch.first, batch.second])).coordinate
        pairs = len(batch.first)
        a = read_linear(maps[:pairs], _in_cells(batch.first_ijk)).flatten(0, 1)
        b = read_linear(maps[pairs:], _in_cells(batch.second_ijk)).flatten(0, 1)
        return distance_loss(a, b, batch.position_mm.flatten(0, 1), recipe.loss.equivariance)
    with precision:
        found = network(batch.image)
    if isinstance(batch, CoordinateBatch):
        return _in_frame(found, frames, batch, recipe)
    if recipe.objective == "descriptors":
        return sam_loss(found, batch, recipe.loss, generator)
    contrast = recipe.loss.descriptor_weight * near_loss(found, batch, recipe.loss, generator)
    return contrast if recipe.optimiser.descriptors_only else contrast + _in_frame(found, frames, batch, recipe)


def _in_frame(
    found: Features, frames: FrameCorrections, batch: CoordinateBatch | ViewBatch, recipe: Recipe
) -> torch.Tensor:
    """Error of the coordinates in the common body frame, and what correcting the scans' frames costs."""
    unit, spec = recipe.network.unit_mm, recipe.loss
    target = frames(batch.body_mm / unit, batch.scan)
    loss = coordinate_loss(found.coordinate, target, batch.inside, spec.beta_mm / unit)
    return loss + spec.frame_prior * frames.prior(batch.scan)


def _in_cells(voxel_ijk: torch.Tensor) -> torch.Tensor:
    """Continuous stride-4 cells of input voxels."""
    return (voxel_ijk + 0.5) / STRIDE - 0.5
