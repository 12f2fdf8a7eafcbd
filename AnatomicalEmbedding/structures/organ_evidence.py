"""Places the sides of a structure with the help of an organ whose box overlaps with the box of the structure.

A user's "liver" may be larger or smaller than the liver that the network finds, or may be a part of the liver. So the
examples give the distances from the organ's sides to the structure's sides. These distances are added to the organ's
sides in the target.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..scan.boxes import intersection_over_union

_MOST_ORGANS = 3  # stored for an example, for a small library; by hand
# with which an organ is stored; by hand; which is used decides the next limit
_LEAST_OVERLAP = 0.05
_LEAST_MEAN_OVERLAP = 0.35  # an organ with a smaller mean overlap over the examples is not used
_USUAL_MM = 10.0  # assumed error of a side that is placed with the help of an organ
_USUAL_COUNT = 2.0  # the assumed error counts as much as the errors of this number of examples
_AT_EDGE_CELLS = 1.0  # a side of an organ that is closer to the scan's edge is not used: the scan may cut the organ


class NearOrgan(NamedTuple):
    """An organ whose box overlaps with the box of a structure.

    Args:
        overlap: intersection over union of both boxes.
        offset_mm: (6,) positions of the structure's sides minus positions of the organ's sides, in the order of SIDES.
    """

    name: str
    overlap: float
    offset_mm: np.ndarray


def near_organs(
    box_ras: np.ndarray, organ_boxes: Mapping[str, np.ndarray]
) -> tuple[NearOrgan, ...]:
    """Find the organs whose boxes overlap most with a box (2, 3) RAS mm. The largest overlap comes first."""
    organs = [
        NearOrgan(name, intersection_over_union(box_ras, organ), (box_ras - organ).ravel())
        for name, organ in organ_boxes.items()
    ]
    overlapping = [organ for organ in organs if organ.overlap > _LEAST_OVERLAP]
    return tuple(sorted(overlapping, key=lambda organ: -organ.overlap)[:_MOST_ORGANS])


def sides_by_organ(
    organs_of_examples: Sequence[Sequence[NearOrgan]],
    organ_boxes: Mapping[str, np.ndarray],
    bounds_ras: np.ndarray,
    cell_mm: np.ndarray,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Place the sides of a structure in a target, with the help of the organ that overlaps most with the structure.

    Args:
        organs_of_examples: for each example, the result of `near_organs`.
        organ_boxes: organ boxes of the target's map.
        bounds_ras: (2, 3) RAS mm, box of the target scan.
        cell_mm: (3,) size of a cell of the target's map.

    Returns:
        Positions of the structure's sides (6,), RAS mm, in the order of SIDES, and the inverse of their squared errors
        (6,). None if no organ overlaps enough.
    """
    # mean over the examples; 0 for an example without the organ
    overlaps: defaultdict[str, float] = defaultdict(float)
    all_organs = [organ for organs in organs_of_examples for organ in organs]
    for organ in all_organs:
        overlaps[organ.name] += organ.overlap / len(organs_of_examples)
    best = max(overlaps, key=lambda name: overlaps[name], default="")
    if best not in organ_boxes or overlaps[best] < _LEAST_MEAN_OVERLAP:
        return None
    sides = organ_boxes[best].ravel()
    offsets = np.array([organ.offset_mm for organ in all_organs if organ.name == best])
    usual = np.median(offsets, axis=0)
    squares = ((offsets - usual) ** 2).sum(axis=0) + _USUAL_COUNT * _USUAL_MM**2
    # of a new offset about the mean of the examples: their variance, plus that of their mean
    variance = squares / (len(offsets) - 1 + _USUAL_COUNT) * (1 + 1 / len(offsets))
    to_edge = np.abs(sides.reshape(2, 3) - bounds_ras) / cell_mm
    return sides + usual, np.where(to_edge.ravel() > _AT_EDGE_CELLS, 1 / variance, 0.0)
