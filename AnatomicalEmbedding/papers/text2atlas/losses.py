"""Losses of a point that a text is given, against the organs that the text names.

Shapes of all: predicted (b, 3); points (b, m, n, 3), n sampled points of each of up to m organs; named (b, m) bool,
which of the m are there (one at least). Both in one unit of length; each loss is the mean over the batch.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

# Grujicic 2020, appendix E: the best of the temperatures tried; in half-sizes of the paper's atlas
POINT_TEMPERATURE = 0.1
ORGAN_TEMPERATURE = 1.0


def point_distance(predicted: torch.Tensor, points: torch.Tensor, temperature: float) -> torch.Tensor:
    """(b, m) distance to each organ: of its points, weighted by their soft-min (Grujicic 2020, equation 2, summed)."""
    distance = _distances(predicted, points)
    return (distance * torch.softmax(-distance / temperature, dim=-1)).sum(-1)


def soft_organ_distance(
    predicted: torch.Tensor,
    points: torch.Tensor,
    named: torch.Tensor,
    point_temperature: float = POINT_TEMPERATURE,
    organ_temperature: float = ORGAN_TEMPERATURE,
) -> torch.Tensor:
    """Distances to the organs, weighted by their soft-min (SOD; Grujicic 2020, equation 3)."""
    organ = point_distance(predicted, points, point_temperature)
    weight = torch.softmax((-organ / organ_temperature).masked_fill(~named, -torch.inf), dim=-1)
    return (organ * weight).sum(-1).mean()


def minimum_distance(predicted: torch.Tensor, points: torch.Tensor, named: torch.Tensor) -> torch.Tensor:
    """Distance to the nearest sampled point of any organ: SOD with both temperatures towards 0."""
    return _distances(predicted, points).amin(-1).masked_fill(~named, torch.inf).amin(-1).mean()


def mean_square(predicted: torch.Tensor, points: torch.Tensor, named: torch.Tensor) -> torch.Tensor:
    """Squared error to the mean of all organs' points (Grujicic 2020, section 6.1.1, MSE)."""
    held = named[..., None].to(points.dtype)
    centre = (points.mean(2) * held).sum(1) / held.sum(1)
    return (predicted - centre).square().mean()


def organ_entropy(logits: torch.Tensor, organs: torch.Tensor) -> torch.Tensor:
    """Cross entropy of classes instead of points (Grujicic 2020, section 6.1.1, CLS). logits: (b, k). organs: (b, k), 1
    for each organ named, else 0; each text counts the same, however many it names.
    """
    return F.cross_entropy(logits, organs / organs.sum(-1, keepdim=True))


def _distances(predicted: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """(b, m, n); the gradient at a distance of zero is zero."""
    return torch.linalg.vector_norm(predicted[:, None, None] - points, dim=-1)
