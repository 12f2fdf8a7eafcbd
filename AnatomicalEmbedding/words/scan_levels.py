"""The level of every vertebra, disc and rib of a scan, and of every slice along the spine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..anatomy.names import SIDES, VERTEBRAE
from ..anatomy.terms import load_terms
from ..embedding.levels import ENDS_MM, level_chances, levels_near
from ..errors import MapError
from ..matching.status import INSIDE, OUTSIDE, UNCERTAIN, is_level_certain, level_sentence
from ..scan.geometry import slice_axis, transform_points
from ..scan.points import point_markup
from .placing import Place, points_of
from .ribs import RIBS

if TYPE_CHECKING:
    from ..embedding.map import EmbeddingMap
    from ..embedding.spine import Spine
    from ..scan.volume import Volume
    from .placing import PlaceFinder

VERTEBRA = "vertebrae_"  # the names of all vertebrae begin so
# Ends of the spine, and the vertebra or rib from which levels are counted if the scan shows the end.
_COUNTED_FROM = {"sacrum": "S1", "lung apices": "T1", "skull base": "C2", "ribs": "the lowest rib"}
# List of points -> how the names of its places begin, colour (red, green, blue).
_LISTS = {
    "vertebrae": (VERTEBRA, [0.95, 0.84, 0.57]), "discs": ("disc_", [0.44, 0.72, 0.82]),
    "ribs": ("rib_", [0.69, 0.48, 0.40]),
}  # fmt: skip
_NEAR_SPINE_MM = 60.0  # from the middle of the spine; such a place moves with the vertebrae
_FEWEST_RIB_CHANCE = 0.5  # a rib with a lower probability is not listed


class SliceLevel(NamedTuple):
    """The level of one slice. slice: its index. s: RAS S mm of the spine in this slice. level: such as "L3".
    probability: chance that the level is right. remark: a sentence if the level is not certain, or ""."""

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
            shown = {"visibility": True, "pointLabelsVisibility": True, "color": colour, "selectedColor": colour}
            entries.append(point_markup(points_of(self.named(start)), name) | {"display": shown})
        return entries


def find_levels(finder: PlaceFinder, volume: Volume) -> ScanLevels:
    """Find the level of each vertebra, disc, rib and slice of a scan.

    Args:
        finder: made from the scan's map, with `volume`.

    Raises:
        MapError: the scan shows too little of the spine.
    """
    embedding, spine, along = finder.embedding, finder.embedding.spine, slice_axis(volume.ijk_to_ras)
    if spine is None:
        name = embedding.provenance.scan or "the scan"
        raise MapError(f"{name}: shows too little of the spine, so no level is known; give a scan of a trunk or neck.")
    doubts, chances = _doubts(embedding, spine), spine.chance.round(3).tolist()
    found = [(VERTEBRA + spine.names[n], spine.centres_ras[n], n) for n in np.flatnonzero(spine.whole)]
    for n, (one, other) in enumerate(pairwise(spine.names)):
        is_shown = spine.course[0, 2] <= spine.bounds_s[n, 0] <= spine.course[-1, 2]
        if is_shown and f"disc_{one}_{other}" in load_terms().by_name:
            found.append((f"disc_{one}_{other}", spine.at_height(spine.bounds_s[n, 0]), n))
    places = []
    for name, point, n in found:
        known = {"status": UNCERTAIN if doubts[n] else INSIDE, "probability": chances[n], "levels": doubts[n]}
        places.append(replace(finder.place(name), point_ras=point, side="", **known))
    ribs = [finder.place(f"rib_{side}_{n}") for n in range(1, RIBS + 1) for side in SIDES]
    places += [each for each in ribs if each.status != OUTSIDE and each.probability >= _FEWEST_RIB_CHANCE]
    at = [transform_points(volume.ras_to_ijk, each.point_ras)[along].round().astype(int) for each in places]
    index = transform_points(volume.ras_to_ijk, spine.course)[:, along]
    order, last = np.argsort(index), volume.shape[2 - along] - 1
    shown = np.arange(max(np.ceil(index.min()), 0), min(np.floor(index.max()), last) + 1)
    heights = np.interp(shown, index[order], spine.course[order, 2]).tolist()
    slices = [
        SliceLevel(int(k), round(s, 1), spine.names[n], chances[n], level_sentence(doubts[n]))
        for k, s in zip(shown, heights, strict=True)
        for n in _shown_at(spine, s)
    ]
    return ScanLevels([(int(k), each) for k, each in zip(at, places, strict=True)], slices, _basis(spine, doubts))


def level_at(embedding: EmbeddingMap, s: float) -> str:
    """Return the level at a height of a scan: "L3", or "L3 or L4" if the level is not certain; "" for no vertebra.

    s: RAS S mm.
    """
    spine = embedding.spine
    return "" if spine is None else "".join(_doubts(embedding, spine)[n] or spine.names[n] for n in _shown_at(spine, s))


def differing_levels(
    one: EmbeddingMap, point_ras: np.ndarray, other: EmbeddingMap, place_ras: np.ndarray, error_mm: float
) -> tuple[str, str] | None:
    """Return the levels at a point of one scan and at its place in another scan of the same patient, such as ("T12 or
    L1", "L2 or L3"), if they contradict each other; otherwise None.

    Organs lie lower after a deeper breath. So away from the spine the levels must differ by two vertebrae.

    Args:
        point_ras, place_ras: (3,) RAS mm.
        error_mm: expected error of the place.
    """
    levels = level_at(one, float(point_ras[2])), level_at(other, float(place_ras[2]))
    if one.spine is None or "" in levels:
        return None
    near = np.hypot(*(point_ras - one.spine.at_height(point_ras[2]))[:2]) < _NEAR_SPINE_MM
    here, there = (_numbers_near(*each, error_mm) for each in ((one, point_ras[2]), (other, place_ras[2])))
    likely, possible = (min(abs(a - b) for a in mine for b in theirs) for mine, theirs in zip(here, there, strict=True))
    return levels if possible > 0 and likely >= (1 if near else 2) else None


def _numbers_near(embedding: EmbeddingMap, s: float, error_mm: float) -> tuple[set[int], set[int]]:
    """Return the numbers of the likely levels, and of all possible levels, less than `error_mm` from S = `s` mm."""
    spine = embedding.spine
    near = np.flatnonzero((spine.bounds_s[:, 0] <= s + error_mm) & (s - error_mm < spine.bounds_s[:, 1]))
    doubts = _doubts(embedding, spine)
    possible = [name for n in near for name in (doubts[n] or spine.names[n]).split(" or ")]
    return {VERTEBRAE.index(spine.names[n]) for n in near}, {VERTEBRAE.index(name) for name in possible}


def _shown_at(spine: Spine, s: float) -> np.ndarray:
    """Return the index of the vertebra at the height S = `s` mm, (1,) or (0,)."""
    return np.flatnonzero((spine.bounds_s[:, 0] <= s) & (s < spine.bounds_s[:, 1]))[:1]


def _doubts(embedding: EmbeddingMap, spine: Spine) -> list[str]:
    """Return, for each vertebra, the two possible levels such as "L3 or L4"; "" if the level is certain."""
    certain = is_level_certain(level_chances(embedding, spine.centres_ras))
    return np.where(certain, "", levels_near(embedding, spine.centres_ras, np.zeros((0, 3)))).tolist()


def _basis(spine: Spine, doubts: list[str]) -> str:
    """Say from which place the levels are counted, and how many of them are not certain."""
    counted = [text for end, text in _COUNTED_FROM.items() if end in spine.anchors]
    unsure = [each for each, whole in zip(doubts, spine.whole, strict=True) if each and whole]
    text = f"numbered from {' and '.join(counted)}" if counted else "numbered by the likely body heights only"
    if not set(spine.anchors) & set(ENDS_MM):
        text += "; the scan shows no sacrum, lung apex or skull base"
    if unsure:
        text += f"; not certain: {unsure[0]}" + (f" and {len(unsure) - 1} more levels" if unsure[1:] else "")
    return text
