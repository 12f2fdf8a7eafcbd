"""Number the ribs: each rib is followed through bone from the vertebra at which the rib begins.

At the chest wall, a body coordinate may be wrong by the distance of two ribs. Next to the spine, where the levels
are known, the bone gets the numbers of the vertebrae, for all ribs at once and in their order. Then each number spreads
through connected bone. Some pieces of bone reach no vertebra, for example if the scan begins below the rib heads.
These pieces are numbered by their body coordinates, corrected by the mean error of the numbered ribs' coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import SimpleITK as sitk

from ..anatomy.names import RIBS, SIDES
from ..spine.vertebrae import Spine
from .atlas import SHAPE, Atlas, frame_index
from .grid_weights import Cell, Field, Grid
from .occupancy import faded

# each half of the body is divided into this number of angles, from the back to the front
SECTORS = 36
_FEWEST = 6  # cells; smaller pieces of bone get no number
_ONE_RIB_MM = 9.0  # at the beginning of a rib, its bone extends over less than this height
# A piece of bone (such as a shoulder blade) gets no number if a smaller share of it lies where the atlas has ribs.
_AMONG_SHARE = 0.5
_HALF_CORRECTED = 20  # with this number of numbered cells, half of the patient's mean coordinate error is corrected
_BONE_HU = 130.0  # least mean HU of a cell of bone
_REACH = 3  # bone at most this number of cells away from the atlas's ribs may belong to a rib
# bone closer to the spine's middle, sideways and to the front, belongs to a vertebra
_VERTEBRA_MM = (30.0, 45.0)
_BEGIN_MM = (34.0, 46.0)  # distance sideways from the spine's middle at which ribs are counted
_BEGIN_AHEAD_MM = 15.0  # ribs are counted only up to this distance in front of the spine's middle
_FEWEST_BEGIN = 3  # cells
# Height of a rib at its beginning above the middle of its vertebra, mm: medians over label maps, rounded. Lumbar
# vertebrae have processes at this place, which are no ribs.
_ABOVE_MM = {f"T{n + 1}": mm for n, mm in enumerate((3, 12, 11, 10, 10, 10, 9, 8, 6, 4, -4, -14))}
_ABOVE_MM |= {f"L{n}": 0 for n in range(1, 5)}
# standard errors of this height: for each rib, and common to a patient's ribs
_ERROR_MM, _COMMON_MM = 5.0, 5.0
_SKIPPED = 4.0  # cost of leaving bone without a rib, or a rib without bone, in `_aligned`
# Blur of the amount of bone over height. Between two ribs, this amount falls below _VALLEY of its value at a rib.
_PROFILE_MM, _VALLEY = 2.5, 0.7
# largest change of the coordinate error along a rib, and its learning rate
_DRIFT_MM, _DRIFT_SHARE = 11.0, 0.08
# a piece whose coordinates differ more from those of every rib gets no number
_FARTHEST_PIECE_MM = 30.0
# error of a cell where the atlas never has the rib, and largest error of all other cells
_NOT_THERE_MM = 50.0
_TOUCHING = np.concatenate([np.eye(3, dtype=int), -np.eye(3, dtype=int)])  # cells that share a face
# the 26 neighbours of a cell, and the cell
_OFFSETS = np.stack(np.meshgrid(*[(-1, 0, 1)] * 3), axis=-1).reshape(-1, 3)
_NEXT_CELLS = 1.2  # cells nearer than this, in units of the largest cell side, are next to bone
# chance in a rib's bone; factor next to the bone; factor where the atlas never has the rib
_SURE, _NEXT_TO, _ELSEWHERE = 0.95, 0.4, 0.4


@dataclass(frozen=True, eq=False)
class Ribs:
    """Numbered bone cells. index: (n, 3) i, j, k. side: (n,) index in SIDES. number: (n,) 1 to 12, or 0 for no rib."""

    index: np.ndarray
    side: np.ndarray
    number: np.ndarray

    def prior(self, grid: Grid, name: str, usual: Field) -> Field | None:
        """Make the field of a rib; None if the rib has under 6 cells.

        Args:
            grid: the grid of the scan.
            name: such as "rib_left_5".
            usual: the rib's field in the atlas.
        """
        _, side, number = name.split("_")
        is_rib = (self.side == SIDES.index(side)) & (self.number == int(number))
        if is_rib.sum() < _FEWEST:
            return None
        low = self.index[is_rib].min(axis=0) - 2
        high = self.index[is_rib].max(axis=0) + 2
        box = grid.around(grid.origin + grid.step * low, grid.origin + grid.step * high)
        cells = self.index[is_rib] - box.first
        is_next = np.linalg.norm(_OFFSETS * grid.step, axis=1) < _NEXT_CELLS * grid.step.max()
        for offset in _OFFSETS[is_next]:
            _put(box.values, cells + offset, _SURE * _NEXT_TO)
        _put(box.values, cells, _SURE)
        expected = usual.over(box)
        largest = float(expected[tuple(cells.T[::-1])].max())  # in the bone of the rib
        expected = np.minimum(expected / max(largest, 0.05), 1)
        # from _ELSEWHERE where the atlas never has the rib to 1 where it has the rib most often
        values = box.values * (_ELSEWHERE + (1 - _ELSEWHERE) * expected)
        _put(values, self.index[~is_rib] - box.first, 0.0)
        return box.with_values(values)


def _put(values: np.ndarray, cells: np.ndarray, value: float) -> None:
    """Set an array (k, j, i) to `value` at `cells` (n, 3), given as i, j, k. Cells outside the array are ignored."""
    inside = ((cells >= 0) & (cells < values.shape[::-1])).all(axis=1)
    values[tuple(cells[inside].T[::-1])] = value


def find_ribs(grid: Grid, atlas: Atlas, spine: Spine | None) -> Ribs | None:
    """Find the ribs of a scan. Return None if the spine, the CT numbers, bone or the ribs of the atlas are missing.

    Args:
        grid: the grid of the scan.
        atlas: where ribs lie in the average body.
        spine: the vertebrae of the scan, or None.
    """
    if spine is None or grid.hu is None:
        return None
    usual = _usual_ribs(atlas)
    if usual is None:
        return None
    bone = _bone_of_ribs(grid, usual, spine)
    if len(bone.cells) < _FEWEST:
        return None
    number = np.full(len(bone.cells), -1)
    for half, heights in enumerate(usual.heights):  # index in SIDES
        cells = np.flatnonzero(bone.side == half)
        number[cells] = _numbers_of_half(bone.select(cells), heights, spine, grid.shape)
    return Ribs(bone.cells, bone.side, number)


class _Bone(NamedTuple):
    """The n cells of bone that may belong to ribs.

    cells: (n, 3) i, j, k. body: (n, 3) body coordinates, mm. height: (n,) RAS S mm. side: (n,) index in SIDES.
    begins: (n,) bool, whether a rib may begin there. among: (n,) bool, True where the atlas has ribs more often than
    other bones.
    """

    cells: np.ndarray
    body: np.ndarray
    height: np.ndarray
    side: np.ndarray
    begins: np.ndarray
    among: np.ndarray

    def select(self, which: np.ndarray) -> _Bone:
        """Return some of the cells. which: their indices, or (n,) bool."""
        return _Bone(*(values[which] for values in self))


def number_pieces(
    index: np.ndarray,
    number: np.ndarray,
    error: np.ndarray,
    among: np.ndarray,
    shape: Cell,
) -> np.ndarray:
    """Number each connected piece of unnumbered bone in one half of the body. Returns rib numbers (n,) of all cells.

    Args:
        index: (n, 3) i, j, k of the cells.
        number: (n,) rib number of each cell; 0 if the cell is in no rib, -1 if unknown.
        error: (n, 13) mm, for each rib number 0 to 12: body height of the cell, corrected by the spine, minus the usual
            body height of this rib at the cell; NaN where the atlas never has the rib.
        among: (n,) bool, True where the atlas has ribs more often than other bones.
        shape: (k, j, i) of the grid.
    """
    free = np.flatnonzero(number < 0)
    numbered = np.flatnonzero(number > 0)
    # the mean error, reduced because it is uncertain with few cells
    numbered_error = np.nan_to_num(error[numbered, number[numbered]])
    common = numbered_error.sum() / (len(numbered) + _HALF_CORRECTED)
    off = np.nan_to_num(np.abs(error[free] - common), nan=_NOT_THERE_MM).clip(max=_NOT_THERE_MM)
    mask = np.zeros(shape, np.uint8)
    k, j, i = index[free, ::-1].T
    mask[k, j, i] = 1
    pieces = sitk.GetArrayFromImage(sitk.ConnectedComponent(sitk.GetImageFromArray(mask), True))
    piece = pieces[k, j, i] - 1
    size = np.bincount(piece)
    # (pieces, 13): mean error of each piece for each rib number; number 0, no rib, has a fixed cost
    cost = np.stack([np.bincount(piece, errors) for errors in off.T], axis=1) / size[:, None]
    cost[:, 0] = _FARTHEST_PIECE_MM
    best = cost.argmin(axis=1)
    is_other_bone = np.bincount(piece, among[free]) <= _AMONG_SHARE * size
    best[(size < _FEWEST) | is_other_bone] = 0
    result = number.copy()
    result[free] = best[piece]
    return result


class _Usual(NamedTuple):
    """Ribs in the atlas. places: bool (k, j, i), True for each cell that belongs more often to a rib than to another
    bone. nearby: bool (k, j, i), True for each cell in or near a rib that does not belong more often to another bone.
    heights: (2, 13, SECTORS), mean body height, mm, of a rib, by side, rib number and sector; NaN without a rib."""

    places: np.ndarray
    nearby: np.ndarray
    heights: np.ndarray


@lru_cache(maxsize=2)
def _usual_ribs(atlas: Atlas) -> _Usual | None:
    """Read where the ribs and the bones near them lie in the atlas; None if the atlas has no ribs."""
    ribs = np.zeros(SHAPE, np.uint16)
    other_bones = np.zeros(SHAPE, np.uint16)
    heights = np.full((2, RIBS + 1, SECTORS), np.nan)
    numbered = {
        f"rib_{side}_{n}": (half, n) for half, side in enumerate(SIDES) for n in range(1, RIBS + 1)
    }
    for name, occupancy in atlas.occupancies.items():
        box = Field(occupancy.first, occupancy.share).box
        if name in numbered:
            ribs[box] += occupancy.share
            points, weight = occupancy.points_mm()
            sector = _sectors(points)
            total = np.bincount(sector, weight, SECTORS)
            mean = np.bincount(sector, weight * points[:, 2], SECTORS) / np.maximum(total, 1e-9)
            heights[numbered[name]] = np.where(total > 0.01, mean, np.nan)
        elif name.startswith(("scapula", "clavicula", "sternum", "humerus", "hip")):
            other_bones[box] += occupancy.share
    if not ribs.any():
        return None
    image = sitk.GetImageFromArray((ribs > 0).astype(np.uint8))
    reachable = sitk.GetArrayFromImage(sitk.BinaryDilate(image, [_REACH] * 3, sitk.sitkBox)) > 0
    return _Usual(ribs > other_bones, reachable & (other_bones <= ribs), heights)


def _bone_of_ribs(grid: Grid, usual: _Usual, spine: Spine) -> _Bone:
    """Find the cells of bone that lie near the ribs of the atlas and belong to no vertebra."""
    k, j, i = np.nonzero(grid.tissue & (grid.hu > _BONE_HU))
    index = np.stack([i, j, k], axis=1)
    body = grid.body[:, k, j, i].T.astype(np.float64)
    frame_cell, is_near = frame_index(body)
    is_near[is_near] = usual.nearby[tuple(frame_cell[is_near].T[::-1])]
    index = index[is_near]
    body = body[is_near]
    among = usual.places[tuple(frame_cell[is_near].T[::-1])]
    place = grid.origin + grid.step * index
    right, front = spine.middle_at(place[:, 2])
    aside = np.abs(place[:, 0] - right)
    ahead = place[:, 1] - front
    begins = (aside > _BEGIN_MM[0]) & (aside < _BEGIN_MM[1]) & (ahead < _BEGIN_AHEAD_MM)
    is_beside = (aside > _VERTEBRA_MM[0]) | (ahead > _VERTEBRA_MM[1])
    side = (place[:, 0] > right).astype(int)
    return _Bone(index, body, place[:, 2], side, begins, among).select(is_beside)


def _numbers_of_half(bone: _Bone, heights: np.ndarray, spine: Spine, shape: Cell) -> np.ndarray:
    """Return the rib numbers (n,) of the cells in one half of the body.

    Args:
        bone: the cells.
        heights: (13, SECTORS) usual body heights of the ribs of this half, mm; see `_Usual`.
        spine: the vertebrae of the scan.
        shape: (k, j, i) of the grid.
    """
    error = bone.body[:, 2, None] - heights[:, _sectors(bone.body)].T
    number = _begun(bone.height, bone.begins, spine)
    number = _followed(bone.cells, number, error, shape)
    # (n, 13): by rib number; 0 stands for no rib
    shifts = [faded(spine.shift_of(f"T{max(n, 1)}"), bone.body[:, 1]) for n in range(RIBS + 1)]
    return number_pieces(bone.cells, number, error + np.stack(shifts, axis=1), bone.among, shape)


def _sectors(body: np.ndarray) -> np.ndarray:
    """Return the sector (n,) of n places (n, 3), body coordinates: 0 at the back, SECTORS - 1 at the front."""
    angle = np.arctan2(np.abs(body[:, 0]), -body[:, 1]) / np.pi
    return (angle * SECTORS).astype(int).clip(0, SECTORS - 1)


def _begun(height: np.ndarray, begins: np.ndarray, spine: Spine) -> np.ndarray:
    """Return for each of n cells the number (1 to 12) of the rib that begins there, 0 if a bone that is no rib
    begins there, or -1 if no rib begins there or its number is unknown. height: (n,) RAS S, mm. begins: (n,) bool."""
    number = np.full(len(height), -1)
    beginning = np.flatnonzero(begins)
    groups = [beginning[group] for group in _groups(height[beginning])]
    levels = _levels(np.array([height[group].mean() for group in groups]), spine)
    for group, level in zip(groups, levels, strict=True):
        number[group] = level
    return number


def _groups(height: np.ndarray) -> list[np.ndarray]:
    """Return the cell indices of each rib, highest rib first. A rib is a peak in the histogram of `height` (n,), mm."""
    if len(height) < _FEWEST_BEGIN:
        return []
    places = np.arange(height.min() - 5, height.max() + 6)  # every mm
    amount = np.exp(-np.square((places[:, None] - height) / _PROFILE_MM) / 2).sum(axis=1)
    peaks = np.flatnonzero((amount[1:-1] > amount[:-2]) & (amount[1:-1] >= amount[2:])) + 1
    groups: dict[int, np.ndarray] = {}  # by peak
    for peak in peaks[np.argsort(-amount[peaks])].tolist():  # the highest first
        valleys = [amount[min(peak, other) : max(peak, other)].min() for other in groups]
        group = np.flatnonzero(np.abs(height - places[peak]) < _ONE_RIB_MM / 2)
        is_separate = all(valley < _VALLEY * amount[peak] for valley in valleys)
        if is_separate and len(group) >= _FEWEST_BEGIN:
            groups[peak] = group
    return [groups[peak] for peak in sorted(groups, reverse=True)]


def _levels(heights: np.ndarray, spine: Spine) -> list[int]:
    """Return, for each height (RAS S mm) at the spine, the number of the rib that begins there: 0 if no rib begins
    there, -1 if the number is unknown."""
    levels = [-1] * len(heights)
    names = [name for name in spine.names if name in _ABOVE_MM]
    if not names or not levels:
        return levels
    middles = [spine.bounds_s[spine.names.index(name)].mean() for name in names]
    usual = np.array(middles) + [_ABOVE_MM[name] for name in names]
    # the ribs of one patient may all begin higher or lower than usual: try the common shifts from -10 to 10 mm
    least = np.inf
    for common in np.arange(-2 * _COMMON_MM, 2 * _COMMON_MM + 1, 2.0):
        cost, pairs = _aligned(np.square((heights[:, None] - usual - common) / _ERROR_MM) / 2)
        cost += float((common / _COMMON_MM) ** 2 / 2)
        if cost < least:
            least = cost
            best = pairs
    for row, column in best:
        region, number = names[column][0], names[column][1:]
        levels[row] = int(number) if region == "T" else 0
    return levels


def _aligned(price: np.ndarray) -> tuple[float, list[tuple[int, int]]]:
    """Pair rows with columns, both in order, at the least total cost. A row or column without a partner costs _SKIPPED.

    price: (rows, columns), cost of each possible pair. Returns the total cost, and (row, column) of all pairs.
    """
    rows, columns = price.shape
    # least total cost of the first rows and the first columns
    cost = np.zeros((rows + 1, columns + 1))
    cost[:, 0] = _SKIPPED * np.arange(rows + 1)
    cost[0] = _SKIPPED * np.arange(columns + 1)
    for row in range(rows):
        for column in range(columns):
            paired = cost[row, column] + price[row, column]
            skipped = min(cost[row, column + 1], cost[row + 1, column]) + _SKIPPED
            cost[row + 1, column + 1] = min(paired, skipped)
    # the pairs are read back from the last entry
    pairs = []
    row = rows
    column = columns
    while row and column:
        if cost[row, column] == cost[row - 1, column - 1] + price[row - 1, column - 1]:
            row -= 1
            column -= 1
            pairs.append((row, column))
        elif cost[row, column] == cost[row - 1, column] + _SKIPPED:
            row -= 1
        else:
            column -= 1
    return float(cost[-1, -1]), pairs


def _followed(index: np.ndarray, number: np.ndarray, error: np.ndarray, shape: Cell) -> np.ndarray:
    """Return `number` (n,) after rib numbers have spread, cell by cell, to connected cells without a number (-1).

    error: (n, 13) mm; column r is the body height of each cell minus the usual height of rib r. Along a rib the error
    changes slowly; between two ribs that touch, the error jumps. A number does not spread across a jump.
    """
    # row in `index` of each cell of the grid, -1 without a row; the border of one cell saves checks of the neighbours
    row = np.full(tuple(n + 2 for n in shape), -1, np.int32)
    padded = index[:, ::-1] + 1
    row[tuple(padded.T)] = np.arange(len(index))
    number = number.copy()
    front = np.flatnonzero(number >= 0)
    learnt = np.zeros(len(index))  # error that the rib of a numbered cell has there, mm
    for rib in np.unique(number[front]):
        begin = front[number[front] == rib]
        errors = error[begin, rib]
        if not np.isnan(errors).all():
            learnt[begin] = np.nanmedian(errors)
    while len(front):
        neighbour = row[tuple((padded[front][:, None] + _TOUCHING).reshape(-1, 3).T)]
        source = np.repeat(front, len(_TOUCHING))
        free = (neighbour >= 0) & (number[neighbour] < 0)
        # if several cells of the front touch a cell, the first one counts
        neighbour, first = np.unique(neighbour[free], return_index=True)
        source = source[free][first]
        change = np.nan_to_num(error[neighbour, number[source]] - learnt[source])
        steady = np.abs(change) < _DRIFT_MM
        front = neighbour[steady]
        source = source[steady]
        number[front] = number[source]
        learnt[front] = learnt[source] + _DRIFT_SHARE * change[steady]
    return number
