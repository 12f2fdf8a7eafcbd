"""How good an outline probably is, judged without truth: by its certainty and its agreement with carried labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

# Fitted to the true Dice of 39 outlines of development scans, see RESULTS.md: logit of the Dice from the evidence.
_CONSTANT = -2.42
_WEIGHTS = np.array([2.68, 1.82])
_SPREAD = 0.78  # half the interval that held 8 of 10 of them, in logits
_VOLUME_SPREAD = 1.3  # log of the ratio of volumes that held 8 of 10, times the share that is missed


@dataclass(frozen=True)
class Quality:
    """dice: expected overlap with an expert's outline, low, high: where it lies in 8 of 10 cases. volume_low,
    volume_high: the expert's volume relative to this one, likewise.
    """

    dice: float
    low: float
    high: float
    volume_low: float
    volume_high: float


def evidence(carried: torch.Tensor, joined: torch.Tensor, mask: torch.Tensor) -> np.ndarray:
    """(2,) each 0..1: the Dice that the probabilities themselves expect; agreement with the labels carried from
    examples (the first again where none could be carried).
    """
    certain = float(2 * joined[mask].sum() / (joined.sum() + mask.sum()).clamp(min=1e-6))
    guess = torch.nan_to_num(torch.nanmean(carried, dim=0))
    return np.array([certain, _dice(guess > 0.5, mask) if guess.any() else certain])


def estimate(carried: torch.Tensor, joined: torch.Tensor, mask: torch.Tensor) -> Quality:
    """The quality of one structure's outline.

    carried: (n, k, j, i) labels of each example, NaN where there is none. joined: (k, j, i) final probability.
    mask: (k, j, i) the outline.
    """
    score = float(_CONSTANT + _WEIGHTS @ evidence(carried, joined, mask))
    dice = 1 / (1 + np.exp(-score))
    low, high = (float(1 / (1 + np.exp(-(score + way * _SPREAD)))) for way in (-1, 1))
    factor = float(np.exp(_VOLUME_SPREAD * (1 - dice)))
    return Quality(float(dice), low, high, 1 / factor, factor)


def _dice(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(2 * (one & other).sum() / (one.sum() + other.sum()).clamp(min=1))
