"""The organ head: the share of each cell that each organ takes, and a code of it for the local descriptor.

Its inputs: the finest level of the body, the level above, the coordinate, and the local
descriptors and the image itself at stride 2, eight cells of which lie within a cell.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from .convolution import Convolution, convolve

_WIDTH = 72
_CONTEXT = 48
_CELLS = 8  # of stride 2 within one of stride 4; in the weights, each channel's cells follow one another
_LEAST_LENGTH = 1e-12
_ORGAN_SHARE = 0.5  # of the similarity of two local descriptors: the organs; the rest is appearance


class OrganHead(nn.Module):
    """Probabilities of organs in a cell of stride 4. Trained on its own, on a body that stays as it is.

    places: (n, 7) of each organ as a whole: mean coordinate (3, in units of the network), standard deviation of its
    cells' coordinates (3, likewise), volume in ml; over the patients that the head was trained on.
    codes: (1 + n, d) unit vectors, everything else first; codes of organs that lie next to each other differ.
    """

    def __init__(self, widths: tuple[int, ...], local_channels: int, organs: int, code_channels: int = 0):
        super().__init__()
        self.context = Convolution(widths[1], _CONTEXT, 1)
        inputs = widths[0] + _CELLS * (local_channels + 1) + _CONTEXT + 3
        self.mix = nn.Sequential(Convolution(inputs, _WIDTH, 1), nn.BatchNorm3d(_WIDTH), nn.ReLU())
        self.around = nn.Sequential(*_convolution(), *_convolution())
        self.out = Convolution(_WIDTH, 1 + organs, 1)  # the first is everything else
        self.register_buffer("places", torch.zeros(organs, 7))
        if code_channels:
            self.register_buffer("codes", torch.zeros(1 + organs, code_channels))

    @staticmethod
    def channels_at_once(local_channels: int) -> int:
        """Values per cell of stride 4 that are in memory at the same time, for the memory budget."""
        return 2 * _CELLS * (local_channels + 1) + 6 * _WIDTH

    def forward(
        self,
        x: torch.Tensor,
        coordinate: torch.Tensor,
        fine: torch.Tensor,
        coarse: torch.Tensor,
        local: torch.Tensor,
        cells: Sequence[slice] = (),
    ) -> torch.Tensor:
        """(b, n, k/4, j/4, i/4) probabilities of the organs; the rest up to 1 is everything else.

        x: (b, 1, k, j, i) network input. coordinate, fine: stride 4. coarse: stride 8. local: stride 2. cells: the part
        of `coarse` (k, j, i), counted at stride 4, that all others show; default: from its first cell on.
        """
        return self.logits(F.avg_pool3d(x, 2), coordinate, fine, coarse, local, cells).float().softmax(1)[:, 1:]

    def join(self, local: torch.Tensor, organs: torch.Tensor) -> torch.Tensor:
        """Local descriptors (b, l + d, k/2, j/2, i/2) of unit length, of appearance (b, l, ...) and of organs; float16.

        organs: (b, n, k/4, j/4, i/4) probabilities. The part of the organs has the direction of the sum of their codes,
        each weighted by the square root of its probability, whose product is the Bhattacharyya coefficient.
        """
        every = torch.cat([1 - organs.sum(1, keepdim=True), organs], dim=1).clamp_min(0).sqrt()
        code = torch.einsum("bnkji,nd->bkjid", every, self.codes).movedim(-1, 1)
        code = F.interpolate(code, scale_factor=2, mode="trilinear")
        code = code * (_ORGAN_SHARE**0.5 / code.square().sum(1, keepdim=True).sqrt_().clamp_min_(_LEAST_LENGTH))
        return torch.cat([local.half() * (1 - _ORGAN_SHARE) ** 0.5, code.half()], dim=1)

    def logits(
        self,
        image: torch.Tensor,
        coordinate: torch.Tensor,
        fine: torch.Tensor,
        coarse: torch.Tensor,
        local: torch.Tensor,
        cells: Sequence[slice] = (),
    ) -> torch.Tensor:
        """(b, 1 + n, k/4, j/4, i/4), everything else first. image: the network input at stride 2."""
        where = cells or [slice(n) for n in fine.shape[2:]]
        context = F.interpolate(self.context(coarse), scale_factor=2, mode="trilinear")[(..., *where)]
        # one layer over all inputs, in parts: the cells of stride 2 need not become channels
        layer, rest = self.mix[0], self.mix[1:]
        sizes = [fine.shape[1], _CELLS * (local.shape[1] + 1), _CONTEXT, coordinate.shape[1]]
        of_fine, within, *others = layer.weight.split(sizes, dim=1)
        within = within.reshape(_WIDTH, -1, 2, 2, 2)
        mixed = convolve(torch.cat([fine, context, coordinate], dim=1), torch.cat([of_fine, *others], dim=1))
        mixed = mixed + convolve(local, within[:, :-1], layer.bias, (2, 2, 2))
        mixed = rest(mixed + convolve(image, within[:, -1:], None, (2, 2, 2)))
        return self.out(mixed + self.around(mixed))


def _convolution() -> tuple[nn.Module, ...]:
    return Convolution(_WIDTH, _WIDTH, 3, padding=1, bias=False), nn.BatchNorm3d(_WIDTH), nn.ReLU()
