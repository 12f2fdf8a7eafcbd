"""The contrast of slices by their position, and the two-dimensional U-Net whose encoder learns it."""

import torch
import torch.nn.functional as F
from torch import nn

TEMPERATURE = 0.1
_WIDTHS = (12, 24, 48, 64)


def position_contrast(z: torch.Tensor, position: torch.Tensor, threshold: float) -> torch.Tensor:
    """Equation 2 of Zeng 2021: slices whose positions differ by less than the threshold are positives of each other.

    z: (n, c) vectors. position: (n,) slice index over number of slices. A sample without positives counts 0.
    """
    unit = F.normalize(z, dim=1)
    itself = torch.eye(len(z), dtype=torch.bool)
    likeness = (unit @ unit.T / TEMPERATURE).masked_fill(itself, float("-inf"))
    log_share = (likeness - torch.logsumexp(likeness, dim=1, keepdim=True)).masked_fill(itself, 0.0)
    positive = ((position[:, None] - position[None]).abs() < threshold) & ~itself
    return -((positive * log_share).sum(1) / positive.sum(1).clamp(min=1)).mean()


class UNet(nn.Module):
    """Slices (b, 1, j, i) to logits (b, classes, j, i); j and i are multiples of 8."""

    def __init__(self, classes: int):
        super().__init__()
        pairs = list(zip((1, *_WIDTHS), _WIDTHS, strict=False))
        self.encoder = nn.ModuleList(_block(narrow, wide) for narrow, wide in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(wide, narrow, 2, stride=2) for narrow, wide in pairs[:0:-1])
        self.decoder = nn.ModuleList(_block(2 * narrow, narrow) for narrow, _ in pairs[:0:-1])
        self.head = nn.Conv2d(_WIDTHS[0], classes, 1)
        self.project = nn.Sequential(nn.Linear(_WIDTHS[-1], 64), nn.ReLU(), nn.Linear(64, 64))

    def encode(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Features of each level, finest first."""
        levels = [self.encoder[0](x)]
        for block in self.encoder[1:]:
            levels.append(block(F.max_pool2d(levels[-1], 2)))
        return levels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        *skips, x = self.encode(x)
        for up, block, skip in zip(self.up, self.decoder, reversed(skips), strict=True):
            x = block(torch.cat([skip, up(x)], dim=1))
        return self.head(x)


def _block(inputs: int, width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (inputs, width):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.InstanceNorm2d(width, affine=True), nn.ReLU()]
    return nn.Sequential(*layers)
