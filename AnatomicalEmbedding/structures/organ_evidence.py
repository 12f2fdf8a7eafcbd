"""Places the sides of a structure by the box of the organ that it belongs to.

A user's "liver" is drawn a little larger or smaller than the network's, or is a part of it. How far its sides lie from
the organ's is read from the examples, and added to the organ's sides in the target.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..scan.boxes import intersection_over_union

_MOST_ORGANS = 3
_LEAST_OVERLAP = 0.05
_LEAST_MEAN_OVERLAP = 0.35  # mean over the examples, below which the organ does not place the structure
_USUAL_MM = 10.0  # error of a side by an organ, as if seen in so many examples
_USUAL_COUNT = 2.0
_AT_EDGE_CELLS = 1.0  # an organ's side so near to the scan's edge may be where the scan ends


@dataclass(frozen=True, eq=False)
class NearOrgan:
    """An organ whose box overlaps with that of a structure.

    Args:
        overlap: intersection over union of both boxes.
        offset_mm: (6,) the structure's SIDES less the organ's.
    """

    name: str
    overlap: float
    offset_mm: np.ndarray


def near_organs(box_ras: np.ndarray, organ_boxes: Mapping[str, np.ndarray]) -> tuple[NearOrgan, ...]:
    """Find the organs that overlap most with a box (2, 3) RAS mm, the best first. organ_boxes: see `EmbeddingMap`."""
    every = [
        NearOrgan(name, intersection_over_union(box_ras, organ), (box_ras - organ).ravel())
        for name, organ in organ_boxes.items()
    ]
    every = [each for each in every if each.overlap > _LEAST_OVERLAP]
    return tuple(sorted(every, key=lambda each: -each.overlap)[:_MOST_ORGANS])


def sides_by_organ(
    near: Sequence[Sequence[NearOrgan]],
    organ_boxes: Mapping[str, np.ndarray],
    bounds_ras: np.ndarray,
    cell_mm: np.ndarray,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Place a structure in a target by the organ next to it.

    Args:
        near: of each example, by `near_organs`.
        organ_boxes: of the target.
        bounds_ras: (2, 3) RAS mm, box of its scan.
        cell_mm: (3,) size of its cells.

    Returns:
        SIDES (6,), RAS mm, and the inverse of their squared errors; None where no organ helps.
    """
    overlaps: dict[str, float] = {}
    for organ in (organ for of in near for organ in of):
        overlaps[organ.name] = overlaps.get(organ.name, 0.0) + organ.overlap / len(near)
    best = max(overlaps, key=lambda name: overlaps[name], default="")
    if best not in organ_boxes or overlaps[best] < _LEAST_MEAN_OVERLAP:
        return None
    sides = organ_boxes[best].ravel()
    offsets = np.array([organ.offset_mm for of in near for organ in of if organ.name == best])
    usual = np.median(offsets, axis=0)
    squares = ((offsets - usual) ** 2).sum(axis=0) + _USUAL_COUNT * _USUAL_MM**2
    variance = squares / (len(offsets) - 1 + _USUAL_COUNT) * (1 + 1 / len(offsets))
    to_edge = np.abs(sides.reshape(2, 3) - bounds_ras) / cell_mm
    return sides + usual, np.where(to_edge.ravel() > _AT_EDGE_CELLS, 1 / variance, 0.0)
