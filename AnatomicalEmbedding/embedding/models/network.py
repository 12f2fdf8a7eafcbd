"""The network and its heads: coordinate (Goncharov 2024, section 2.1), global and local descriptor (Yan 2022), organs.

All heads share a strided stem and a 3-D U-Net on the stride-4 grid. The coordinate is computed from the finest
resolution of the U-Net. The global descriptor is computed from the next coarser resolution and has a wide context. The
local descriptor is computed from the finest resolution and from the image at stride 2, and shows fine detail. The organ
head reads the image, both resolutions, the coordinate and the local descriptor.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from ...anatomy.names import canonical_name
from ...scan.checks import MAX_SPACING_MM, MIN_SPACING_MM
from ..device import mixed_precision
from ..tensor_files import from_json
from .convolution import Convolution
from .organs import LEAST_LENGTH, OrganHead

STRIDE = 4  # voxels along a side of a cell of coordinates
GLOBAL_STRIDE = 8  # the same of global descriptors
LOCAL_STRIDE = 2  # the same of local descriptors
MOST_CHANNELS = 4096  # in a file; shipped networks have up to 256
_LARGEST_KNOT = 1e6  # in a file; shipped networks have up to 1300 HU
_RIM_CELLS = 3  # two cells that the organ head sees around a cell, and one for interpolation
DESCRIPTOR_HEADS = ("global_", "local")  # names of the modules
OPTIONAL_HEADS = (*DESCRIPTOR_HEADS, "organs")


class Features(NamedTuple):
    """The network's output for a volume. The field of a missing head is None. Descriptors are unit vectors.

    coordinate: (b, 3, k/4, j/4, i/4), channels along R, A, S in units of `unit_mm`. global_: (b, g, k/8, j/8, i/8),
    sizes rounded up. local: (b, l, k/2, j/2, i/2), float16 at inference. organs: for n organs, the share of a cell that
    each organ fills, (b, n, k/4, j/4, i/4); in training logits (b, 1 + n, ...), channel 0: "no organ".
    """

    coordinate: torch.Tensor | None = None
    global_: torch.Tensor | None = None
    local: torch.Tensor | None = None
    organs: torch.Tensor | None = None


@dataclass(frozen=True)
class NetworkSpec:
    """Everything needed to rebuild the network around its weights.

    Args:
        widths: channels of the U-Net resolutions (two or more), finest (stride 4) first.
        spacing_mm: (x, y, z) spacing of the working grid with which the network was trained.
        hu_knots, level_knots: HU and network input at the knots of a piecewise-linear function, constant beyond knots.
        unit_mm: mm in one unit of the coordinate; None if the coordinate has no metric unit (as in papers).
        frame: "body" for coordinates of the common body; "scan" if the origin differs from scan to scan; "film" for the
            mean body coordinate, right and up, of the tissue that a place of a film shows.
        normalise_output: whether a batch normalisation without parameters follows the coordinate (Goncharov 2024).
        scales: inference magnifies the scan by each of these factors and averages the coordinates.
        coordinates: whether the network has a coordinate head.
        global_channels, local_channels: number of channels of the descriptors; 0 if the network lacks this head.
        organs: names of the organs that the organ head finds; empty if there is no organ head. The organ head needs
            coordinates and local descriptors.
        organ_channels: number of channels, added to the local descriptor, that encode the organs at a place; may be 0.
        planar: whether the network embeds films: scans with one slice, which is one cell thick along A. Kernels and
            strides along A are then 1, except where the film's equal layers are joined to one cell.
    """

    widths: tuple[int, ...] = (24, 64, 128, 256)
    spacing_mm: tuple[float, float, float] = (2.0, 2.0, 3.0)
    hu_knots: tuple[float, ...] = (-1000.0, -150.0, 250.0, 1300.0)
    level_knots: tuple[float, ...] = (0.0, 0.25, 0.85, 1.0)
    unit_mm: float | None = 100.0
    frame: str = "body"
    normalise_output: bool = False
    scales: tuple[float, ...] = (1.0,)
    coordinates: bool = True
    global_channels: int = 0
    local_channels: int = 0
    organs: tuple[str, ...] = ()
    organ_channels: int = 0
    planar: bool = False

    @classmethod
    def from_dict(cls, values: dict) -> "NetworkSpec":
        """Make a spec from its fields. Raises ValueError or TypeError for values that no network can have."""
        spec = from_json(cls, values)
        rising = all(low + 1e-3 <= high for low, high in pairwise(spec.hu_knots))
        fits = (
            2 <= len(spec.widths) <= 8
            and all(1 <= width <= MOST_CHANNELS for width in spec.widths)
            and all(MIN_SPACING_MM <= step <= MAX_SPACING_MM for step in spec.spacing_mm)
            and (len(spec.hu_knots) == len(spec.level_knots) >= 2 and rising)
            and all(abs(knot) <= _LARGEST_KNOT for knot in (*spec.hu_knots, *spec.level_knots))
            and (spec.unit_mm is None or 0 < spec.unit_mm < 1e6)
            and spec.frame in ("body", "scan", "film")
            and spec.planar == (spec.frame == "film")
            and not (spec.planar and (spec.organs or spec.scales != (1.0,)))
            and (1.0 in spec.scales and all(0.25 <= scale <= 4.0 for scale in spec.scales))
            and all(
                0 <= count <= MOST_CHANNELS for count in (spec.global_channels, spec.local_channels)
            )
        )
        if not fits:
            raise ValueError(
                "widths, spacings, knots, scales, channels, unit or frame are out of range; correct them"
            )
        return spec


class EmbeddingNetwork(nn.Module):
    """Computes `Features` from network input (b, 1, k, j, i), where k, j, i are multiples of `size_step`."""

    stride = STRIDE
    size_step = STRIDE

    def __init__(self, spec: NetworkSpec):
        super().__init__()
        self.spec = spec
        self.spacing_mm = spec.spacing_mm
        self.scales = spec.scales
        self.unit_mm = spec.unit_mm
        widths = spec.widths
        self.stem = Convolution(1, widths[0], STRIDE, stride=STRIDE)
        planar = spec.planar
        self.encoder = nn.ModuleList(
            _DoubleConvolution(widths[max(depth - 1, 0)], width, planar)
            for depth, width in enumerate(widths)
        )
        two = (2, 1, 2) if planar else (2, 2, 2)
        self.pool = nn.MaxPool3d(two, ceil_mode=True)
        coarse_to_fine = range(len(widths) - 1, 0, -1)
        self.up = nn.ModuleList(
            nn.ConvTranspose3d(widths[n], widths[n - 1], two, stride=two) for n in coarse_to_fine
        )
        self.decoder = nn.ModuleList(
            _DoubleConvolution(2 * widths[n - 1], widths[n - 1], planar) for n in coarse_to_fine
        )
        if spec.coordinates:
            self.coordinate = Convolution(widths[0], 3, 1)
            self.output_norm = (
                nn.BatchNorm3d(3, affine=False) if spec.normalise_output else nn.Identity()
            )
        if spec.global_channels:
            kernel, padding = _three(planar)
            self.global_ = Convolution(widths[1], spec.global_channels, kernel, padding=padding)
        if spec.local_channels:
            self.local = _LocalHead(widths[0], spec.local_channels, planar)
        if spec.organs:
            self.organs = OrganHead(
                widths[:2], spec.local_channels, len(spec.organs), spec.organ_channels
            )

    @property
    def metric(self) -> bool:
        """Whether the coordinates of the network are body coordinates in mm."""
        return self.spec.coordinates and self.spec.unit_mm is not None and self.spec.frame == "body"

    @property
    def organ_names(self) -> tuple[str, ...]:
        """Canonical names of the organs, in the order of `Features.organs`."""
        return tuple(map(canonical_name, self.spec.organs))

    @property
    def lattice(self) -> int:
        """Total stride in voxels. If the input is shifted by a multiple of this stride, the output keeps its values."""
        return STRIDE * 2 ** (len(self.spec.widths) - 1)

    @property
    def fixed_bytes_per_voxel(self) -> float:
        """Bytes per input voxel that the division into slabs cannot reduce: grid, input and coarser resolutions."""
        return 16.0 + 4.0 * 8 * self.spec.widths[1] / (2 * STRIDE) ** 3

    @property
    def descriptor_bytes_per_voxel(self) -> float:
        """Additional memory for descriptors and organs: bytes for each voxel of the part that is computed at once."""
        channels = self.spec.local_channels
        # float32 values for each half cell, of the tensors that exist at once: stem, descriptors, organs
        local = 4 * self.spec.widths[0] + 3 * channels + 2 * self.spec.organ_channels
        if not channels:
            local = 0
        organs = OrganHead.channels_at_once(channels) if self.spec.organs else 0
        return 4.0 * (local / LOCAL_STRIDE**3 + organs / STRIDE**3)

    @property
    def bytes_per_voxel(self) -> float:
        """Peak memory, bytes for each input voxel, if the coordinates of the whole scan are computed at once.

        Descriptors need more memory. Coordinates that are computed slab by slab, part after part, need less.
        """
        return self.fixed_bytes_per_voxel + 4.0 * 8 * self.spec.widths[0] / STRIDE**3

    def prepare(self, hu: torch.Tensor) -> torch.Tensor:
        """Convert HU (k, j, i) to network input (1, k, j, i). Air becomes 0, so padding with zeros adds air."""
        return piecewise_linear(hu, self.spec.hu_knots, self.spec.level_knots)[None]

    @property
    def reach_cells(self) -> int:
        """Even number of cells (stride 4) that the last decoder step and the heads read on each side of a cell."""
        return 6 if self.spec.organs else 4 if self.spec.local_channels else 2

    def forward(self, x: torch.Tensor, descriptors: bool = True) -> Features:
        """Compute the features of `x` (b, 1, k, j, i). descriptors: if False, only the coordinate is computed."""
        fine = self.fine(x)
        coarse = self.coarse(self.pool(fine))
        features = self.finish(coarse, fine, x, descriptors)
        if not descriptors or not self.spec.global_channels:
            return features
        vectors = _in_safe_precision(self.global_, coarse).float()
        return features._replace(global_=_UnitLength.apply(vectors))

    def fine(self, x: torch.Tensor) -> torch.Tensor:
        """Run the stem and the first encoder resolution, which has the finest cells. Returns (b, c, k/4, j/4, i/4)."""
        return self.encoder[0](self.stem(x))

    def coarse(self, pooled: torch.Tensor) -> torch.Tensor:
        """Run all coarser resolutions, encoder and decoder, on pooled output of `fine`.

        Returns (b, c, k/8, j/8, i/8).
        """
        x = pooled
        skips = []
        for depth, block in enumerate(self.encoder[1:]):
            x = block(x if depth == 0 else self.pool(x))
            skips.append(x)
        skips.pop()
        for up, block in zip(self.up[:-1], self.decoder[:-1], strict=True):
            x = block(_join(up(x), skips.pop()))
        return x

    def finish(
        self, coarse: torch.Tensor, fine: torch.Tensor, x: torch.Tensor, descriptors: bool = True
    ) -> Features:
        """Run the last decoder step, then compute coordinate, local descriptor and organs.

        Args:
            coarse, fine: outputs of the methods `coarse` and `fine`.
            x: network input.
            descriptors: if False, only the coordinate is computed.
        """
        up = self.decoder[-1](_join(self.up[-1](coarse), fine))
        coordinate = None
        if self.spec.coordinates:
            # float16 would round a coordinate of 800 mm to half a mm
            with mixed_precision(x.device, torch.float32):
                coordinate = self.output_norm(self.coordinate(up.float()))
        if not descriptors or not self.spec.local_channels:
            return Features(coordinate)
        has_organs = self.spec.organs and coordinate is not None
        if self.training:
            local = self.local(x, up)
            logits = None
            if has_organs:
                logits = self.organs(F.avg_pool3d(x, 2), coordinate.detach(), up, coarse, local)
            return Features(coordinate, None, local, logits)
        content = _Content(x, up)
        part = content.cut(x)
        up_part = content.cut(up)
        local = self.local(part, up_part)
        organs = None
        if has_organs:
            image = F.avg_pool3d(part, 2)
            coordinate_part = content.cut(coordinate)
            logits = self.organs(image, coordinate_part, up_part, coarse, local, content.cells)
            organs = logits.float().softmax(1)[:, 1:]  # without "no organ"
            if self.spec.organ_channels:
                local = self.organs.join(local, organs)
            organs = content.placed(organs)
        local = content.placed(local.half(), torch.channels_last_3d)
        return Features(coordinate, None, local, organs)


class _LocalHead(nn.Module):
    """Computes a local descriptor for each 2 x 2 x 2 voxels, from the image and the U-Net's finest features."""

    def __init__(self, width: int, channels: int, planar: bool):
        super().__init__()
        # how often the descriptors of a film are repeated along A
        self.layers = LOCAL_STRIDE if planar else 1
        step = (LOCAL_STRIDE, STRIDE if planar else LOCAL_STRIDE, LOCAL_STRIDE)
        self.stem = nn.Sequential(
            Convolution(1, width, step, stride=step, bias=False),
            nn.BatchNorm3d(width),
            nn.ReLU(inplace=True),
            *_convolution(width, width, planar),
        )
        scale = tuple(STRIDE // size for size in step)
        self.up = nn.ConvTranspose3d(width, width, scale, stride=scale)
        self.mix = nn.Sequential(
            nn.ReLU(inplace=True),
            *_convolution(width, width, planar),
            nn.ReLU(inplace=True),
            Convolution(width, channels, 1),
        )

    def forward(self, x: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        """Compute the descriptor.

        x: (b, 1, k, j, i) network input. up: (b, w, k/4, j/4, i/4) U-Net's finest resolution.
        """
        descriptors = _UnitLength.apply(self.mix(self.stem(x) + self.up(up)).float())
        if self.layers == 1:
            return descriptors
        # a film is one cell thick: all its layers along A (axis j) have the same descriptors
        return descriptors.repeat_interleave(self.layers, dim=3)


class _Content:
    """The box around all cells (4 x 4 x 4 voxels) that contain more than air, enlarged by _RIM_CELLS cells on each
    side. Descriptors and organs are computed only in this box."""

    def __init__(self, x: torch.Tensor, up: torch.Tensor) -> None:
        """Find the box. x: (b, 1, k, j, i) network input. up: (b, w, k/4, j/4, i/4) U-Net's finest resolution."""
        self.size = tuple(up.shape[2:])  # of the whole scan: k, j, i
        self.cells = [_filled(x, axis, cells) for axis, cells in enumerate(self.size, 2)]

    def cut(self, whole: torch.Tensor) -> torch.Tensor:
        """Cut this box out of a tensor (..., k, j, i) of any stride that covers the whole scan."""
        return whole[self._where(whole.shape[2] // self.size[0])]

    def placed(
        self, part: torch.Tensor, layout: torch.memory_format = torch.contiguous_format
    ) -> torch.Tensor:
        """Return a tensor of the whole scan: `part` in this box, zeros elsewhere. layout: memory format to use."""
        steps = part.shape[2] // (self.cells[0].stop - self.cells[0].start)
        size = (*part.shape[:2], *(n * steps for n in self.size))
        whole = torch.empty(
            size, dtype=part.dtype, device=part.device, memory_format=layout
        ).zero_()
        whole[self._where(steps)] = part
        return whole

    def _where(self, steps: int) -> tuple[Any, ...]:
        """Return the index of this box in a tensor (..., k, j, i) with `steps` values along each axis of a cell."""
        return (..., *(slice(cells.start * steps, cells.stop * steps) for cells in self.cells))


def _filled(x: torch.Tensor, axis: int, cells: int) -> slice:
    """Return the slice of cells along `axis` (2, 3 or 4) of `x` that holds all cells with tissue, and three more cells
    at each end. x: (b, 1, k, j, i), input of the network, 0 without tissue. cells: number of cells along `axis`."""
    has_tissue = (x != 0).flatten(0, 1).any(0).movedim(axis - 2, 0).flatten(1).any(1)
    layers = torch.nonzero(has_tissue).flatten()
    if not len(layers):
        return slice(0, 1)
    first = int(layers[0]) // STRIDE
    last = int(layers[-1]) // STRIDE
    return slice(max(first - _RIM_CELLS, 0), min(last + _RIM_CELLS + 1, cells))


def _join(upsampled: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
    """Crop `upsampled` to the size of `skip`, and join the channels of both."""
    k, j, i = skip.shape[2:]
    return torch.cat([upsampled[:, :, :k, :j, :i], skip], dim=1)


def piecewise_linear(
    x: torch.Tensor, knots: tuple[float, ...], values: tuple[float, ...]
) -> torch.Tensor:
    """Apply a piecewise-linear function. Beyond the end knots, it is constant.

    Args:
        x: places at which the function is computed.
        knots, values: the points through which it runs.
    """
    y = torch.full_like(x, values[0])
    for k0, k1, v0, v1 in zip(knots[:-1], knots[1:], values[:-1], values[1:], strict=True):
        y.add_(x.clamp(k0, k1).sub_(k0), alpha=(v1 - v0) / (k1 - k0))
    return y


def _three(planar: bool) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return the kernel of 3 voxels along each axis, but 1 along A if `planar`; and its padding."""
    return ((3, 1, 3), (1, 0, 1)) if planar else ((3, 3, 3), (1, 1, 1))


def _convolution(inputs: int, outputs: int, planar: bool) -> tuple[nn.Module, nn.Module]:
    """Make a convolution of 3 voxels along each axis, but 1 along A if `planar`, and its batch normalisation."""
    kernel, padding = _three(planar)
    return (
        Convolution(inputs, outputs, kernel, padding=padding, bias=False),
        nn.BatchNorm3d(outputs),
    )


class _DoubleConvolution(nn.Sequential):
    """Two 3 x 3 x 3 convolutions, each with batch normalisation and ReLU. planar: the kernels have 1 voxel along A."""

    def __init__(self, inputs: int, outputs: int, planar: bool):
        super().__init__(
            *_convolution(inputs, outputs, planar),
            nn.ReLU(inplace=True),
            *_convolution(outputs, outputs, planar),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _in_safe_precision(super().forward, x)


class _UnitLength(torch.autograd.Function):
    """Divides vectors along dimension 1 by their lengths. The gradient of F.normalize would be five times slower."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        inverse = (
            torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp_min_(LEAST_LENGTH).reciprocal_()
        )
        unit = x * inverse
        ctx.save_for_backward(unit, inverse)
        return unit

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        unit, inverse = ctx.saved_tensors
        along = (unit * gradient).sum(1, keepdim=True)
        return torch.addcmul(gradient, unit, along, value=-1).mul_(inverse)


def _in_safe_precision(
    layer: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
) -> torch.Tensor:
    """Return layer(x). On a CPU, the layer is computed in float32 if `x` has exactly two slices along k.

    For two slices, the bfloat16 gradient of the weights contains uninitialised memory on a CPU (torch 2.13).
    """
    if x.device.type != "cpu" or x.shape[2] != 2:
        return layer(x)
    with mixed_precision(x.device, torch.float32):
        return layer(x.float())
