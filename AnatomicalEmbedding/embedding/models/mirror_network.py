"""A small network that recognises mirrored scans.

If a scan is mirrored along an axis, the network's output for this axis changes its sign.
"""

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

    def __init__(self, widths: tuple[int, int, int] = (16, 32, 64), members: int = 1) -> None:
        super().__init__()
        self.members = nn.ModuleList(_member(*widths) for _ in range(members))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the log odds (b, 3) that each scan is stored correctly along R, A and S.

        x: (b, 3, k, j, i) cells of about 12 mm. Channels: mean and standard deviation of the image in the cell, and
        the share of the cell that lies in the body. k, j and i are multiples of STRIDE.
        """
        turned = [x, *(x.flip(axis) for axis in AXES)]
        return torch.stack([self._of_member(member, turned) for member in self.members]).mean(0)

    @staticmethod
    def _of_member(member: nn.Module, turned: list[torch.Tensor]) -> torch.Tensor:
        """Return one network's log odds (b, 3) that scans are stored correctly along R, A and S. turned: the scans,
        then their mirror images along R, A and S."""
        views = torch.cat(turned)
        weight = F.avg_pool3d(views[:, _CHANNELS:], STRIDE)
        mean = (member(views[:, :_CHANNELS]) * weight).sum((2, 3, 4)) / weight.sum(
            (2, 3, 4)
        ).clamp_min(1e-3)
        stored, *mirrored = mean.chunk(4)
        return 4 * torch.stack([stored[:, n] - mirrored[n][:, n] for n in range(3)], dim=1)


def _member(first: int, second: int, third: int) -> nn.Sequential:
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
