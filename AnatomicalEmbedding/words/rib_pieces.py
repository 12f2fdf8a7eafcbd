"""Number the pieces of rib bone that reach no vertebra, by the ribs above and below them and by body coordinates.

Seen from any direction around the body, the ribs lie above one another in order, and no rib is missing between two.
The piece with the most numbered neighbours gets its number first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import SimpleITK as sitk

RIBS = 12
SECTORS = 36  # angles that divide a half of the body, from the back to the front
FEWEST = 6  # cells; smaller pieces of bone get no number
ONE_RIB_MM = 9.0  # pieces of one rib differ less in height
_PITCH_MM, _WIDE_MM = 25.0, 60.0  # from a rib to the next; in a wider gap a rib may be missing
# Costs are in cells: 1 for each cell whose number is wrong by one rib.
_COORDINATE_COST = 0.05  # cost of a coordinate that is wrong by one rib, for each cell
_NO_RIB_COST, _NO_NEIGHBOUR_COST = 0.7, 0.5  # for each cell: of being no rib, and of being no rib next to a rib
_HALF_BELIEVED = 20  # with so many numbered cells, half of the patient's mean coordinate error is corrected
_AMONG_SHARE = 0.5  # share of a piece that lies where the atlas has ribs; shoulder blades have less
_SWEEPS = 5  # passes over all pieces; in eleven patients nothing changed after four
_NUMBERS = np.arange(1, RIBS + 1)


@dataclass(frozen=True, eq=False)
class BoneOfHalf:
    """Bone cells of one half of the body. index: (n, 3) i, j, k. height: (n,) RAS S mm. sector: (n,) 0 to SECTORS - 1.

    error: (n, 13) mm, body height of each cell, corrected by the spine, minus the usual height of each rib in this
    sector; NaN where the rib does not reach. among: (n,) bool, whether the atlas has ribs at the cell.
    """

    index: np.ndarray
    height: np.ndarray
    sector: np.ndarray
    error: np.ndarray
    among: np.ndarray


class _Neighbour(NamedTuple):
    """A neighbour of a piece. Rib number of the piece = that of the neighbour + `lower`. cells: weight of this."""

    piece: int
    lower: int
    cells: float


def number_pieces(bone: BoneOfHalf, number: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Number the bone cells whose rib number (n,) is -1; 0 means no rib. shape: (k, j, i) of the grid."""
    free = np.flatnonzero(number < 0)
    if not len(free):
        return number
    piece = number.copy()  # pieces 0 to 12 hold the cells that have this number already
    piece[free] = RIBS + 1 + _connected(bone.index[free], shape)
    size = np.bincount(piece)
    among = np.bincount(piece, bone.among) / np.maximum(size, 1)
    pieces = [n for n in range(RIBS + 1, len(size)) if size[n] >= FEWEST and among[n] > _AMONG_SHARE]
    near, price = _neighbours(bone, piece), _prices(bone, piece, number)
    found = np.zeros(len(size), dtype=int)
    found[: RIBS + 1] = np.arange(RIBS + 1)
    for n in sorted(pieces, key=lambda n: -size[n])[:1]:
        found[n] = _cheapest(price[n], near[n], found)
    left = [n for n in pieces if not found[n]]
    while left:  # the pieces with the most numbered neighbours first
        known = np.array([sum(each.cells for each in near[n] if found[each.piece]) / size[n] for n in left])
        best = left.pop(int(np.argmax(known + 1e-6 * size[left])))
        found[best] = _cheapest(price[best], near[best], found)
    for n in _SWEEPS * pieces:
        found[n] = _cheapest(price[n], near[n], found)
    return found[piece]


def _cheapest(price: np.ndarray, near: list[_Neighbour], found: np.ndarray) -> int:
    """Return the number of a piece with the least cost, given those of the others. price: (13,) by coordinates."""
    cost = price.copy()
    for other, lower, cells in near:
        if found[other]:
            cost[1:] += cells * np.minimum(np.abs(_NUMBERS - found[other] - lower), 2)
            cost[0] += cells * _NO_NEIGHBOUR_COST
    return int(cost.argmin())


def _prices(bone: BoneOfHalf, piece: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Return (pieces, 13): the cost of each number by coordinates, corrected by the mean error of numbered ribs."""
    known = np.flatnonzero(number > 0)
    usual = np.nan_to_num(bone.error[known, number[known]]).sum() / (len(known) + _HALF_BELIEVED)
    off = np.minimum(np.nan_to_num(np.abs(bone.error - usual) / _PITCH_MM, nan=2.0), 2.0)
    price = np.stack([_COORDINATE_COST * np.bincount(piece, each) for each in off.T], axis=1)
    price[:, 0] = _NO_RIB_COST * np.bincount(piece)
    return price


def _neighbours(bone: BoneOfHalf, piece: np.ndarray) -> list[list[_Neighbour]]:
    """Return, for each piece, its neighbours above and below in any sector; cells of all sectors are added."""
    pieces = int(piece.max()) + 1
    key = piece * SECTORS + bone.sector
    count = np.bincount(key, minlength=pieces * SECTORS).reshape(-1, SECTORS)
    total = np.bincount(key, bone.height, pieces * SECTORS).reshape(-1, SECTORS)
    mean = total / np.maximum(count, 1)
    count[0] = 0  # piece 0 is no rib
    cells: list[Counter[tuple[int, int]]] = [Counter() for _ in range(pieces)]
    for sector in range(SECTORS):
        here = np.flatnonzero(count[:, sector] >= 2)
        for above, below in pairwise(here[np.argsort(-mean[here, sector])].tolist()):
            gap = mean[above, sector] - mean[below, sector]
            number = float(min(count[above, sector], count[below, sector]) * min(_WIDE_MM / max(gap, 1.0), 1.0) ** 2)
            lower = int(gap >= ONE_RIB_MM)
            cells[above][below, -lower] += number
            cells[below][above, lower] += number
    return [[_Neighbour(*each, number) for each, number in of.items()] for of in cells]


def _connected(index: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Return (n,): number, from 0, of the connected piece of each cell. Cells that touch at a corner are connected."""
    mask = np.zeros(shape, dtype=np.uint8)
    mask[index[:, 2], index[:, 1], index[:, 0]] = 1
    parts = sitk.GetArrayFromImage(sitk.ConnectedComponent(sitk.GetImageFromArray(mask), True))
    return parts[index[:, 2], index[:, 1], index[:, 0]] - 1
