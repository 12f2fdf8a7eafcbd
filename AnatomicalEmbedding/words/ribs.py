"""Number the ribs: each rib is followed through bone from the vertebra at which the rib begins.

At the chest wall, a body coordinate may be wrong by the distance of two ribs. Next to the spine, where the levels
are known, the bone gets the numbers of the vertebrae, for all ribs at once and in their order. Then each number spreads
through connected bone. Some pieces of bone reach no vertebra, for example if the scan begins below the rib heads.
These pieces are numbered by their body coordinates, corrected by the mean error of the numbered ribs' coordinates.
"""

from dataclasses import dataclass
from functools import lru_cache

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
    usual = None if spine is None or grid.hu is None else _usual_ribs(atlas)
    if usual is None:
        return None
    index, body, among = _bone_of_ribs(grid, usual)
    place = grid.origin + grid.step * index
    right, front = spine.middle_at(place[:, 2])
    aside = place[:, 0] - right
    ahead = place[:, 1] - front
    beside = (np.abs(aside) > _VERTEBRA_MM[0]) | (ahead > _VERTEBRA_MM[1])
    # from here on, only the n cells that belong to no vertebra
    index, body, place, aside, ahead, among = (
        values[beside] for values in (index, body, place, aside, ahead, among)
    )
    if len(index) < _FEWEST:
        return None
    side = (aside > 0).astype(int)
    begins = (
        (np.abs(aside) > _BEGIN_MM[0]) & (np.abs(aside) < _BEGIN_MM[1]) & (ahead < _BEGIN_AHEAD_MM)
    )
    # (n, 13): by rib number; 0 stands for no rib
    shift = np.stack(
        [faded(spine.shift_of(f"T{max(n, 1)}"), body[:, 1]) for n in range(RIBS + 1)], axis=1
    )
    number = np.full(len(index), -1)
    for half in (0, 1):  # index in SIDES
        half_cells = np.flatnonzero(side == half)
        height = place[half_cells, 2]
        error = body[half_cells, 2, None] - usual.heights[half][:, _sectors(body[half_cells])].T
        known_number = _followed(
            index[half_cells], _begun(height, begins[half_cells], spine), error, grid.shape
        )
        number[half_cells] = number_pieces(
            index[half_cells],
            known_number,
            error + shift[half_cells],
            among[half_cells],
            grid.shape,
        )
    return Ribs(index, side, number)


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
    errors = np.nan_to_num(error[numbered, number[numbered]])
    common = errors.sum() / (len(numbered) + _HALF_CORRECTED)
    off = np.nan_to_num(np.abs(error[free] - common), nan=_NOT_THERE_MM).clip(max=_NOT_THERE_MM)
    mask = np.zeros(shape, dtype=np.uint8)
    mask[tuple(index[free, ::-1].T)] = 1
    pieces = sitk.GetArrayFromImage(sitk.ConnectedComponent(sitk.GetImageFromArray(mask), True))
    piece = pieces[tuple(index[free, ::-1].T)] - 1
    size = np.bincount(piece)
    # (pieces, 13): mean error of each piece for each rib number; number 0, no rib, has a fixed cost
    cost = np.stack([np.bincount(piece, errors) for errors in off.T], axis=1) / size[:, None]
    cost[:, 0] = _FARTHEST_PIECE_MM
    best = cost.argmin(axis=1)
    best[(size < _FEWEST) | (np.bincount(piece, among[free]) <= _AMONG_SHARE * size)] = 0
    result = number.copy()
    result[free] = best[piece]
    return result


@dataclass(frozen=True, eq=False)
class _Usual:
    """Ribs in the atlas. places: bool (k, j, i), True for each cell that belongs more often to a rib than to another
    bone. nearby: bool (k, j, i), True for each cell in or near a rib that does not belong more often to another bone.
    heights: (2, 13, SECTORS), mean body height, mm, of a rib, by side, rib number and sector; NaN without a rib."""

    places: np.ndarray
    nearby: np.ndarray
    heights: np.ndarray


@lru_cache(maxsize=2)
def _usual_ribs(atlas: Atlas) -> _Usual | None:
    """Read where the ribs and the bones near them lie in the atlas; None if the atlas has no ribs."""
    ribs = np.zeros(SHAPE, dtype=np.uint16)
    other_bones = np.zeros(SHAPE, dtype=np.uint16)
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


def _bone_of_ribs(grid: Grid, usual: _Usual) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return i, j, k (n, 3) of the bone cells that may belong to ribs, their body coordinates (n, 3), mm, and (n,)
    bool: True where the atlas has ribs more often than other bones."""
    k, j, i = np.nonzero(grid.tissue & (grid.hu > _BONE_HU))
    body = grid.body[:, k, j, i].T.astype(np.float64)
    index, near_ribs = frame_index(body)
    near_ribs[near_ribs] = usual.nearby[tuple(index[near_ribs].T[::-1])]
    among = usual.places[tuple(index[near_ribs].T[::-1])]
    return np.stack([i, j, k], axis=1)[near_ribs], body[near_ribs], among


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
    chosen: list[int] = []
    for peak in peaks[np.argsort(-amount[peaks])]:  # the highest first
        is_separate = all(
            amount[min(peak, p) : max(peak, p)].min() < _VALLEY * amount[peak] for p in chosen
        )
        if is_separate and (np.abs(height - places[peak]) < _ONE_RIB_MM / 2).sum() >= _FEWEST_BEGIN:
            chosen.append(int(peak))
    return [
        np.flatnonzero(np.abs(height - places[peak]) < _ONE_RIB_MM / 2)
        for peak in sorted(chosen, reverse=True)
    ]


def _levels(heights: np.ndarray, spine: Spine) -> list[int]:
    """Return, for each height (RAS S mm) at the spine, the number of the rib that begins there: 0 if no rib begins
    there, -1 if the number is unknown."""
    names = [name for name in spine.names if name in _ABOVE_MM]
    usual = np.array(
        [spine.bounds_s[spine.names.index(name)].mean() + _ABOVE_MM[name] for name in names]
    )
    if not names or not len(heights):
        return [-1] * len(heights)
    # the ribs of one patient may all begin higher or lower than usual: try the common shifts from -10 to 10 mm
    alignments = []
    for common in np.arange(-2 * _COMMON_MM, 2 * _COMMON_MM + 1, 2.0):
        cost, pairs = _aligned(np.square((heights[:, None] - usual - common) / _ERROR_MM) / 2)
        alignments.append((cost + (common / _COMMON_MM) ** 2 / 2, pairs))
    levels = [-1] * len(heights)
    for a, b in min(alignments, key=lambda alignment: alignment[0])[1]:
        levels[a] = int(names[b][1:]) if names[b][0] == "T" else 0
    return levels


def _aligned(price: np.ndarray) -> tuple[float, list[tuple[int, int]]]:
    """Pair rows with columns, both in order, at the least total cost. A row or column without a partner costs _SKIPPED.

    price: (rows, columns), cost of each possible pair. Returns the total cost, and (row, column) of all pairs.
    """
    rows, columns = price.shape
    cost = np.zeros((rows + 1, columns + 1))
    cost[:, 0], cost[0] = _SKIPPED * np.arange(rows + 1), _SKIPPED * np.arange(columns + 1)
    for a in range(rows):
        for b in range(columns):
            cost[a + 1, b + 1] = min(
                cost[a, b] + price[a, b], cost[a, b + 1] + _SKIPPED, cost[a + 1, b] + _SKIPPED
            )
    # cost[a, b]: of the first a rows and the first b columns. The pairs are read back from the last entry.
    pairs = []
    a = rows
    b = columns
    while a and b:
        if cost[a, b] == cost[a - 1, b - 1] + price[a - 1, b - 1]:
            a = a - 1
            b = b - 1
            pairs.append((a, b))
        elif cost[a, b] == cost[a - 1, b] + _SKIPPED:
            a -= 1
        else:
            b -= 1
    return float(cost[-1, -1]), pairs


def _followed(index: np.ndarray, number: np.ndarray, error: np.ndarray, shape: Cell) -> np.ndarray:
    """Return `number` (n,) after rib numbers have spread, cell by cell, to connected cells without a number (-1).

    error: (n, 13) mm; column r is the body height of each cell minus the usual height of rib r. Along a rib the error
    changes slowly; between two ribs that touch, the error jumps. A number does not spread across a jump.
    """
    # row in `index` of each cell of the grid, -1 without a row; the border of one cell saves checks of the neighbours
    row = np.full(tuple(n + 2 for n in shape), -1, dtype=np.int32)
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
