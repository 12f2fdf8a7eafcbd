"""The level of every vertebra, disc and rib of a scan, and of every slice along the spine."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ..anatomy.names import SIDES
from ..anatomy.terms import load_terms
from ..embedding.levels import ENDS_MM, level_chances, level_sentence, levels_near
from ..errors import MapError
from ..matching.status import OUTSIDE, is_level_certain
from ..scan.geometry import slice_axis, transform_points
from ..scan.points import PointList, point_markup
from .ribs import RIBS

if TYPE_CHECKING:
    from ..embedding.map import EmbeddingMap
    from ..embedding.spine import Spine
    from ..scan.volume import Volume
    from .placing import PlaceFinder

VERTEBRA, DISC, RIB = KINDS = ("vertebra", "disc", "rib")
SLICE = "slice"
# Ends of the spine, and the vertebra or rib from which levels are counted if the scan shows the end.
_COUNTED_FROM = {"sacrum": "S1", "lung apices": "T1", "skull base": "C2", "ribs": "the lowest rib"}
_LISTS = {VERTEBRA: "vertebrae", DISC: "discs", RIB: "ribs"}
_COLOURS = {VERTEBRA: [0.95, 0.84, 0.57], DISC: [0.44, 0.72, 0.82], RIB: [0.69, 0.48, 0.40]}  # red, green, blue
_FEWEST_RIB_CHANCE = 0.5  # a rib with a lower probability is not listed


@dataclass(frozen=True, eq=False)
class NumberedPlace:
    """A vertebra, disc or rib of a scan, or the spine in one slice.

    Args:
        name: `vertebrae_L3`, `disc_L3_L4` or `rib_left_12`; of a slice, the vertebra that it shows.
        kind: one of KINDS, or SLICE.
        slice: index of the slice that contains the point.
        point_ras: (3,) RAS mm, the middle of the vertebral body, of the disc or of the spine, or a point in the rib.
        probability: chance that the level is right.
        levels: "" if the level is certain; otherwise the two possible levels, such as "L3 or L4".
    """

    name: str
    kind: str
    slice: int
    point_ras: np.ndarray
    probability: float
    levels: str

    @property
    def title(self) -> str:
        """Name to display, such as "L3 vertebra"."""
        return load_terms()[self.name].title

    @property
    def level(self) -> str:
        """The first word of the title, such as "L3"."""
        return self.title.split()[0]

    @property
    def remark(self) -> str:
        """A sentence that says that the level is not certain; "" if the level is certain."""
        return level_sentence(self.levels)


@dataclass(frozen=True, eq=False)
class ScanLevels:
    """All levels of a scan. places: vertebrae from head to feet, then discs, then ribs. slices: only the slices that
    show a vertebra, in the order of their index. basis: a sentence that says from which place the levels are counted.
    """

    places: list[NumberedPlace]
    slices: list[NumberedPlace]
    basis: str

    def points(self, *kinds: str, titled: bool = False) -> PointList:
        """Return the points of some kinds of places. titled: whether labels are titles instead of names."""
        shown = [place for place in self.places if place.kind in kinds]
        about = tuple(f"probability {p.probability:.0%}" + f"; {p.remark}" * bool(p.remark) for p in shown)
        points_ras = np.array([place.point_ras for place in shown]).reshape(-1, 3)
        return PointList(tuple(p.title if titled else p.name for p in shown), points_ras, about)

    def markups(self) -> list[dict]:
        """Return one coloured list of points for each of KINDS, as entries of a markups file of 3D Slicer."""
        shown = {"visibility": True, "pointLabelsVisibility": True}
        return [
            point_markup(self.points(kind, titled=True), _LISTS[kind])
            | {"display": shown | {"color": c, "selectedColor": c}}
            for kind, c in _COLOURS.items()
        ]


def find_levels(finder: PlaceFinder, volume: Volume) -> ScanLevels:
    """Find the level of each vertebra, disc, rib and slice of a scan.

    Args:
        finder: made from the scan's map, with `volume`.

    Raises:
        MapError: the scan shows too little of the spine.
    """
    embedding, along = finder.embedding, slice_axis(volume.ijk_to_ras)
    spine = embedding.spine
    if spine is None:
        name = embedding.provenance.scan or "the scan"
        raise MapError(f"{name}: shows too little of the spine, so no level is known; give a scan of a trunk or neck.")
    doubts, bounds = _doubts(embedding, spine), spine.bounds_s

    def made(kind: str, name: str, point: np.ndarray, probability: float, levels: str) -> NumberedPlace:
        at = int(np.rint(transform_points(volume.ras_to_ijk, point)[along]))
        return NumberedPlace(name, kind, at, point, round(float(probability), 3), levels)

    vertebrae = [f"vertebrae_{name}" for name in spine.names]
    sure = list(zip(spine.chance, doubts, strict=True))
    places = [made(VERTEBRA, vertebrae[n], spine.centres_ras[n], *sure[n]) for n in np.flatnonzero(spine.whole)]
    for n, (one, other) in enumerate(pairwise(spine.names)):
        is_shown = spine.course[0, 2] <= bounds[n, 0] <= spine.course[-1, 2]
        if is_shown and f"disc_{one}_{other}" in load_terms().by_name:
            places.append(made(DISC, f"disc_{one}_{other}", spine.at_height(bounds[n, 0]), *sure[n]))
    for name in (f"rib_{side}_{n}" for n in range(1, RIBS + 1) for side in SIDES):
        place = finder.place(name)
        if place.status != OUTSIDE and place.point_ras is not None and place.probability >= _FEWEST_RIB_CHANCE:
            places.append(made(RIB, name, place.point_ras, place.probability, place.levels))
    index = transform_points(volume.ras_to_ijk, spine.course)[:, along]
    order, slices = np.argsort(index), []
    for k in range(max(int(np.ceil(index.min())), 0), min(int(index.max()), volume.shape[2 - along] - 1) + 1):
        point = spine.at_height(float(np.interp(k, index[order], spine.course[order, 2])))
        slices += [made(SLICE, vertebrae[n], point, *sure[n]) for n in _shown_at(spine, point[2])]
    return ScanLevels(places, slices, _basis(spine, doubts))


def level_at(embedding: EmbeddingMap, s: float) -> str:
    """Return the level at a height of a scan: "L3", or "L3 or L4" if the level is not certain; "" for no vertebra.

    s: RAS S mm.
    """
    spine = embedding.spine
    return "" if spine is None else "".join(_doubts(embedding, spine)[n] or spine.names[n] for n in _shown_at(spine, s))


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
