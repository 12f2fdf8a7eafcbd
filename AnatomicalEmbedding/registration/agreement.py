"""How well two registered scans of one patient agree, at each place and as a whole.

At each place, the evidence says whether the two images show the same tissue. A calibration turns the evidence into an
expected error. If two scans do not agree as a whole, they do not show one patient, and are refused.
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
from .affine import GridMatches
from .instance_optimisation import HU, windowed
from .pairing import Places, read_at
from .spline import Lattice

_SPACING_MM = 3.0  # of the compared images
_POOLED = 2  # points of the compared images, along each axis, for one node
_NOISE_HU = 20.0

# similarity: correlation of the images in a window of 15 mm. wide: the same in 30 mm. texture: log10 of the standard
# deviation of HU in 15 mm. odd: the difference of the mean HU in 15 mm minus the difference in 30 mm, / 100. (The
# difference alone also shows breath and contrast medium.) cycle, moved: see `pairing.Places.doubts`. beyond: share of
# the window that the other scan does not show. edge: mm from the answer to the nearest side of the other scan, at most
# 20. The change of volume is left out: lungs that breathe more than the copies of the calibration seemed changed.
STORED = ("similarity", "wide", "texture", "odd", "cycle", "moved", "beyond")
EVIDENCE = (*STORED, "edge")
_SIMILARITY, _TEXTURE, _BEYOND = (STORED.index(name) for name in ("similarity", "texture", "beyond"))

# Measured on 5 pairs of scans of one patient and 20 pairs of strangers: share of matches with similar tissue 0.56 to
# 0.94, strangers at most 0.49; median similarity of textured tissue 0.77 to 0.92, strangers at most 0.51.
_LEAST_ALIKE, _LEAST_SIMILARITY = 0.5, 0.65
_FEWEST_MATCHES = 24
_LEAST_TEXTURE, _MOST_BEYOND = 1.5, 0.1  # nodes with less texture, or more beyond the other scan, do not count
_FEWEST_NODES = 500  # 0.1 litres of the body
# Bones of one patient keep their shape; this decides if only some matches are alike. In compact bone, the median
# difference of the largest and the smallest stretch was at most 0.14 in 8 pairs of one patient, and at least 0.19 in 20
# pairs of strangers. 9 of these 20 were synthetic patients, with up to 79 % of the matches alike.
_SURELY_ALIKE = 0.85
_BONE_HU, _MOST_STRETCH, _FEWEST_IN_BONE = 300.0, 0.17, 200


@dataclass(frozen=True, eq=False)
class Picture:
    """A scan, resampled for the comparison, in the box of its body.

    hu: (2 k, 2 j, 2 i) HU at `points`, 3 mm apart. nodes: (k, j, i) lattice of the centres of cubes of 2 x 2 x 2
    points, at which answers are stored. body: (k, j, i) bool, nodes in the body.
    """

    hu: torch.Tensor
    points: Lattice
    nodes: Lattice
    body: torch.Tensor

    @classmethod
    def of(cls, volume: Volume, embedding: EmbeddingMap) -> Self:
        """Resample a scan."""
        grid = resample(volume, (_SPACING_MM,) * 3, lattice=1, step=_POOLED)
        grid, _ = crop(grid, Lattice.of(grid).in_body(embedding).numpy(), lattice=_POOLED, step=_POOLED)
        points = Lattice.of(grid)
        nodes = points.pooled(_POOLED)
        return cls(grid.hu.clamp(*HU), points, nodes, nodes.in_body(embedding))


def evidence_at_nodes(fixed: Picture, moving: Picture, found: Places) -> torch.Tensor:
    """Compute the evidence of the answers at the nodes of the fixed scan, (len(STORED), k, j, i)."""
    places = F.interpolate(found.places[None], scale_factor=_POOLED, mode="trilinear", align_corners=False)[0]
    low, spacing = (
        torch.tensor(each).view(3, 1, 1, 1) for each in (moving.points.origin_ras, moving.points.spacing_mm)
    )
    index = (places - low) / spacing
    seen = ((index >= -0.5) & (index <= torch.tensor(moving.points.size).view(3, 1, 1, 1) - 0.5)).all(0)
    a, b = fixed.hu, torch.where(seen, read_at(moving.hu[None], moving.points, places)[0], fixed.hu)
    small = F.avg_pool3d(windowed(torch.stack([a, b, a * a, b * b, a * b, seen.float()])[None]), _POOLED)
    wide = windowed(small)[0]
    small = small[0]
    change, wide_change = ((each[1] - each[0]) / 100 for each in (small, wide))
    texture = (small[2] - small[0].square()).clamp_min(1.0).log10() / 2
    values = (_correlation(small), _correlation(wide), texture, change - wide_change)
    return torch.stack([*values, *found.doubts, 1 - small[5]])


def _slopes(found: Places) -> torch.Tensor:
    """Compute how the answers change along R, A and S, per mm: (k, j, i, 3, 3)."""
    slopes = [torch.gradient(found.places, spacing=mm, dim=3 - n)[0] for n, mm in enumerate(found.lattice.spacing_mm)]
    return torch.stack(slopes).permute(2, 3, 4, 0, 1)


def _correlation(moments: torch.Tensor) -> torch.Tensor:
    """Correlate two images a, b. moments: (5 or more, ...) means of a, b, a * a, b * b and a * b in a window."""
    a, b, aa, bb, ab = moments[:5]
    variances = ((aa - a * a).clamp_min(0) + _NOISE_HU**2) * ((bb - b * b).clamp_min(0) + _NOISE_HU**2)
    return (ab - a * b) / variances.sqrt()


def check_matches(matches: Sequence[GridMatches]) -> float:
    """Return the share of the matches that show similar tissue. Raises NotSamePatientError if there are too few."""
    if min(len(each.fixed_ras) for each in matches) < _FEWEST_MATCHES:
        raise _refusal("too few places of one scan are found in the other scan")
    alike = max(each.alike for each in matches)
    if alike < _LEAST_ALIKE:
        raise _refusal(f"only {alike:.0%} of the matches show similar tissue")
    return alike


def check_images(
    evidence: Sequence[torch.Tensor], pictures: Sequence[Picture], nodes: Sequence[Places], alike: float
) -> None:
    """Raise NotSamePatientError unless the images correlate, and the bones keep their shape or most matches are alike.

    evidence: of the answers `nodes` of both directions. alike: result of `check_matches`.
    """
    compared = [
        picture.body & (values[_BEYOND] < _MOST_BEYOND) & (values[_TEXTURE] > _LEAST_TEXTURE)
        for values, picture in zip(evidence, pictures, strict=True)
    ]
    similarity = torch.cat([values[_SIMILARITY][at] for values, at in zip(evidence, compared, strict=True)])
    if len(similarity) < _FEWEST_NODES:
        raise _refusal("they have too little of the body in common")
    if (middle := float(similarity.median())) < _LEAST_SIMILARITY:
        raise _refusal(f"after registration, the median correlation of their images is only {middle:.2f}")
    if alike >= _SURELY_ALIKE:
        return
    stretch = torch.cat(list(map(_stretch_of_bone, pictures, nodes, compared)))
    if len(stretch) >= _FEWEST_IN_BONE and (middle := float(stretch.median())) > _MOST_STRETCH:
        raise _refusal(f"after registration, the bones of one scan are stretched by {middle:.0%} in the other")


def _stretch_of_bone(picture: Picture, places: Places, compared: torch.Tensor) -> torch.Tensor:
    """Return the largest minus the smallest stretch (n,) at the nodes in compact bone. compared: nodes that count."""
    bone = compared & (F.avg_pool3d(picture.hu[None, None], _POOLED)[0, 0] > _BONE_HU)
    along = torch.linalg.svdvals(_slopes(places)[bone])
    return along[:, 0] - along[:, 2]


def _refusal(reason: str) -> NotSamePatientError:
    return NotSamePatientError(
        f"the scans seem not to show the same region of one patient: {reason}; choose two scans of one patient, or "
        "match the points as in scans of different patients."
    )
