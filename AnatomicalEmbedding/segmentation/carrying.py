"""Carry labels from examples to a scan, by registration of the scan's map with the map of each example."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError
from ..fields.spline import Lattice
from ..registration import AFFINE
from ..registration.affine import fit_affine, match_grid
from ..registration.register import fit_field
from ..scan.geometry import bounds_of
from .grids import GroupCrop, read_grid

CARRIED = 3  # number of examples from which labels are carried over
# the weight of carried labels is 0.7 minus the contrast, limited to this range
_UNSHOWN, _SHARES = 0.7, (0.0, 0.6)
_AROUND_MM = 9.0  # of the surroundings of a structure; by hand
_GREY_HU, _BINS = (-200.0, 300.0), 25


class LabelSource(NamedTuple):
    """An example from which labels are carried over.

    labels: (s, k, j, i), how much of each voxel lies in each of s structures, 0..1. to_ras: (4, 4), from voxel i, j, k
    of the labels to RAS mm. outlined: (s,) bool, whether the example outlines the structure.
    """

    embedding: EmbeddingMap
    labels: torch.Tensor
    to_ras: np.ndarray
    outlined: torch.Tensor


def carry(target: EmbeddingMap, crop: GroupCrop, examples: Sequence[LabelSource]) -> torch.Tensor:
    """Carry the labels of s structures from n examples to the grid of a crop. Returns (n, s, k, j, i).

    Values are NaN in three cases: the example does not outline the structure; the voxel lies outside the example's
    scan; the two scans have too little of the body in common.

    Args:
        target: map of the scan to which the labels are carried.
        crop: part of this scan.
        examples: the examples.
    """
    lattice = Lattice(
        tuple(crop.origin_ras.tolist()), (crop.spacing_mm,) * 3, tuple(crop.shape[::-1])
    )
    scan = bounds_of(target.scan_to_ras, target.scan_shape)
    result = torch.full((len(examples), len(examples[0].outlined), *crop.shape), float("nan"))
    for n, example in enumerate(examples):
        try:
            matches = match_grid(target, example.embedding)
            affine = fit_affine(matches, AFFINE)
            field = fit_field(matches, affine, *scan)
        except AnatomicalEmbeddingError:
            continue
        moved = lattice.through(affine) + field.on(lattice)  # (3, k, j, i) RAS mm in the example
        ijk = _transform(np.linalg.inv(example.to_ras), moved)
        values = read_grid(example.labels.float()[None], ijk, "zeros")[0]
        in_scan = _transform(np.linalg.inv(example.embedding.scan_to_ras), moved)
        last = torch.tensor(example.embedding.scan_shape[::-1]) - 0.5
        values[:, ~((in_scan >= -0.5) & (in_scan <= last)).all(-1)] = float("nan")
        result[n, example.outlined] = values[example.outlined]
    return result


def _transform(matrix: np.ndarray, points: torch.Tensor) -> torch.Tensor:
    """Transform points (3, k, j, i) by a matrix (4, 4). Returns (k, j, i, 3)."""
    matrix = torch.from_numpy(matrix).float()
    return torch.einsum("ab,bkji->kjia", matrix[:3, :3], points) + matrix[:3, 3]


def mean_guess(carried: torch.Tensor) -> torch.Tensor:
    """Average labels (n, s, k, j, i) of n examples; NaN is ignored. Returns (s, k, j, i); 0 where all are NaN."""
    return torch.nan_to_num(torch.nanmean(carried, dim=0))


def blend(
    probability: torch.Tensor, carried: torch.Tensor, guess_share: torch.Tensor
) -> torch.Tensor:
    """Mix the network's probability with the mean of the carried labels. Returns (s, k, j, i) for s structures.

    Args:
        probability: (s, k, j, i), used alone where all carried labels are NaN.
        carried: result of `carry`.
        guess_share: (s,) weight of the carried labels; the weight of `probability` is 1 - guess_share.
    """
    guess = torch.nanmean(carried, dim=0)
    share = guess_share[:, None, None, None]
    return torch.where(guess.isnan(), probability, (1 - share) * probability + share * guess)


def guess_share(contrast: float) -> float:
    """Compute the weight of the carried labels in `blend`. The lower the contrast, the higher the weight.

    contrast: 0..1, from `contrast_of`.
    """
    return float(np.clip(_UNSHOWN - contrast, *_SHARES))


def contrast_of(crop: GroupCrop, labels: torch.Tensor) -> float:
    """Measure how much the grey values of a structure differ from the grey values within 9 mm around it, 0..1.

    The contrast is 1 minus the overlap of the two histograms. It is 1 if the structure or its surroundings have no
    voxel. labels: (k, j, i), how much of each voxel lies in the structure, 0..1.
    """
    inside = labels > 0.5
    reach = max(1, round(_AROUND_MM / crop.spacing_mm))
    around = F.max_pool3d(inside.float()[None, None], 2 * reach + 1, 1, reach)[0, 0] > 0
    around &= (labels < 0.05) & crop.inside
    if not inside.any() or not around.any():
        return 1.0
    counts = [
        torch.histc(crop.hu[mask].clamp(*_GREY_HU), _BINS, *_GREY_HU) for mask in (inside, around)
    ]
    shares = [count / count.sum() for count in counts]
    return float(1 - torch.minimum(*shares).sum())
