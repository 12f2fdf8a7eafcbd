"""How good an outline probably is, judged without truth: by its own certainty, its steadiness, and carried labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

# Fitted to true Dice on the development scans, see RESULTS.md: logit of the Dice from the evidence.
_CONSTANT = -2.5
_WEIGHTS = np.array([3.0, 1.0, 1.0])
_SPREAD = 0.8  # half the interval that held 8 of 10 cases, in logits
_VOLUME_SPREAD = 1.2  # log of the ratio of volumes that held 8 of 10 cases, times the share that is missed


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


def evidence(tried: torch.Tensor, carried: torch.Tensor, joined: torch.Tensor, mask: torch.Tensor) -> np.ndarray:
    """(3,) each 0..1: Dice that the probabilities themselves expect; agreement of the answers to changed inputs;
    agreement with labels carried from examples (the first where none could be carried).
    """
    certain = float(2 * joined[mask].sum() / (joined.sum() + mask.sum()).clamp(min=1e-6))
    steady = float(np.mean([_dice(each > 0.5, mask) for each in tried]))
    guess = torch.nan_to_num(torch.nanmean(carried, dim=0))
    agreed = _dice(guess > 0.5, mask) if guess.any() else certain
    return np.array([certain, steady, agreed])


def estimate(tried: torch.Tensor, carried: torch.Tensor, joined: torch.Tensor, mask: torch.Tensor) -> Quality:
    """The quality of one structure's outline.

    tried: (changes, k, j, i) answers to changed inputs. carried: (n, k, j, i) labels of each example, NaN where there
    is none. joined: (k, j, i) final probability. mask: (k, j, i) the outline.
    """
    score = float(_CONSTANT + _WEIGHTS @ evidence(tried, carried, joined, mask))
    dice = 1 / (1 + np.exp(-score))
    low, high = (float(1 / (1 + np.exp(-(score + way * _SPREAD)))) for way in (-1, 1))
    factor = float(np.exp(_VOLUME_SPREAD * (1 - dice)))
    return Quality(float(dice), low, high, 1 / factor, factor)


def _dice(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(2 * (one & other).sum() / (one.sum() + other.sum()).clamp(min=1))
