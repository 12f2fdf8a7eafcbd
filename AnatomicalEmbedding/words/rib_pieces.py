"""Which ribs the pieces of bone are that reach no vertebra: by the ribs above and below them, and by coordinates.

In every direction round the body ribs lie above one another in order, and within a scan none is missing between two.
Numbers are chosen for all pieces of one half of the body together, at the least cost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import SimpleITK as sitk

RIBS = 12
SECTORS = 36  # of a half of the body, from the back round to the front
FEWEST = 6  # cells of a piece of bone
ONE_RIB_MM = 9.0  # pieces of one rib lie nearer in height
_PITCH_MM, _WIDE_MM = 25.0, 60.0  # from a rib to the next; a wider gap may hold a rib that is not seen
# Costs are in cells that lie one rib off.
_COORDINATE_COST = 0.05  # of a coordinate, against the ribs above and below
_NO_RIB_COST, _NO_NEIGHBOUR_COST = 0.7, 0.5  # of a cell of no rib, and of one above or below a rib
_FEW = 20  # cells of numbered ribs from which a patient's coordinate error is half believed
_AMONG = 0.5  # of a piece, where the atlas has ribs; shoulder blades have less
_SWEEPS = 5  # of all pieces; after four nothing changed in eleven patients
_NUMBERS = np.arange(1, RIBS + 1)


@dataclass(frozen=True, eq=False)
class BoneOfHalf:
    """Bone cells of one half of the body. index: (n, 3) i, j, k. height: (n,) world mm. sector: (n,) of SECTORS.

    error: (n, 13) what the coordinate along the body, mended by the spine, lies above the usual one of each rib there,
    mm; NaN where the rib does not reach. among: (n,) bool, where the atlas has ribs.
    """

    index: np.ndarray
    height: np.ndarray
    sector: np.ndarray
    error: np.ndarray
    among: np.ndarray


class _Neighbour(NamedTuple):
    """A node above or below another one, whose number is that of this one plus `lower`; cells: that say so."""

    node: int
    lower: int
    cells: float


def number_pieces(bone: BoneOfHalf, number: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """(n,) 0 to 12: numbers (n,) completed where they are -1; 0 is no rib. shape: (k, j, i) of the grid."""
    free = np.flatnonzero(number < 0)
    if not len(free):
        return number
    node = number.copy()  # numbered ribs are nodes 0 to 12, pieces the others
    node[free] = RIBS + 1 + _pieces(bone.index[free], shape)
    size = np.bincount(node)
    among = np.bincount(node, bone.among) / np.maximum(size, 1)
    pieces = [n for n in range(RIBS + 1, len(size)) if size[n] >= FEWEST and among[n] > _AMONG]
    numbering = _Numbering(pieces, size, _neighbours(bone, node), _prices(bone, node, number))
    return numbering.cheapest()[node]


@dataclass(frozen=True, eq=False)
class _Numbering:
    """pieces: nodes to number. size: cells of each node. near: its neighbours. price: (nodes, 13) by coordinates."""

    pieces: list[int]
    size: np.ndarray
    near: list[list[_Neighbour]]
    price: np.ndarray

    def cheapest(self) -> np.ndarray:
        """(nodes,) numbers: the best of those found from each number of the largest piece."""
        if not self.pieces:
            return self._begun()
        largest = max(self.pieces, key=lambda n: self.size[n])
        found = [self._improved(largest, number) for number in _NUMBERS]
        return min(found, key=self._total)

    def _begun(self) -> np.ndarray:
        found = np.zeros(len(self.size), dtype=int)
        found[: RIBS + 1] = np.arange(RIBS + 1)
        return found

    def _improved(self, largest: int, number: int) -> np.ndarray:
        """Numbers from that of one piece: first for pieces that most is known of, then each again."""
        found, left = self._begun(), [n for n in self.pieces if n != largest]
        found[largest] = number
        while left:
            known = [sum(each.cells for each in self.near[n] if found[each.node]) / self.size[n] for n in left]
            best = left.pop(int(np.argmax(np.array(known) + 1e-6 * self.size[left])))
            found[best] = self._costs(best, found).argmin()
        for _ in range(_SWEEPS):
            for n in self.pieces:
                found[n] = self._costs(n, found).argmin()
        return found

    def _total(self, found: np.ndarray) -> float:
        return sum(float(self._costs(n, found, 0.5)[found[n]]) for n in self.pieces)  # two numbered pieces count twice

    def _costs(self, n: int, found: np.ndarray, share: float = 1.0) -> np.ndarray:
        """(13,) of each number for a piece while the others have theirs. share: of a difference to another piece."""
        cost = self.price[n].copy()
        for other, lower, cells in self.near[n]:
            if found[other]:
                weight = cells if other <= RIBS else share * cells
                cost[1:] += weight * np.minimum(np.abs(_NUMBERS - found[other] - lower), 2)
                cost[0] += cells * _NO_NEIGHBOUR_COST
        return cost


def _prices(bone: BoneOfHalf, node: np.ndarray, number: np.ndarray) -> np.ndarray:
    """(nodes, 13) how little each number agrees with the coordinates, as far as numbered ribs do."""
    known = np.flatnonzero(number > 0)
    usual = np.nan_to_num(bone.error[known, number[known]]).sum() / (len(known) + _FEW)
    off = np.minimum(np.nan_to_num(np.abs(bone.error - usual) / _PITCH_MM, nan=2.0), 2.0)
    price = np.stack([_COORDINATE_COST * np.bincount(node, each) for each in off.T], axis=1)
    price[:, 0] = _NO_RIB_COST * np.bincount(node)
    return price


def _neighbours(bone: BoneOfHalf, node: np.ndarray) -> list[list[_Neighbour]]:
    """For each node those next above and below it in some sector, cells of all sectors together."""
    nodes = int(node.max()) + 1
    key = node * SECTORS + bone.sector
    count = np.bincount(key, minlength=nodes * SECTORS).reshape(-1, SECTORS)
    total = np.bincount(key, bone.height, nodes * SECTORS).reshape(-1, SECTORS)
    mean = total / np.maximum(count, 1)
    count[0] = 0  # known to be no rib
    cells: list[Counter[tuple[int, int]]] = [Counter() for _ in range(nodes)]
    for sector in range(SECTORS):
        here = np.flatnonzero(count[:, sector] >= 2)
        for above, below in pairwise(here[np.argsort(-mean[here, sector])].tolist()):
            gap = mean[above, sector] - mean[below, sector]
            number = float(min(count[above, sector], count[below, sector]) * min(_WIDE_MM / max(gap, 1.0), 1.0) ** 2)
            lower = int(gap >= ONE_RIB_MM)
            cells[above][below, -lower] += number
            cells[below][above, lower] += number
    return [[_Neighbour(*each, number) for each, number in of.items()] for of in cells]


def _pieces(index: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """(n,) the connected piece, from 0, that each cell belongs to; cells that touch at a corner are connected."""
    mask = np.zeros(shape, dtype=np.uint8)
    mask[index[:, 2], index[:, 1], index[:, 0]] = 1
    parts = sitk.GetArrayFromImage(sitk.ConnectedComponent(sitk.GetImageFromArray(mask), True))
    return parts[index[:, 2], index[:, 1], index[:, 0]] - 1
