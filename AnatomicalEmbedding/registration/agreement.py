"""How well two registered scans of one patient agree, at each place and as a whole.

At each place, the evidence says whether the two images show the same tissue. A calibration turns the evidence into an
expected error. Measures of the agreement as a whole decide together whether the scans show one patient.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F

from ..embedding.map import EmbeddingMap
from ..embedding.working_grid import crop, resample
from ..errors import NotSamePatientError
from ..fields.comparison import correlation, windowed
from ..fields.spline import Lattice
from ..scan.volume import Volume
from .affine import GridMatches
from .instance_optimisation import HU
from .pairing import Places, read_at

_SPACING_MM = 3.0  # of the compared images
_POOLED = 2  # points of the compared images, along each axis, for one node
_NOISE_HU = 20.0  # added to contrasts, so that noise in even tissue is no difference; by hand

# similarity: correlation of the images in a window of 15 mm. wide: the same in 30 mm. texture: log10 of the standard
# deviation of HU in 15 mm. odd: the difference of the mean HU in 15 mm minus the difference in 30 mm, / 100. (The
# difference alone also shows breath and contrast medium.) cycle, moved: see `pairing.Places.doubts`. beyond: share of
# the window that the other scan does not show. edge: mm from the answer to the nearest side of the other scan, at most
# 20. The change of volume is left out: lungs that breathe more than the copies of the calibration seemed changed.
STORED = ("similarity", "wide", "texture", "odd", "cycle", "moved", "beyond")
EVIDENCE = (*STORED, "edge")
_SIMILARITY, _TEXTURE, _BEYOND = (
    STORED.index(name) for name in ("similarity", "texture", "beyond")
)

_FEWEST_MATCHES = 24  # with which two scans are registered; by hand, not tuned
# nodes with less texture, or more beyond the other scan, do not count
_LEAST_TEXTURE, _MOST_BEYOND = 1.5, 0.1
_FEWEST_NODES = 500  # 0.1 litres of the body
_BONE_HU, _FEWEST_IN_BONE = 300.0, 200


class Measure(NamedTuple):
    """One measure of whether two scans show one patient: what it counts is negative for strangers.

    middle: the value that counts 0. half: distance from the middle to the value that counts 1; negative if strangers
    have the larger values. text: what a value says against one patient. least, most: limits of what it counts.
    """

    middle: float
    half: float
    text: str
    least: float = -1.0
    most: float = 1.0

    def counts(self, value: float) -> float:
        """Return how much a value speaks for one patient, `least` to `most`."""
        return min(max((value - self.middle) / self.half, self.least), self.most)


# All measures together decide, and each is bounded: a treated liver, few ribs or another contrast phase spoil one
# measure, not all. Values of the pairs of one patient and of strangers: `same_patient.py pairs`.
MEASURES = {
    "alike": Measure(0.4, 0.3, "only {:.0%} of the matches show similar tissue"),
    "similarity": Measure(
        0.72, 0.15, "after registration, the median correlation of their images is {:.2f}"
    ),
    "bone_similarity": Measure(
        0.82, 0.12, "after registration, the median correlation of their bones is {:.2f}"
    ),
    "stretch": Measure(
        0.2, -0.06, "after registration, the bones of one scan are stretched by {:.0%} in the other"
    ),
    # inexact places stretch small parts of a bone, and only other bones stretch large parts
    "wide_stretch": Measure(
        0.18, -0.04, "large parts of the bones are stretched by {:.0%}", -2.0, 0.5
    ),
}


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
        """Resample a scan to 3 mm, cut to its body, and join each 2 x 2 x 2 of its points to a node."""
        grid = resample(volume, (_SPACING_MM,) * 3, lattice=1, step=_POOLED)
        grid, _ = crop(grid, embedding.body_on(grid.lattice).numpy(), lattice=_POOLED, step=_POOLED)
        points = grid.lattice
        nodes = points.pooled(_POOLED)
        return cls(grid.hu.clamp(*HU), points, nodes, embedding.body_on(nodes))


def evidence_at_nodes(fixed: Picture, moving: Picture, nodes: Places) -> torch.Tensor:
    """Compute the evidence of the answers at the nodes of the fixed scan, (len(STORED), k, j, i).

    Args:
        fixed, moving: the two scans.
        nodes: the places of the fixed scan's nodes in the moving scan.
    """
    places = F.interpolate(nodes.places[None], scale_factor=_POOLED, mode="trilinear")[0]
    inside = moving.points.contains(places)
    # both images at the points of the fixed scan; beyond the moving scan, no difference
    a = fixed.hu
    b = torch.where(inside, read_at(moving.hu[None], moving.points, places)[0], fixed.hu)
    products = torch.stack([a, b, a * a, b * b, a * b, inside.float()])
    # their means in the small window and in the wide window, at the nodes
    small = F.avg_pool3d(windowed(products[None]), _POOLED)
    (wide,) = windowed(small)
    (small,) = small
    # half the log of the variance is the log of the standard deviation
    texture = (small[2] - small[0].square()).clamp_min(1.0).log10() / 2
    odd = (small[1] - small[0]) / 100 - (wide[1] - wide[0]) / 100
    beyond = 1 - small[5]
    similarity = correlation(small, _NOISE_HU)
    wide_similarity = correlation(wide, _NOISE_HU)
    return torch.stack([similarity, wide_similarity, texture, odd, *nodes.doubts, beyond])


def check_matches(matches: Sequence[GridMatches]) -> None:
    """Raise NotSamePatientError if there are too few matches to register the scans."""
    if min(len(direction.fixed_ras) for direction in matches) < _FEWEST_MATCHES:
        raise _refusal("too few places of one scan are found in the other scan")


def measure(
    matches: Sequence[GridMatches],
    evidence: Sequence[torch.Tensor],
    pictures: Sequence[Picture],
    nodes: Sequence[Places],
) -> dict[str, float]:
    """Measure how well two registered scans agree as a whole: name in MEASURES -> value.

    A measure of bones is left out if the scans have too little compact bone in common. Raises NotSamePatientError if
    they have too little of the body in common.

    Args:
        matches, evidence, pictures, nodes: of both directions; the evidence belongs to the answers `nodes`.
    """
    # of each direction: values at the nodes that count, and at those of them in compact bone
    similarity, bone_similarity, bones = [], [], []
    for values, picture in zip(evidence, pictures, strict=True):
        is_shown = (values[_BEYOND] < _MOST_BEYOND) & (values[_TEXTURE] > _LEAST_TEXTURE)
        compared = picture.body & is_shown
        bone = compared & (F.avg_pool3d(picture.hu[None, None], _POOLED)[0, 0] > _BONE_HU)
        similarity.append(values[_SIMILARITY][compared])
        bone_similarity.append(values[_SIMILARITY][bone])
        bones.append(bone)
    if sum(map(len, similarity)) < _FEWEST_NODES:
        raise _refusal("they have too little of the body in common")
    measures = {
        "alike": max(direction.alike for direction in matches),
        "similarity": _median(similarity),
    }
    if sum(map(len, bone_similarity)) >= _FEWEST_IN_BONE:
        stretch, wide_stretch = zip(*map(_stretches, nodes, bones), strict=True)
        measures["bone_similarity"] = _median(bone_similarity)
        measures["stretch"] = _median(stretch)
        measures["wide_stretch"] = _median(wide_stretch)
    return measures


def _median(values: Sequence[torch.Tensor]) -> float:
    """Return the median of the values of both directions."""
    return float(torch.cat(list(values)).median())


def support(measured: Mapping[str, float]) -> float:
    """Return how much all measures together speak for one patient; strangers have a negative value."""
    return sum(MEASURES[name].counts(value) for name, value in measured.items())


def check_measures(measured: Mapping[str, float]) -> None:
    """Raise NotSamePatientError, with all that speaks against one patient, if the scans are those of strangers."""
    if support(measured) > 0:
        return
    reasons = [
        MEASURES[name].text.format(value)
        for name, value in measured.items()
        if MEASURES[name].counts(value) < 0
    ]
    raise _refusal("; ".join(reasons))


def _stretches(places: Places, bone: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the largest minus the smallest stretch of compact bone (n,), at its n nodes and in 30 mm around them.

    bone: (k, j, i) bool, the nodes in compact bone.
    """
    # (9, k, j, i), the transposed Jacobian: how the answers change along R, then along A, then along S, per mm
    slopes = torch.cat(
        [
            torch.gradient(places.places, spacing=mm, dim=3 - axis)[0]
            for axis, mm in enumerate(places.lattice.spacing_mm)
        ]
    )
    weight = bone.float()[None]
    mean = windowed(torch.cat([slopes * weight, weight])[None])[0]
    around = mean[:-1] / mean[-1:].clamp_min(1e-6)  # means over the bone in the window
    stretches = []
    for jacobians in (slopes, around):
        # singular values: by which factors a Jacobian stretches, the largest first
        factors = torch.linalg.svdvals(jacobians[:, bone].T.reshape(-1, 3, 3))
        stretches.append(factors[:, 0] - factors[:, 2])
    small, wide = stretches
    return small, wide


def _refusal(reason: str) -> NotSamePatientError:
    """Return the error for scans that do not show one patient. reason: what speaks against it."""
    return NotSamePatientError(
        f"the scans seem not to show the same region of one patient: {reason}; choose two scans of one patient, or "
        "match the points as in scans of different patients."
    )
