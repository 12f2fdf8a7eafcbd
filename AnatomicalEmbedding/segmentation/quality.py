"""Which outlines deserve a look first, judged without truth: by certainty, steadiness, and the carried labels."""

import numpy as np
import torch

# Fitted to the true Dice of 324 outlines of development scans, see RESULTS.md: what each sign adds to its logit.
_WEIGHTS = np.array([2.10, 11.84, 1.74, 0.23, -0.57])
_LEAST_STEADY = 0.85  # of the outlines it was fitted to


def signs(guess: torch.Tensor, tried: torch.Tensor, kept: torch.Tensor, spacing_mm: float, examples: int) -> np.ndarray:
    """(5,): the Dice that the probabilities themselves expect; the overlap with the outlines of changed inputs; the
    Dice that the carried labels expect of themselves, which falls where the examples disagree; the logarithm of the
    thickness in mm; 1 where there is one example only.

    guess: (k, j, i) mean of the carried labels. tried: (changes, k, j, i) probabilities for changed inputs. kept:
    (k, j, i) the probability that the outline is made of.
    """
    mask = kept > 0.5
    steady = float(np.mean([_dice(each > 0.5, mask) for each in tried]))
    faces = sum(float((mask != mask.roll(1, axis)).sum()) for axis in range(3))
    thickness = 6 * float(mask.sum()) / max(faces, 1.0) * spacing_mm
    return np.array([
        _expected(kept, mask), max(steady, _LEAST_STEADY), _expected(guess, guess > 0.5), np.log(max(thickness, 1.0)),
        float(examples == 1),
    ])  # fmt: skip


def doubt(of: np.ndarray) -> float:
    """A number that sorts outlines by their `signs`: of two, the one with the larger number deserves a look first.

    It states no overlap with the truth: in scans of other sources than the examples, that would be too sure.
    """
    return float(-_WEIGHTS @ of)


def _expected(probability: torch.Tensor, mask: torch.Tensor) -> float:
    """The Dice of a mask with the truth, were the probabilities right."""
    return float(2 * probability[mask].sum() / (probability.sum() + mask.sum()).clamp(min=1e-6))


def _dice(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(2 * (one & other).sum() / (one.sum() + other.sum()).clamp(min=1))
