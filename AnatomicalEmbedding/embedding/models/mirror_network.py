"""A small network that recognises mirrored scans.

If a scan is mirrored along an axis, the network's output for this axis changes its sign.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from .convolution import Convolution

_CHANNELS = 2  # mean and standard deviation of the image in a cell
STRIDE = 4  # stride of the last layer; inputs are padded to multiples of STRIDE
AXES = (4, 3, 2)  # the axes of a batch along R, A and S


class MirrorNetwork(nn.Module):
    """Computes the log odds that a scan is stored correctly along R, A and S: the mean over several networks (members).

    widths: number of channels in the three parts of each member.
    """

    def __init__(self, widths: Sequence[int] = (16, 32, 64), members: int = 1) -> None:
        super().__init__()
        self.members = nn.ModuleList(_member(*widths) for _ in range(members))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the log odds (b, 3) that each scan is stored correctly along R, A and S.

        x: (b, 3, k, j, i) cells of about 12 mm. Channels: mean and standard deviation of the image in the cell, and
        the share of the cell that lies in the body. k, j and i are multiples of STRIDE.
        """
        views = torch.cat([x, *(x.flip(axis) for axis in AXES)])
        weight = F.avg_pool3d(views[:, _CHANNELS:], STRIDE)
        total = weight.sum((2, 3, 4)).clamp_min(1e-3)
        log_odds = []
        for member in self.members:
            mean = (member(views[:, :_CHANNELS]) * weight).sum((2, 3, 4)) / total
            # (b, 3) each: of the scans, then of their mirror images along R, A and S
            stored, *mirrored = mean.chunk(4)
            differences = [stored[:, n] - mirrored[n][:, n] for n in range(3)]
            log_odds.append(4 * torch.stack(differences, dim=1))
        return torch.stack(log_odds).mean(0)


def _member(first: int, second: int, third: int) -> nn.Sequential:
    """Make one network: (b, 2, k, j, i) -> (b, 3, k/4, j/4, i/4), log odds along R, A and S. Arguments: channels."""
    return nn.Sequential(
        Convolution(_CHANNELS, first, 2, stride=2),
        nn.ReLU(),
        Convolution(first, first, 3, padding=1),
        nn.ReLU(),
        Convolution(first, second, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool3d(2),
        Convolution(second, third, 3, padding=1),
        nn.ReLU(),
        nn.Dropout3d(0.1),
        Convolution(third, 3, 1),
    )
