"""The objective "offsets": offsets between points of a scan, by relative position regression (Lei et al. 2021)."""

import torch
import torch.nn.functional as F

from ...embedding.models.network import EmbeddingNetwork
from ...training.objectives import LossContext, Objective
from ..ape.distances import PairBatch, PairSampler, read_pairs


def offset_loss(
    first: torch.Tensor, second: torch.Tensor, position: torch.Tensor, reach_mm: float
) -> torch.Tensor:
    """Relative position regression (Lei 2021): L = 1/(3 N^2) sum_ij |r tanh(b_j - a_i) - (x_j - x_i)|^2, in mm^2.

    Args:
        first, second: (N, 3) outputs a_i, b_i at the same N places of one scan, in different crops.
        position: (N, 3) RAS mm, x_i of the places.
        reach_mm: r, the longest offset that the outputs can express.
    """
    stated = reach_mm * torch.tanh(second[None] - first[:, None])
    return F.mse_loss(stated, position[None] - position[:, None])


def _loss(network: EmbeddingNetwork, batch: PairBatch, context: LossContext) -> torch.Tensor:
    return offset_loss(*read_pairs(network, batch, context), context.recipe.network.unit_mm)


OFFSETS = Objective(PairSampler, _loss)
