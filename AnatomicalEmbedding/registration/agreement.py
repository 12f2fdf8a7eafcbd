"""How well two registered scans of one patient agree, at each place and as a whole.

At each place, the evidence tells whether the two images show the same tissue there. A calibration turns the evidence
into an expected error. Two scans whose bodies do not agree as a whole are not from one patient, and are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.grid_reading import read_linear
from ..embedding.map import EmbeddingMap
from ..embedding.working_grid import crop, resample
from ..scan.volume import Volume
from .instance_optimisation import windowed
from .spline import Lattice

SPACING_MM = 3.0  # of the compared images
_POOLED = 2  # points of the compared images, along each axis, for one point of the evidence
_HU = (-1000.0, 400.0)  # HU outside are clipped, so that metal and dense bone look like other bone
_NOISE_HU = 20.0

# Evidence at each point of the fixed scan, with the range that is stored.
# similarity: normalised correlation of a window of 15 mm. wide: the same for 30 mm. texture: log10 of the standard
# deviation in the window, HU. change: difference of the mean HU of the window, / 100. odd: the same minus the
# difference in the window of 30 mm. cycle: mm between the point and the place to which its answer leads back.
# volume: log2 of the ratio of volumes. beyond: share of the window that the other scan does not show.
_RANGES = {
    "similarity": (-1.0, 1.0),
    "wide": (-1.0, 1.0),
    "texture": (0.0, 3.0),
    "change": (-4.0, 4.0),
    "odd": (-4.0, 4.0),
    "cycle": (0.0, 25.0),
    "volume": (-2.0, 2.0),
    "beyond": (0.0, 1.0),
}
STORED = tuple(_RANGES)
EVIDENCE = (*STORED, "edge")  # edge: mm from the answer to the nearest side of the other scan, at most 60
SIMILARITY = STORED.index("similarity")


@dataclass(frozen=True, eq=False)
class Picture:
    """A scan, resampled for the comparison, in the box of its body.

    hu: (2 k, 2 j, 2 i) HU at points `SPACING_MM` apart. points: the lattice of these points. nodes: (k, j, i) lattice
    of the centres of cubes of 2 x 2 x 2 points; the answers are stored there. body: (k, j, i) bool, nodes in the body.
    """

    hu: torch.Tensor
    points: Lattice
    nodes: Lattice
    body: torch.Tensor

    @classmethod
    def of(cls, volume: Volume, embedding: EmbeddingMap) -> Self:
        """Resample a scan."""
        grid = resample(volume, (SPACING_MM,) * 3, lattice=1, step=_POOLED)
        grid, _ = crop(grid, Lattice.of(grid).in_body(embedding).numpy(), lattice=_POOLED, step=_POOLED)
        points = Lattice.of(grid)
        nodes = points.pooled(_POOLED)
        return cls(grid.hu, points, nodes, nodes.in_body(embedding))


def read_at(values: torch.Tensor, lattice: Lattice, places: torch.Tensor) -> torch.Tensor:
    """Interpolate values (c, k, j, i), at the points of a lattice, at places (3, ...) RAS mm. Returns (c, ...)."""
    origin, spacing = (torch.tensor(each).view(3, 1) for each in (lattice.origin_ras, lattice.spacing_mm))
    index = ((places.flatten(1) - origin) / spacing).T
    return read_linear(values[None], index[None].float())[0].T.reshape(-1, *places.shape[1:])


def evidence_at_nodes(fixed: Picture, moving: Picture, places: torch.Tensor, back: torch.Tensor) -> torch.Tensor:
    """Compute the evidence at the nodes of the fixed scan, (len(STORED), k, j, i).

    places: (3, k, j, i) RAS mm, the answer at each node. back: the same at the nodes of the moving scan.
    """
    fine = F.interpolate(places[None], scale_factor=_POOLED, mode="trilinear", align_corners=False)[0]
    seen = _shown(moving.points, fine)
    own = fixed.hu.clamp(*_HU)
    other = torch.where(seen, read_at(moving.hu[None], moving.points, fine)[0].clamp(*_HU), own)
    parts = torch.stack([own, other, own * own, other * other, own * other, seen.float()])[None]
    small = F.avg_pool3d(windowed(parts), _POOLED)
    wide = windowed(small)
    mean, mean_wide = ((each[0, 1] - each[0, 0]) / 100 for each in (small, wide))
    cycle = (read_at(back, moving.nodes, places) - fixed.nodes.through(np.eye(4))).norm(dim=0)
    variance = (small[0, 2] - small[0, 0].square()).clamp_min(1.0)
    values = (
        _correlation(small[0]),
        _correlation(wide[0]),
        variance.log10() / 2,
        mean,
        mean - mean_wide,
        cycle,
        _volume_change(places, fixed.nodes),
        1 - small[0, 5],
    )
    return torch.stack(values)


def encode(evidence: torch.Tensor) -> torch.Tensor:
    """Round evidence (len(STORED), k, j, i) to bytes."""
    low, high = _limits(evidence)
    return ((evidence - low) / (high - low) * 255).round().clamp(0, 255).to(torch.uint8)


def decode(steps: torch.Tensor) -> torch.Tensor:
    """Return the evidence that `encode` has rounded."""
    low, high = _limits(steps)
    return low + steps.float() / 255 * (high - low)


def _limits(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    low, high = torch.tensor(list(_RANGES.values())).T.reshape(2, -1, *[1] * (values.ndim - 1))
    return low, high


def _shown(lattice: Lattice, places: torch.Tensor) -> torch.Tensor:
    """Return (...) bool: whether places (3, ...) RAS mm lie in the box of a lattice."""
    low = torch.tensor(lattice.origin_ras).view(3, *[1] * (places.ndim - 1))
    size = torch.tensor([n * mm for n, mm in zip(lattice.size, lattice.spacing_mm, strict=True)]).view_as(low)
    half = torch.tensor(lattice.spacing_mm).view_as(low) / 2
    return ((places >= low - half) & (places <= low - half + size)).all(0)


def _correlation(moments: torch.Tensor) -> torch.Tensor:
    """Correlate two images. moments: (5 or more, ...) means of a, b, a * a, b * b and a * b in a window."""
    a, b, aa, bb, ab = moments[:5]
    variances = ((aa - a * a).clamp_min(0) + _NOISE_HU**2) * ((bb - b * b).clamp_min(0) + _NOISE_HU**2)
    return (ab - a * b) / variances.sqrt()


def _volume_change(places: torch.Tensor, lattice: Lattice) -> torch.Tensor:
    """Compute log2 of the factor by which the answers (3, k, j, i) change volumes, (k, j, i); -2 where they fold."""
    slopes = [torch.gradient(places, spacing=mm, dim=3 - n)[0] for n, mm in enumerate(lattice.spacing_mm)]
    return torch.linalg.det(torch.stack(slopes).permute(2, 3, 4, 0, 1)).clamp_min(0.25).log2()
