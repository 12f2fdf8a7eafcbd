"""How well two registered scans of one patient agree, at each place and as a whole.

At each place, the evidence tells whether the two images show the same tissue there. A calibration turns the evidence
into an expected error. Two scans whose bodies do not agree as a whole are not from one patient, and are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F

from ..embedding.map import EmbeddingMap
from ..embedding.working_grid import crop, resample
from ..errors import NotSamePatientError
from ..scan.volume import Volume
from .instance_optimisation import windowed
from .pairing import Coarse, Places, read_at
from .spline import Lattice

SPACING_MM = 3.0  # of the compared images
_POOLED = 2  # points of the compared images, along each axis, for one point of the evidence
_HU = (-1000.0, 400.0)  # HU outside are clipped, so that metal and dense bone look like other bone
_NOISE_HU = 20.0

# Evidence at each point of the fixed scan, with the range that is stored.
# similarity: normalised correlation of a window of 15 mm. wide: the same for 30 mm. texture: log10 of the standard
# deviation in the window, HU. change: difference of the mean HU of the window, / 100. odd: the same minus the
# difference in the window of 30 mm. cycle, moved: see `pairing.Places.doubts`.
# volume: log2 of the ratio of volumes. beyond: share of the window that the other scan does not show.
_RANGES = {
    "similarity": (-1.0, 1.0),
    "wide": (-1.0, 1.0),
    "texture": (0.0, 3.0),
    "change": (-4.0, 4.0),
    "odd": (-4.0, 4.0),
    "cycle": (0.0, 25.0),
    "moved": (0.0, 25.0),
    "volume": (-2.0, 2.0),
    "beyond": (0.0, 1.0),
}
STORED = tuple(_RANGES)
EVIDENCE = (*STORED, "edge")  # edge: mm from the answer to the nearest side of the other scan, at most 60

# Measured on 6 pairs of scans of one patient and 20 pairs of strangers: share of matches with similar tissue 0.56 to
# 0.94, strangers at most 0.49; median similarity of textured tissue 0.77 to 0.92, strangers at most 0.51.
_LEAST_ALIKE, _LEAST_SIMILARITY = 0.5, 0.65
_LEAST_TEXTURE = 1.5  # log10 HU
_LEAST_BEYOND = 0.1
_FEWEST_NODES = 500  # 0.1 litres


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


def evidence_at_nodes(fixed: Picture, moving: Picture, found: Places) -> torch.Tensor:
    """Compute the evidence of the answers at the nodes of the fixed scan, (len(STORED), k, j, i)."""
    places = found.places
    fine = F.interpolate(places[None], scale_factor=_POOLED, mode="trilinear", align_corners=False)[0]
    seen = _shown(moving.points, fine)
    own = fixed.hu.clamp(*_HU)
    other = torch.where(seen, read_at(moving.hu[None], moving.points, fine)[0].clamp(*_HU), own)
    parts = torch.stack([own, other, own * own, other * other, own * other, seen.float()])[None]
    small = F.avg_pool3d(windowed(parts), _POOLED)
    wide = windowed(small)
    mean, mean_wide = ((each[0, 1] - each[0, 0]) / 100 for each in (small, wide))
    variance = (small[0, 2] - small[0, 0].square()).clamp_min(1.0)
    values = (
        _correlation(small[0]),
        _correlation(wide[0]),
        variance.log10() / 2,
        mean,
        mean - mean_wide,
        *found.doubts,
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


def check_coarse(coarse: Sequence[Coarse], template: str, target: str) -> None:
    """Raise NotSamePatientError unless the matches of one direction show similar tissue. template, target: names."""
    alike = max(each.matches.alike for each in coarse)
    if alike < _LEAST_ALIKE:
        raise _refusal(template, target, f"only {alike:.0%} of the matches show the same tissue")


def check_images(evidence: Sequence[torch.Tensor], pictures: Sequence[Picture], template: str, target: str) -> None:
    """Raise NotSamePatientError unless the registered images agree in body tissue with texture. evidence: of both ways.

    template, target: names.
    """
    names = list(_RANGES)
    found = []
    for values, picture in zip(evidence, pictures, strict=True):
        texture, beyond = values[names.index("texture")], values[names.index("beyond")]
        compared = picture.body & (beyond < _LEAST_BEYOND) & (texture > _LEAST_TEXTURE)
        found.append(values[names.index("similarity")][compared])
    similarity = torch.cat(found)
    if len(similarity) < _FEWEST_NODES:
        raise _refusal(template, target, "they have too little of the body in common")
    if (middle := float(similarity.median())) < _LEAST_SIMILARITY:
        raise _refusal(template, target, f"after registration, their images correlate by only {middle:.2f}")


def _refusal(template: str, target: str, reason: str) -> NotSamePatientError:
    return NotSamePatientError(
        f"{template or 'the template'} and {target or 'the target'} do not show one patient and one region: {reason}; "
        "choose two scans of one patient, or match them as scans of different patients."
    )
