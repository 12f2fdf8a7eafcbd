"""Smooth least squares on knots: conjugate gradients, and the roughness that is held small."""

from __future__ import annotations

from collections.abc import Callable

import torch


def roughness(knots: torch.Tensor) -> torch.Tensor:
    """Half the gradient of the sum of squared differences between neighbouring knots, (c, K, J, I): diffusion."""
    found = torch.zeros_like(knots)
    for axis in (1, 2, 3):
        step = knots.diff(dim=axis)
        found.narrow(axis, 1, step.shape[axis]).add_(step)
        found.narrow(axis, 0, step.shape[axis]).sub_(step)
    return found


ROUGHNESS_DIAGONAL = 6.0  # of `roughness`, away from the ends


def conjugate_gradients(
    product: Callable[[torch.Tensor], torch.Tensor],
    wanted: torch.Tensor,
    diagonal: torch.Tensor,
    rounds: int,
) -> torch.Tensor:
    """x, from zero, with product(x) near wanted; product: symmetric, positive. diagonal: of it, or near it."""
    x, rest = torch.zeros_like(wanted), wanted
    scaled = rest / diagonal
    direction, size = scaled, (rest * scaled).sum()
    for _ in range(rounds):
        if size <= 0:
            break
        moved = product(direction)
        step = size / (direction * moved).sum().clamp_min(1e-30)
        x, rest = x + step * direction, rest - step * moved
        scaled = rest / diagonal
        size, last = (rest * scaled).sum(), size
        direction = scaled + size / last * direction
    return x
