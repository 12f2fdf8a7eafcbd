"""The organ head: estimates the share of each cell that each organ fills, and appends organ codes to descriptors.

Its inputs are the features of the U-Net at strides 4 and 8, the coordinate at stride 4, the local descriptors at stride
2, and the image at stride 2. Each cell of stride 4 contains eight cells of stride 2.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from .convolution import Convolution, convolve

_WIDTH = 72  # channels of the hidden layers; by hand, not tuned
_CONTEXT = 48  # channels read from the features at stride 8; by hand, not tuned
LEAST_LENGTH = 1e-12  # of a vector that divides, so that a vector of zeros stays 0
_CELLS = 8  # number of stride-2 cells in a stride-4 cell; in `mix`, their weights for one channel are adjacent
_ORGAN_SHARE = 0.5  # share of the organ codes in the similarity of two descriptors; appearance has the other half


class OrganHead(nn.Module):
    """Computes the probabilities of organs in each cell of stride 4. Training this head does not change the U-Net.

    places: (n, 7) medians over the training patients, for each organ: mean coordinate (3, in units of the network),
    standard deviation of the coordinates of its cells (3, same units) and volume in ml (1).
    codes: (1 + n, d) organ codes: one unit vector for each organ; row 0 is for "no organ". Codes of neighbouring
    organs differ.
    """

    def __init__(
        self, widths: tuple[int, ...], local_channels: int, organs: int, code_channels: int = 0
    ):
        super().__init__()
        self.context = Convolution(widths[1], _CONTEXT, 1)
        inputs = widths[0] + _CELLS * (local_channels + 1) + _CONTEXT + 3
        self.mix = nn.Sequential(Convolution(inputs, _WIDTH, 1), nn.BatchNorm3d(_WIDTH), nn.ReLU())
        self.around = nn.Sequential(*_convolution(), *_convolution())
        self.out = Convolution(_WIDTH, 1 + organs, 1)  # channel 0 is "no organ"
        self.register_buffer("places", torch.zeros(organs, 7))
        if code_channels:
            self.register_buffer("codes", torch.zeros(1 + organs, code_channels))

    @staticmethod
    def channels_at_once(local_channels: int) -> int:
        """Return how many numbers `forward` keeps in memory at the same time for each cell of stride 4."""
        return 2 * _CELLS * (local_channels + 1) + 6 * _WIDTH

    def join(self, local: torch.Tensor, organs: torch.Tensor) -> torch.Tensor:
        """Append organ codes to local descriptors (b, l, k/2, ...). Returns unit vectors (b, l + d, k/2, ...), float16.

        organs: (b, n, k/4, j/4, i/4) probabilities. The appended code is the sum of all organs' codes, each weighted by
        the square root of the organ's probability. So the product of the codes of two places is similar to the
        Bhattacharyya coefficient of their probabilities.
        """
        no_organ = 1 - organs.sum(1, keepdim=True)
        weights = torch.cat([no_organ, organs], dim=1).clamp_min(0).sqrt()
        code = torch.einsum("bnkji,nd->bkjid", weights, self.codes).movedim(-1, 1)
        code = F.interpolate(code, scale_factor=2, mode="trilinear")
        length = code.square().sum(1, keepdim=True).sqrt_().clamp_min_(LEAST_LENGTH)
        code = code * (_ORGAN_SHARE**0.5 / length)
        return torch.cat([local.half() * (1 - _ORGAN_SHARE) ** 0.5, code.half()], dim=1)

    def forward(
        self,
        image: torch.Tensor,
        coordinate: torch.Tensor,
        fine: torch.Tensor,
        coarse: torch.Tensor,
        local: torch.Tensor,
        cells: Sequence[slice] = (),
    ) -> torch.Tensor:
        """Compute logits (b, 1 + n, k/4, j/4, i/4) of n organs; channel 0: "no organ".

        Args:
            image: (b, 1, k/2, j/2, i/2) network input, averaged to stride 2.
            coordinate, fine: stride 4.
            coarse: stride 8, always of the whole scan.
            local: stride 2.
            cells: the part of the scan that all inputs except `coarse` show, as slices k, j, i in cells of stride 4;
                default: the part starts at cell 0.
        """
        part = cells or [slice(n) for n in fine.shape[2:]]
        context = F.interpolate(self.context(coarse), scale_factor=2, mode="trilinear")
        cell_features = torch.cat([fine, context[(..., *part)], coordinate], dim=1)
        mixed = self._first_layer(cell_features, fine.shape[1], local, image)
        for layer in self.mix[1:]:
            mixed = layer(mixed)
        return self.out(mixed + self.around(mixed))

    def _first_layer(
        self,
        cell_features: torch.Tensor,
        fine_channels: int,
        local: torch.Tensor,
        image: torch.Tensor,
    ) -> torch.Tensor:
        """Compute the first layer in parts, so that stride-2 cells need not be rearranged into channels.

        The channels of its weight are: `fine`; for each channel of `local`, then for the image, the eight stride-2
        cells; the context; the coordinate.

        Args:
            cell_features: `fine`, context and coordinate, stride 4.
            fine_channels: number of channels of `fine`.
            local, image: stride 2.
        """
        layer = self.mix[0]
        sizes = [fine_channels, _CELLS * (local.shape[1] + 1)]
        sizes.append(layer.weight.shape[1] - sum(sizes))
        fine_weight, eighths_weight, context_weight = layer.weight.split(sizes, dim=1)
        eighths_weight = eighths_weight.reshape(_WIDTH, -1, 2, 2, 2)
        local_weight, image_weight = eighths_weight[:, :-1], eighths_weight[:, -1:]
        mixed = convolve(cell_features, torch.cat([fine_weight, context_weight], dim=1))
        mixed = mixed + convolve(local, local_weight, layer.bias, (2, 2, 2))
        return mixed + convolve(image, image_weight, None, (2, 2, 2))


def _convolution() -> tuple[nn.Module, ...]:
    return Convolution(_WIDTH, _WIDTH, 3, padding=1, bias=False), nn.BatchNorm3d(_WIDTH), nn.ReLU()
