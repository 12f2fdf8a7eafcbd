"""The U-Net that outlines structures: image and body coordinate in, one probability for each structure out.

Ronneberger 2015, in two or three dimensions, small enough for a CPU. Features of the embedding network may join it at
its second level.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn

from ..embedding.device import fast_dtype
from ..embedding.tensor_files import check_fields

STEP = 8  # sizes of the input are multiples of it
_MOST_CHANNELS = 4096
_SLOPE = 0.01
_TRUST = 6.0  # logits between a guess of 0 and of 1
_FEW = -3.0  # logit of all structures before training: few voxels belong to one


@dataclass(frozen=True)
class UNetSpec:
    """What rebuilds a network around its weights. inputs: channels. outputs: structures. features: channels of the
    embedding that join at the second level, 0: none. widths: channels of the levels. dimensions: 2 or 3. prior:
    whether the last `outputs` of the inputs are a first guess of each structure (0..1), which the network corrects.
    """

    inputs: int
    outputs: int
    features: int = 0
    widths: tuple[int, ...] = (16, 32, 64, 96)
    dimensions: int = 3
    prior: bool = False

    def to_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> UNetSpec:
        """Raises ValueError, TypeError or KeyError for values that no network can have."""
        check_fields(cls, values)
        spec = cls(**values | {"widths": tuple(values["widths"])})
        counts = (spec.inputs, spec.outputs, *spec.widths)
        few = all(1 <= count <= _MOST_CHANNELS for count in counts) and 0 <= spec.features <= _MOST_CHANNELS
        if not few or not 2 <= len(spec.widths) <= 8 or spec.dimensions not in (2, 3):
            raise ValueError("a network cannot be of these sizes")
        return spec


class UNet(nn.Module):
    """forward: (b, inputs, [k,] j, i) and features (b, features, half the size) or None -> logits (b, outputs, ...)."""

    def __init__(self, spec: UNetSpec):
        super().__init__()
        self.spec, widths = spec, spec.widths
        up = nn.ConvTranspose3d if spec.dimensions == 3 else nn.ConvTranspose2d
        convolution = nn.Conv3d if spec.dimensions == 3 else nn.Conv2d
        self.pool = F.max_pool3d if spec.dimensions == 3 else F.max_pool2d
        if spec.features:
            self.join = nn.Sequential(convolution(spec.features, widths[0], 1), nn.LeakyReLU(_SLOPE))
        joined = [0, widths[0] if spec.features else 0, *[0] * (len(widths) - 2)]
        self.encoder = nn.ModuleList(
            _block(convolution, (widths[n - 1] if n else spec.inputs) + joined[n], width)
            for n, width in enumerate(widths)
        )
        levels = range(len(widths) - 1, 0, -1)
        self.up = nn.ModuleList(up(widths[n], widths[n - 1], 2, stride=2) for n in levels)
        self.decoder = nn.ModuleList(_block(convolution, 2 * widths[n - 1], widths[n - 1]) for n in levels)
        self.head = convolution(widths[0], spec.outputs, 1)
        if spec.prior:  # the first answer is the guess itself
            nn.init.zeros_(self.head.weight)
        nn.init.constant_(self.head.bias, 0.0 if spec.prior else _FEW)

    def encode(self, x: torch.Tensor, features: torch.Tensor | None = None) -> list[torch.Tensor]:
        """Features of each level on the way down, finest first."""
        levels: list[torch.Tensor] = []
        for n, block in enumerate(self.encoder):
            x = self.pool(x, 2) if n else x
            if n == 1 and self.spec.features:
                x = torch.cat([x, self.join(features)], dim=1)
            x = block(x)
            levels.append(x)
        return levels

    def forward(self, x: torch.Tensor, features: torch.Tensor | None = None) -> torch.Tensor:
        guess = _TRUST * (x[:, -self.spec.outputs :].float() - 0.5) if self.spec.prior else 0.0
        *skips, x = self.encode(x, features)
        for up, block, skip in zip(self.up, self.decoder, reversed(skips), strict=True):
            x = block(torch.cat([skip, up(x)], dim=1))
        return self.head(x).float() + guess


def _block(convolution: type[nn.Module], inputs: int, width: int) -> nn.Sequential:
    norm = nn.InstanceNorm3d if convolution is nn.Conv3d else nn.InstanceNorm2d
    layers: list[nn.Module] = []
    for channels in (inputs, width):
        layers += [
            convolution(channels, width, 3, padding=1, bias=False),
            norm(width, affine=True),
            nn.LeakyReLU(_SLOPE, inplace=True),
        ]
    return nn.Sequential(*layers)


def precision(device: torch.device) -> torch.autocast:
    """Half precision where the device computes in it: more than twice as fast on CPUs with bfloat16 instructions."""
    dtype = fast_dtype(device)
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16)
