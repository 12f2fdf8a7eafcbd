"""The objectives: the paper's distances (equations 1-2) and ours, the coordinate itself."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .scans import PreparedScan


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


def coordinate_loss(predicted: torch.Tensor, target: torch.Tensor, inside: torch.Tensor, beta: float) -> torch.Tensor:
    """Smooth L1 between coordinates (b, 3, ...) at the cells `inside` (b, ...), each crop weighing the same.

    A crop without such a cell counts as one without error, so that batches in parts average to the whole.
    """
    error = F.smooth_l1_loss(predicted, target, beta=beta, reduction="none").sum(1)
    weight = inside.to(error.dtype)
    cells = weight.flatten(1).sum(1)
    return ((error * weight).flatten(1).sum(1) / cells.clamp_min(1.0)).mean()


class FrameCorrections(nn.Module):
    """What training settles about each scan's body frame: a small affine correction about the scan's middle.

    The first guess (levels, skeleton) is right to a few centimetres; scans that the network sees as displaced or
    scaled against the others are moved, against a Gaussian prior whose deviations the guess states. Phantoms, whose
    frame is exact, have deviation zero and stay.
    """

    def __init__(self, scans: list[PreparedScan], unit_mm: float):
        super().__init__()
        priors = {
            "centre": np.array([_middle(s) for s in scans]) / unit_mm,
            "shift_sd": np.array([s.frame.shift_sd_mm for s in scans]) / unit_mm,
            "scale_sd": np.array([s.frame.scale_sd for s in scans]),
        }
        for name, values in priors.items():
            self.register_buffer(name, torch.from_numpy(values).float(), persistent=False)
        # both in standard deviations of their priors: one learning rate fits all
        self.shift = nn.Parameter(torch.zeros(len(scans), 3))
        self.scale = nn.Parameter(torch.zeros(len(scans), 3))

    def forward(self, target: torch.Tensor, scan: torch.Tensor) -> torch.Tensor:
        """target: (b, 3, k, j, i) guessed coordinates in units; scan: (b,) index. Returns the corrected ones."""

        def spread(x: torch.Tensor) -> torch.Tensor:
            return x[scan][:, :, None, None, None]

        scale = spread(self.scale * self.scale_sd)
        return target + (target - spread(self.centre)) * scale + spread(self.shift * self.shift_sd)

    def prior(self, scan: torch.Tensor) -> torch.Tensor:
        """Mean squared correction, in prior deviations, of the scans in the batch."""
        return (self.shift[scan].square() + self.scale[scan].square()).sum(1).mean()


def _middle(scan: PreparedScan) -> np.ndarray:
    middle_ijk = np.array(scan.hu.shape[::-1]) / 2
    ras = scan.grid_to_ras[:3, :3] @ middle_ijk + scan.grid_to_ras[:3, 3]
    return scan.frame.apply(ras[None])[0]


def _distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    # cdist's gradient at zero distance is zero, as wanted on the diagonal of equation 1
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
