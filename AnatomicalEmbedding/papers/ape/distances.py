"""Distances between points, the loss of the paper: equations 1 and 2."""

import torch

from ...embedding.grid_reading import read_linear
from ...embedding.models.network import EmbeddingNetwork
from ...training.objectives import LossContext, Objective
from .pairs import PairBatch, PairSampler, in_cells


def distance_loss(
    first: torch.Tensor, second: torch.Tensor, position: torch.Tensor, equivariance: float = 1.0
) -> torch.Tensor:
    """Equation 2 of Goncharov 2024: L = 1/N^2 sum_ij (|a_i - a_j+| - |p_i - p_j|)^2 + lambda 1/N sum_i |a_i - a_i+|^2.

    first, second: (N, 3) embeddings a_i, a_i+ of positive pairs. position: (N, 3) mm in the one image; standardised
    here to zero mean and unit deviation per axis. equivariance: lambda (1: APE-equiv, 0: APE-aug). Equation 1
    (APE-naive) is the same with `second = first` and lambda 0.
    """
    standard = (position - position.mean(0)) / position.std(0).clamp_min(1e-6)
    predicted = _distances(first, second)
    loss = (predicted - _distances(standard, standard)).square().mean()
    return loss + equivariance * (first - second).square().sum(1).mean()


def _distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    # cdist's gradient at zero distance is zero, as wanted on the diagonal of equation 1
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def read_pairs(
    network: EmbeddingNetwork, batch: PairBatch, context: LossContext
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(N, 3) outputs at all positives in the first views and in the second, and (N, 3) their mm."""
    with context.precision:
        maps = network(torch.cat([batch.first, batch.second])).coordinate
    pairs = len(batch.first)
    first = read_linear(maps[:pairs], in_cells(batch.first_ijk)).flatten(0, 1)
    second = read_linear(maps[pairs:], in_cells(batch.second_ijk)).flatten(0, 1)
    return first, second, batch.position_mm.flatten(0, 1)


def _loss(network: EmbeddingNetwork, batch: PairBatch, context: LossContext) -> torch.Tensor:
    return distance_loss(*read_pairs(network, batch, context), context.recipe.loss.equivariance)


DISTANCES = Objective(PairSampler, _loss)
