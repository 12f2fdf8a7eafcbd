"""Short codes of organs for the local descriptor: organs that lie next to each other must differ, others may be alike.

One channel for each of fifty organs would make descriptors longer than appearance does, and matching slower. Matching
compares places a few centimetres apart, so only the codes of neighbours have to differ.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F

from ..embedding.models.network import EmbeddingNetwork
from .organ_head import OrganExample, share_of_cells

CODE_CHANNELS = 8
_NEAR_CELLS = 2
_OPPOSED = 0.3  # negative cosine that the codes of neighbours are drawn to
_LEAST_WEIGHT = 0.02  # of two organs that never lie near each other
_ELSEWHERE_WEIGHT = 0.3  # the least of everything else, which is next to every organ
_STEPS, _RATE = 500, 0.05


def with_organ_codes(
    network: EmbeddingNetwork, examples: Sequence[OrganExample], channels: int = CODE_CHANNELS
) -> EmbeddingNetwork:
    """The network, whose organ head has been trained, with local descriptors that say what organs are there."""
    joined = EmbeddingNetwork(replace(network.spec, organ_channels=channels))
    joined.load_state_dict(network.state_dict(), strict=False)
    joined.organs.codes.copy_(organ_codes(neighbourhood(examples, len(network.spec.organs)), channels))
    return joined.eval()


def neighbourhood(examples: Sequence[OrganExample], organs: int) -> torch.Tensor:
    """(1 + n, 1 + n) symmetric: share of one's cells that lie within two cells of the other, everything else first.

    The mean over the scans that hold both; zero where none does.
    """
    near, count = torch.zeros(1 + organs, 1 + organs), torch.zeros(1 + organs, 1 + organs)
    for example in examples:
        share = share_of_cells(example.labels, 1 + organs)
        share[0] *= example.body
        cells = share.flatten(1).sum(1)
        around = F.max_pool3d((share > 0).float()[None], 2 * _NEAR_CELLS + 1, 1, _NEAR_CELLS)[0]
        near += torch.einsum("akji,bkji->ab", around, share) / cells.clamp_min(1e-6)
        here = (cells > 0).float()
        count += here[:, None] * here
    mean = near / count.clamp_min(1)
    return (mean + mean.T) / 2


def organ_codes(near: torch.Tensor, channels: int, seed: int = 0) -> torch.Tensor:
    """(1 + n, channels) unit vectors, those of neighbours as different as there is room for.

    near: (1 + n, 1 + n), see `neighbourhood`.
    """
    weight = near + _LEAST_WEIGHT
    weight[0] = weight[0].clamp_min(_ELSEWHERE_WEIGHT)
    weight[:, 0] = weight[0]
    weight.fill_diagonal_(0)
    codes = torch.randn(len(near), channels, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    optimiser = torch.optim.Adam([codes], _RATE)
    for _ in range(_STEPS):
        unit = F.normalize(codes, dim=1)
        cosine = unit @ unit.T
        loss = (weight * (cosine.clamp_min(-_OPPOSED) + _OPPOSED).square()).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return F.normalize(codes.detach(), dim=1)
