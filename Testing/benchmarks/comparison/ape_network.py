"""The network of APE as released: a 3-D ConvNeXt U-Net whose levels each add a linear guess. For its speed alone.

Described by Goncharov et al. (MICCAI 2024, repository mishgon/ape) and fixed by the names and shapes of its
weights, which this implementation reproduces. Three things differ from our own network: blocks are ConvNeXt
(Liu et al., 2022, in three dimensions), skips are added instead of concatenated, and the answer is a sum of one
linear map per level, coarse to fine.
"""

import torch
from torch import nn
from torch.nn import functional as F

WIDTHS = (96, 192, 384, 768)
ENCODER_DEPTHS = (3, 3, 9)
BOTTOM_DEPTH = 3
DECODER_DEPTHS = (1, 1, 1)
STRIDE = 4


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of a (b, c, x, y, z) map, at each place on its own."""

    def __init__(self, channels: int):
        super().__init__(channels, eps=1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


class Stem(nn.Module):
    """Non-overlapping 4x4x4 patches, and a last channel that says which of them are visible (here: all)."""

    def __init__(self, width: int):
        super().__init__()
        self.conv = nn.Conv3d(1, width - 1, STRIDE, stride=STRIDE)
        self.norm = ChannelNorm(width - 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        patches = self.norm(self.conv(x))
        return torch.cat([patches, torch.ones_like(patches[:, :1])], dim=1)


class ChannelScale(nn.Module):
    """One learned factor per channel; starts small, so that a fresh block is nearly the identity."""

    def __init__(self, channels: int):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((channels, 1, 1, 1), 1e-6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gamma


class ConvNeXtBlock(nn.Module):
    """Depthwise 3x3x3, then a four times wider layer at each place, added to the input."""

    def __init__(self, channels: int):
        super().__init__()
        self.conv_1 = nn.Conv3d(channels, channels, 3, padding=1, groups=channels)
        self.norm = ChannelNorm(channels)
        self.conv_2 = nn.Conv3d(channels, 4 * channels, 1)
        self.conv_3 = nn.Conv3d(4 * channels, channels, 1)
        self.layerscale = ChannelScale(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = F.gelu(self.conv_2(self.norm(self.conv_1(x))))
        return x + self.layerscale(self.conv_3(wide))


class Stage(nn.Module):
    """Several blocks of one width."""

    def __init__(self, channels: int, depth: int):
        super().__init__()
        self.blocks = nn.ModuleList(ConvNeXtBlock(channels) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class FeaturePyramid(nn.Module):
    """(b, 1, x, y, z), sizes multiples of 32 -> four feature maps at strides 4, 8, 16, 32, finest first."""

    def __init__(self) -> None:
        super().__init__()
        finer, coarser = WIDTHS[:-1], WIDTHS[1:]
        self.stem = Stem(WIDTHS[0])
        self.left_stages = nn.ModuleList(Stage(c, depth) for c, depth in zip(finer, ENCODER_DEPTHS, strict=True))
        self.middle_norms = nn.ModuleList(ChannelNorm(c) for c in finer)
        self.down_blocks = nn.ModuleList(nn.Conv3d(c, d, 2, stride=2) for c, d in zip(finer, coarser, strict=True))
        self.bottom_stage = Stage(WIDTHS[-1], BOTTOM_DEPTH)
        self.up_blocks = nn.ModuleList(
            nn.Sequential(nn.Conv3d(d, c, 1), nn.Upsample(scale_factor=2, mode="trilinear"))
            for c, d in zip(finer, coarser, strict=True)
        )
        self.skip_connections = nn.ModuleList(nn.Conv3d(c, c, 1) for c in finer)
        self.right_stages = nn.ModuleList(Stage(c, depth) for c, depth in zip(finer, DECODER_DEPTHS, strict=True))
        self.final_norms = nn.ModuleList(ChannelNorm(c) for c in WIDTHS)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = self.stem(x)
        skips = []
        for stage, norm, down in zip(self.left_stages, self.middle_norms, self.down_blocks, strict=True):
            skips.append(norm(stage(x)))
            x = down(skips[-1])
        x = self.bottom_stage(x)
        coarse_to_fine = [self._finish(x, len(WIDTHS) - 1)]
        for level in reversed(range(len(skips))):
            x = self.up_blocks[level](x) + self.skip_connections[level](skips.pop())
            x = self.right_stages[level](x)
            coarse_to_fine.append(self._finish(x, level))
        return coarse_to_fine[::-1]

    def _finish(self, x: torch.Tensor, level: int) -> torch.Tensor:
        return F.gelu(self.final_norms[level](x))


class LinearHead(nn.Module):
    """A 1x1x1 map to `outputs` channels at each level, summed from coarse to fine on the finest grid."""

    def __init__(self, outputs: int):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv3d(c, outputs, 1, bias=level == 0) for level, c in enumerate(WIDTHS))

    def forward(self, pyramid: list[torch.Tensor]) -> torch.Tensor:
        guesses = [conv(features) for conv, features in zip(self.convs, pyramid, strict=True)]
        total = guesses.pop()
        while guesses:
            total = guesses.pop() + F.interpolate(total, scale_factor=2, mode="trilinear")
        return total


class ApeShaped(nn.Module):
    """(b, 1, x, y, z), sizes multiples of 32 -> three numbers in 0..1 for every cell of 4 x 4 x 4 voxels."""

    def __init__(self) -> None:
        super().__init__()
        self.fpn, self.head = FeaturePyramid(), LinearHead(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.fpn(x)).sigmoid()
