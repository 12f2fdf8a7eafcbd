"""The level of every vertebra, disc and rib of a scan, and of every slice along the spine."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..anatomy.names import RIBS, SIDES
from ..anatomy.terms import load_terms
from ..errors import MapError
from ..matching.status import INSIDE, OUTSIDE, UNCERTAIN
from ..scan.geometry import slice_axis, transform_points
from ..scan.points import point_markup
from ..scan.volume import Volume
from ..spine.levels import level_sentence
from ..spine.vertebrae import Spine
from .placing import Place, PlaceFinder, points_of

VERTEBRA = "vertebrae_"  # the names of all vertebrae begin so
# Ends of the spine, and the vertebra or rib from which levels are counted if the scan shows the end.
_COUNTED_FROM = {"sacrum": "S1", "lung apices": "T1", "skull base": "C2", "ribs": "the lowest rib"}
# List of points -> how the names of its places begin, colour (red, green, blue).
_LISTS = {
    "vertebrae": (VERTEBRA, [0.95, 0.84, 0.57]),
    "discs": ("disc_", [0.44, 0.72, 0.82]),
    "ribs": ("rib_", [0.69, 0.48, 0.40]),
}
_FEWEST_RIB_CHANCE = 0.5  # a rib with a lower probability is not listed


class SliceLevel(NamedTuple):
    """The level of one slice.

    Args:
        slice: its index.
        s: RAS S mm of the spine in this slice.
        level: such as "L3".
        probability: chance that the level is right.
        remark: a sentence if the level is not certain, or "".
    """

    slice: int
    s: float
    level: str
    probability: float
    remark: str


@dataclass(frozen=True, eq=False)
class ScanLevels:
    """All levels of a scan.

    Args:
        places: index of the slice that contains the point, and the place: vertebrae from head to feet, discs, ribs. The
            point is the middle of the vertebral body or of the disc, or lies in the rib.
        slices: only the slices that show a vertebra, in the order of their index.
        basis: a sentence that says from which place the levels are counted.
    """

    places: list[tuple[int, Place]]
    slices: list[SliceLevel]
    basis: str

    def named(self, start: str) -> list[tuple[str, Place]]:
        """Return the places whose names begin with `start`, each with a text such as "slice 112"."""
        return [(f"slice {k}", place) for k, place in self.places if place.name.startswith(start)]

    def markups(self) -> list[dict]:
        """Return coloured lists of the vertebrae, discs and ribs, as entries of a markups file of 3D Slicer."""
        entries = []
        for name, (start, colour) in _LISTS.items():
            display = {
                "visibility": True,
                "pointLabelsVisibility": True,
                "color": colour,
                "selectedColor": colour,
            }
            entries.append(point_markup(points_of(self.named(start)), name) | {"display": display})
        return entries


def find_levels(finder: PlaceFinder, volume: Volume) -> ScanLevels:
    """Find the level of each vertebra, disc, rib and slice of a scan.

    Args:
        finder: made from the scan's map, with `volume`.
        volume: the scan.

    Raises:
        MapError: the scan shows too little of the spine.
    """
    spine = finder.embedding.spine
    if spine is None:
        name = finder.embedding.provenance.scan or "the scan"
        raise MapError(
            f"{name}: shows too little of the spine, so no level is known; give a scan of a trunk or neck."
        )
    places = [*_vertebrae_and_discs(finder, spine), *_ribs(finder)]
    points = np.array([place.point_ras for place in places]).reshape(-1, 3)
    points_ijk = transform_points(volume.ras_to_ijk, points)
    slices = points_ijk[:, slice_axis(volume.ijk_to_ras)].round().astype(int).tolist()
    return ScanLevels(list(zip(slices, places, strict=True)), _slices(spine, volume), _basis(spine))


def _vertebrae_and_discs(finder: PlaceFinder, spine: Spine) -> list[Place]:
    """Return the whole vertebrae of a scan from head to feet, then the discs that it shows."""
    points = [
        (VERTEBRA + spine.names[row], spine.centres_ras[row], row)
        for row in np.flatnonzero(spine.whole)
    ]
    for row, (upper, lower) in enumerate(pairwise(spine.names)):
        s = spine.bounds_s[row, 0]
        name = f"disc_{upper}_{lower}"
        if spine.course[0, 2] <= s <= spine.course[-1, 2] and name in load_terms().by_name:
            points.append((name, spine.at_height(s), row))
    places = []
    for name, point, row in points:
        level = spine.levels[row]
        places.append(
            replace(
                finder.place(name),
                point_ras=point,
                side="",
                status=INSIDE if level.is_certain else UNCERTAIN,
                probability=round(level.chance, 3),
                levels=level.doubt,
            )
        )
    return places


def _ribs(finder: PlaceFinder) -> list[Place]:
    """Return the likely ribs of a scan, from the first on; the left and the right rib of a number side by side."""
    places = [
        finder.place(f"rib_{side}_{number}") for number in range(1, RIBS + 1) for side in SIDES
    ]
    return [
        place
        for place in places
        if place.status != OUTSIDE and place.probability >= _FEWEST_RIB_CHANCE
    ]


def _slices(spine: Spine, volume: Volume) -> list[SliceLevel]:
    """Return the level of each slice that shows a vertebra."""
    axis = slice_axis(volume.ijk_to_ras)
    index = transform_points(volume.ras_to_ijk, spine.course)[:, axis]
    order = np.argsort(index)  # `np.interp` needs rising numbers
    last = volume.shape[2 - axis] - 1
    numbers = np.arange(max(np.ceil(index.min()), 0), min(np.floor(index.max()), last) + 1)
    heights = np.interp(numbers, index[order], spine.course[order, 2]).tolist()
    slices = []
    for number, s in zip(numbers, heights, strict=True):
        level = spine.level_at(s)
        if level is not None:
            sentence = level_sentence(level.doubt)
            slices.append(
                SliceLevel(
                    int(number), round(s, 1), level.vertebra, round(level.chance, 3), sentence
                )
            )
    return slices


def _basis(spine: Spine) -> str:
    """Say from which place the levels are counted, and how many of them are not certain."""
    starts = [text for end, text in _COUNTED_FROM.items() if end in spine.anchors]
    text = "numbered by the likely body heights only"
    if starts:
        text = f"numbered from {' and '.join(starts)}"
    if not spine.is_counted:
        text += "; the scan shows no sacrum, lung apex or skull base"
    doubts = [
        level.doubt
        for level, whole in zip(spine.levels, spine.whole, strict=True)
        if level.doubt and whole
    ]
    if doubts:
        text += f"; not certain: {doubts[0]}"
    if doubts[1:]:
        text += f" and {len(doubts) - 1} more levels"
    return text
