"""The APE network (Goncharov 2024, section 2.1): strided stem, 3-D U-Net on the stride-4 grid, three outputs a cell."""

from dataclasses import asdict, dataclass

import torch
from torch import nn

STRIDE = 4


@dataclass(frozen=True)
class NetworkSpec:
    """Everything needed to rebuild the network around its weights.

    widths: channels of the U-Net levels (two or more), finest (stride 4) first.
    spacing_mm: (x, y, z) of the working grid the network was trained on.
    hu_knots, level_knots: piecewise-linear map from HU to network input; constant outside.
    unit_mm: mm that one unit of the output stands for, or None where the output has no metric unit (paper recipe).
    normalise_output: batch normalisation without affine parameters on the output, as in the paper.
    scales: inference averages the map over the scan magnified by these factors.
    """

    widths: tuple[int, ...] = (24, 64, 128, 256)
    spacing_mm: tuple[float, float, float] = (2.0, 2.0, 3.0)
    hu_knots: tuple[float, ...] = (-1000.0, -150.0, 250.0, 1300.0)
    level_knots: tuple[float, ...] = (0.0, 0.25, 0.85, 1.0)
    unit_mm: float | None = 100.0
    normalise_output: bool = False
    scales: tuple[float, ...] = (1.0,)

    @classmethod
    def from_dict(cls, values: dict) -> "NetworkSpec":
        return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})

    def to_dict(self) -> dict:
        return asdict(self)


class CoordinateNetwork(nn.Module):
    """Volume -> coordinates on the stride-4 grid.

    forward: (b, 1, k, j, i) network input with k, j, i multiples of `size_step` -> (b, 3, k/4, j/4, i/4),
    channels along R, A, S in units of `unit_mm`.
    """

    stride = STRIDE
    size_step = STRIDE

    def __init__(self, spec: NetworkSpec):
        super().__init__()
        self.spec = spec
        widths = spec.widths
        self.stem = nn.Conv3d(1, widths[0], STRIDE, stride=STRIDE)
        self.encoder = nn.ModuleList(
            _DoubleConvolution(widths[max(level - 1, 0)], width) for level, width in enumerate(widths)
        )
        self.pool = nn.MaxPool3d(2, ceil_mode=True)
        coarse_to_fine = range(len(widths) - 1, 0, -1)
        self.up = nn.ModuleList(nn.ConvTranspose3d(widths[n], widths[n - 1], 2, stride=2) for n in coarse_to_fine)
        self.decoder = nn.ModuleList(_DoubleConvolution(2 * widths[n - 1], widths[n - 1]) for n in coarse_to_fine)
        self.coordinate = nn.Conv3d(widths[0], 3, 1)
        self.output_norm = nn.BatchNorm3d(3, affine=False) if spec.normalise_output else nn.Identity()

    @property
    def spacing_mm(self) -> tuple[float, float, float]:
        return self.spec.spacing_mm

    @property
    def scales(self) -> tuple[float, ...]:
        return self.spec.scales

    @property
    def unit_mm(self) -> float | None:
        return self.spec.unit_mm

    @property
    def lattice(self) -> int:
        """Total stride in voxels: shifting the input by multiples of it shifts the output exactly."""
        return STRIDE * 2 ** (len(self.spec.widths) - 1)

    @property
    def fixed_bytes_per_voxel(self) -> float:
        """Memory per input voxel that is needed at once in any case: grids and input, and the coarser levels."""
        return 16.0 + 4.0 * 8 * self.spec.widths[1] / (2 * STRIDE) ** 3

    @property
    def fine_bytes_per_voxel(self) -> float:
        """Memory per input voxel of the finest level's activations, which can be computed in slabs."""
        return 4.0 * 8 * self.spec.widths[0] / STRIDE**3

    @property
    def bytes_per_voxel(self) -> float:
        """Peak memory of embedding a volume whole, per input voxel."""
        return self.fixed_bytes_per_voxel + self.fine_bytes_per_voxel

    def prepare(self, hu: torch.Tensor) -> torch.Tensor:
        """HU (k, j, i) -> network input (1, k, j, i); air is 0, so padding with zeros is padding with air."""
        return piecewise_linear(hu, self.spec.hu_knots, self.spec.level_knots)[None]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = self.fine(x)
        return self.finish(self.coarse(self.pool(fine)), fine)

    def fine(self, x: torch.Tensor) -> torch.Tensor:
        """Features of the finest level on the way down."""
        return self.encoder[0](self.stem(x))

    def coarse(self, pooled: torch.Tensor) -> torch.Tensor:
        """All coarser levels, down and up again: (b, c, ...) at twice the stride."""
        x, skips = pooled, []
        for level, block in enumerate(self.encoder[1:]):
            x = block(x if level == 0 else self.pool(x))
            skips.append(x)
        skips.pop()
        for up, block in zip(self.up[:-1], self.decoder[:-1], strict=True):
            x = block(_join(up(x), skips.pop()))
        return x

    def finish(self, coarse: torch.Tensor, fine: torch.Tensor) -> torch.Tensor:
        """The finest level on the way up, and the coordinates."""
        x = self.decoder[-1](_join(self.up[-1](coarse), fine))
        with torch.autocast(x.device.type, enabled=False):  # half floats hold 800 mm to half a mm only
            return self.output_norm(self.coordinate(x.float()))


def _join(upsampled: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
    """Concatenate; where the level above had an odd size, the surplus of the upsampled map is cut."""
    k, j, i = skip.shape[2:]
    return torch.cat([upsampled[:, :, :k, :j, :i], skip], dim=1)


def piecewise_linear(x: torch.Tensor, knots: tuple[float, ...], values: tuple[float, ...]) -> torch.Tensor:
    """Continuous piecewise-linear function through (knots, values), constant beyond the ends."""
    y = torch.full_like(x, values[0])
    for k0, k1, v0, v1 in zip(knots[:-1], knots[1:], values[:-1], values[1:], strict=True):
        y.add_(x.clamp(k0, k1).sub_(k0), alpha=(v1 - v0) / (k1 - k0))
    return y


class _DoubleConvolution(nn.Sequential):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(
            nn.Conv3d(inputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm3d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv3d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm3d(outputs),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # oneDNN's bfloat16 weight gradient holds uninitialised memory where the input is two slices deep (torch 2.13)
        exact = x.device.type == "cpu" and x.shape[2] == 2
        with torch.autocast(x.device.type, enabled=torch.is_autocast_enabled(x.device.type) and not exact):
            return super().forward(x.float() if exact else x)
