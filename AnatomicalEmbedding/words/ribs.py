"""Numbers the ribs: bone is followed from the vertebra that each rib begins at.

At the chest wall a coordinate is off by as much as the next rib is away; next to the spine the levels are known. Bone
there is numbered by the vertebrae in one ordered sequence, and each number follows its rib through connected bone.
Pieces that reach no vertebra, as in a scan that begins below the ribs' heads, are numbered by the ribs above and below
them and by their coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import SimpleITK as sitk

from ..anatomy.names import SIDES
from .atlas import LOW_MM, SHAPE, STEP_MM, Atlas
from .grid_weights import Field, Grid
from .occupancy import faded
from .rib_pieces import FEWEST, ONE_RIB_MM, RIBS, SECTORS, BoneOfHalf, number_pieces
from .spine import Spine

_BONE_HU = 130.0  # mean of a cell
_REACH = 3  # cells of the atlas around the places of ribs
_VERTEBRA_MM = (30.0, 45.0)  # bone nearer to the side of the spine's middle, and less far ahead of it, is a vertebra
_BEGIN_MM = (34.0, 46.0)  # from the spine's middle to the side, where ribs can be counted
_BEGIN_AHEAD_MM = 15.0
_FEWEST_BEGIN = 3  # cells
# Height of a rib there above the middle of its vertebra, mm: medians over label maps, rounded. Lumbar vertebrae have
# processes there, which are no ribs.
_ABOVE_MM = {f"T{n + 1}": mm for n, mm in enumerate((3, 12, 11, 10, 10, 10, 9, 8, 6, 4, -4, -14))}
_ABOVE_MM |= {f"L{n}": 0 for n in range(1, 5)}
_ERROR_MM, _COMMON_MM = 5.0, 5.0  # of that height: of one rib, and of all ribs of a patient
_SKIPPED = 4.0  # cost of bone that is no rib, and of a rib without bone
_PROFILE_MM, _VALLEY = 2.5, 0.7  # blur of the amount of bone by height; of the lower peak, between two ribs
_DRIFT_MM, _DRIFT_SHARE = 11.0, 0.08  # a coordinate's error may change so much along a rib, and how fast it is learnt
_FARTHEST_MM = 40.0  # of a rib's coordinates from the usual ones
_TOUCHING = np.concatenate([np.eye(3, dtype=int), -np.eye(3, dtype=int)])  # cells that share a face
_OFFSETS = np.stack(np.meshgrid(*[(-1, 0, 1)] * 3), axis=-1).reshape(-1, 3)
_NEXT_CELLS = 1.2  # bone's neighbours lie nearer, in the largest step between cells
_SURE, _NEXT_TO, _ELSEWHERE = 0.95, 0.4, 0.4  # prior in a rib's bone; of it next to that; where the atlas has it never


@dataclass(frozen=True, eq=False)
class Ribs:
    """index: (n, 3) cells i, j, k of bone. side: (n,) into SIDES. number: (n,) 1 to 12, or 0: bone of no rib."""

    index: np.ndarray
    side: np.ndarray
    number: np.ndarray

    def prior(self, grid: Grid, name: str, usual: Field) -> Field | None:
        """The prior of `rib_SIDE_NUMBER`: large in its bone, most where the atlas has it (`usual`), or None."""
        _, side, number = name.split("_")
        own = (self.side == SIDES.index(side)) & (self.number == int(number))
        if own.sum() < FEWEST:
            return None
        low, high = self.index[own].min(axis=0) - 2, self.index[own].max(axis=0) + 2
        box = grid.around(grid.origin + grid.step * low, grid.origin + grid.step * high)
        at = self.index[own] - box.first
        for offset in _OFFSETS[np.linalg.norm(_OFFSETS * grid.step, axis=1) < _NEXT_CELLS * grid.step.max()]:
            _put(box.values, at + offset, _SURE * _NEXT_TO)
        _put(box.values, at, _SURE)
        expected = grid.values_over(usual, box)
        expected = np.minimum(expected / max(float(expected[tuple(at.T[::-1])].max()), 0.05), 1)
        values = box.values * (_ELSEWHERE + (1 - _ELSEWHERE) * expected)
        _put(values, self.index[~own] - box.first, 0.0)
        return grid.with_values(box, values)


def _put(values: np.ndarray, cells: np.ndarray, value: float) -> None:
    """Set cells (n, 3) i, j, k of an array (k, j, i); cells beyond it are left out."""
    inside = ((cells >= 0) & (cells < values.shape[::-1])).all(axis=1)
    values[tuple(cells[inside].T[::-1])] = value


def find_ribs(grid: Grid, atlas: Atlas, spine: Spine | None) -> Ribs | None:
    """The ribs of a scan; None without a spine, without CT numbers, or with weights whose atlas has no ribs."""
    usual = None if spine is None or grid.hu is None else _usual_ribs(atlas)
    if usual is None:
        return None
    index, body, among = _bone_of_ribs(grid, usual)
    place = grid.origin + grid.step * index
    aside, ahead = (
        place[:, axis] - np.interp(place[:, 2], spine.course[:, 2], spine.course[:, axis]) for axis in (0, 1)
    )
    kept = (np.abs(aside) > _VERTEBRA_MM[0]) | (ahead > _VERTEBRA_MM[1])
    index, body, place, aside, ahead, among = (of[kept] for of in (index, body, place, aside, ahead, among))
    if len(index) < FEWEST:
        return None
    side = (aside > 0).astype(int)
    begins = (np.abs(aside) > _BEGIN_MM[0]) & (np.abs(aside) < _BEGIN_MM[1]) & (ahead < _BEGIN_AHEAD_MM)
    shift = np.stack([faded(spine.shift_of(f"T{max(n, 1)}"), body[:, 1]) for n in range(RIBS + 1)], axis=1)
    number = np.full(len(index), -1)
    for half in (0, 1):
        of = np.flatnonzero(side == half)
        height, error = place[of, 2], body[of, 2, None] - _heights_at(usual.heights[half], body[of])
        found = _followed(index[of], _begun(height, begins[of], spine), error, grid.shape)
        bone = BoneOfHalf(index[of], height, _sectors(body[of]), error + shift[of], among[of])
        number[of] = _plausible(number_pieces(bone, found, grid.shape), bone.error)
    return Ribs(index, side, number)


def _plausible(number: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Numbers (n,) without the ribs whose coordinates are far from the usual ones. error: (n, 13) mm."""
    number = number.copy()
    for each in range(1, RIBS + 1):
        of = number == each
        if not abs(_known_median(error[of, each])) < _FARTHEST_MM:
            number[of] = 0
    return number


def _known_median(values: np.ndarray) -> float:
    """Median of the values that are not NaN, or NaN."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else np.nan


@dataclass(frozen=True, eq=False)
class _Usual:
    """places: bool (k, j, i) of the frame, in ribs more often than in other bones. near: these and cells around them.
    heights: (2, 13, sectors) mm in the frame of each rib, by side and number; NaN where it does not reach.
    """

    places: np.ndarray
    near: np.ndarray
    heights: np.ndarray


@lru_cache(maxsize=2)
def _usual_ribs(atlas: Atlas) -> _Usual | None:
    ribs, others = np.zeros(SHAPE, dtype=np.uint16), np.zeros(SHAPE, dtype=np.uint16)
    heights = np.full((2, RIBS + 1, SECTORS), np.nan)
    numbered = {f"rib_{side}_{n}": (half, n) for half, side in enumerate(SIDES) for n in range(1, RIBS + 1)}
    for name, found in atlas.occupancies.items():
        box = tuple(slice(a, a + n) for a, n in zip(found.first[::-1], found.share.shape, strict=True))
        if name in numbered:
            ribs[box] += found.share
            points, weight = found.points_mm()
            sector = _sectors(points)
            total = np.bincount(sector, weight, SECTORS)
            mean = np.bincount(sector, weight * points[:, 2], SECTORS) / np.maximum(total, 1e-9)
            heights[numbered[name]] = np.where(total > 0.01, mean, np.nan)
        elif name.startswith(("scapula", "clavicula", "sternum", "humerus", "hip")):
            others[box] += found.share
    if not ribs.any():
        return None
    image = sitk.GetImageFromArray((ribs > 0).astype(np.uint8))
    near = sitk.GetArrayFromImage(sitk.BinaryDilate(image, [_REACH] * 3, sitk.sitkBox)) > 0
    return _Usual(ribs > others, near & (others <= ribs), heights)


def _bone_of_ribs(grid: Grid, usual: _Usual) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells (n, 3) i, j, k of bone where ribs may be, their places in the frame (n, 3), and whether ribs are there more
    often than other bones.
    """
    k, j, i = np.nonzero(grid.tissue & (grid.hu > _BONE_HU))
    body = grid.body[:, k, j, i].T.astype(np.float64)
    at = np.rint((body - LOW_MM) / STEP_MM).astype(int)
    kept = ((at >= 0) & (at < SHAPE[::-1])).all(axis=1)
    kept[kept] = usual.near[at[kept, 2], at[kept, 1], at[kept, 0]]
    at = at[kept]
    return np.stack([i, j, k], axis=1)[kept], body[kept], usual.places[at[:, 2], at[:, 1], at[:, 0]]


def _angles(body: np.ndarray) -> np.ndarray:
    """(n,) how far round from the back to the front each place of the frame lies, in sectors."""
    return np.arctan2(np.abs(body[:, 0]), -body[:, 1]) / np.pi * SECTORS


def _sectors(body: np.ndarray) -> np.ndarray:
    return _angles(body).astype(int).clip(0, SECTORS - 1)


def _heights_at(usual: np.ndarray, body: np.ndarray) -> np.ndarray:
    """(n, 13) heights in the frame of each rib round each place, of `_Usual.heights`; NaN where it does not reach."""
    at = (_angles(body) - 0.5).clip(0, SECTORS - 1.001)
    low = at.astype(int)
    part = at - low
    before, after = usual[:, low], usual[:, low + 1]
    before, after = np.where(np.isnan(before), after, before), np.where(np.isnan(after), before, after)
    return ((1 - part) * before + part * after).T


def _begun(height: np.ndarray, begins: np.ndarray, spine: Spine) -> np.ndarray:
    """Numbers of the cells of one half at the ribs' beginnings, -1 elsewhere. height: (n,) world mm."""
    number, here = np.full(len(height), -1), np.flatnonzero(begins)
    groups = [here[group] for group in _groups(height[here])]
    levels = _levels(np.array([height[group].mean() for group in groups]), spine)
    for group, level in zip(groups, levels, strict=True):
        number[group] = level
    return number


def _groups(height: np.ndarray) -> list[np.ndarray]:
    """Cells of each rib at its beginning, head first: around each peak of the amount of bone by height (n,) mm."""
    if len(height) < _FEWEST_BEGIN:
        return []
    at = np.arange(height.min() - 5, height.max() + 6)
    amount = np.exp(-np.square((at[:, None] - height) / _PROFILE_MM) / 2).sum(axis=1)
    peaks = np.flatnonzero((amount[1:-1] > amount[:-2]) & (amount[1:-1] >= amount[2:])) + 1
    kept: list[int] = []
    for peak in peaks[np.argsort(-amount[peaks])]:
        apart = all(amount[min(peak, p) : max(peak, p)].min() < _VALLEY * amount[peak] for p in kept)
        if apart and (np.abs(height - at[peak]) < ONE_RIB_MM / 2).sum() >= _FEWEST_BEGIN:
            kept.append(int(peak))
    return [np.flatnonzero(np.abs(height - at[peak]) < ONE_RIB_MM / 2) for peak in sorted(kept, reverse=True)]


def _levels(heights: np.ndarray, spine: Spine) -> list[int]:
    """The rib that begins at each of some heights (mm, falling); 0 for no rib, -1 for bone of no known level."""
    names = [name for name in spine.names if name in _ABOVE_MM]
    usual = np.array([spine.bounds_s[spine.names.index(name)].mean() + _ABOVE_MM[name] for name in names])
    if not names or not len(heights):
        return [-1] * len(heights)
    alignments = []
    for common in np.arange(-2 * _COMMON_MM, 2 * _COMMON_MM + 1, 2.0):
        cost, pairs = _aligned(np.square((heights[:, None] - usual - common) / _ERROR_MM) / 2)
        alignments.append((cost + (common / _COMMON_MM) ** 2 / 2, pairs))
    levels = [-1] * len(heights)
    for a, b in min(alignments, key=lambda each: each[0])[1]:
        levels[a] = int(names[b][1:]) if names[b][0] == "T" else 0
    return levels


def _aligned(price: np.ndarray) -> tuple[float, list[tuple[int, int]]]:
    """Pairs of two ordered sequences at the least cost; price: (a, b) of each pair."""
    rows, columns = price.shape
    cost = np.zeros((rows + 1, columns + 1))
    cost[:, 0], cost[0] = _SKIPPED * np.arange(rows + 1), _SKIPPED * np.arange(columns + 1)
    for a in range(rows):
        for b in range(columns):
            cost[a + 1, b + 1] = min(cost[a, b] + price[a, b], cost[a, b + 1] + _SKIPPED, cost[a + 1, b] + _SKIPPED)
    pairs, a, b = [], rows, columns
    while a and b:
        if cost[a, b] == cost[a - 1, b - 1] + price[a - 1, b - 1]:
            a, b = a - 1, b - 1
            pairs.append((a, b))
        elif cost[a, b] == cost[a - 1, b] + _SKIPPED:
            a -= 1
        else:
            b -= 1
    return float(cost[-1, -1]), pairs


def _followed(index: np.ndarray, number: np.ndarray, error: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Numbers passed on, cell by cell, to connected cells without one (-1); the nearest along the bone wins.

    error: (n, 13) mm that each cell's coordinate along the body lies above the usual one of each rib there. It changes
    slowly along a rib and jumps where ribs touch.
    """
    row = np.full(tuple(n + 2 for n in shape), -1, dtype=np.int32)
    at = index[:, ::-1] + 1
    row[tuple(at.T)] = np.arange(len(index))
    number, front = number.copy(), np.flatnonzero(number >= 0)
    learnt = np.zeros(len(index))
    for each in np.unique(number[front]):
        begin = front[number[front] == each]
        learnt[begin] = np.nan_to_num(_known_median(error[begin, each]))
    while len(front):
        near = row[tuple((at[front][:, None] + _TOUCHING).reshape(-1, 3).T)]
        source = np.repeat(front, len(_TOUCHING))
        free = (near >= 0) & (number[near] < 0)
        near, first = np.unique(near[free], return_index=True)
        source = source[free][first]
        change = np.nan_to_num(error[near, number[source]] - learnt[source])
        kept = np.abs(change) < _DRIFT_MM
        front, source = near[kept], source[kept]
        number[front] = number[source]
        learnt[front] = learnt[source] + _DRIFT_SHARE * change[kept]
    return number
