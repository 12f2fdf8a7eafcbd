"""Number the vertebrae: all boundaries between vertebrae are fitted to the spine of a scan at once.

A body coordinate gives the height in the body with an error of about one vertebra. Discs show exactly where boundaries
are, but not between which vertebrae. Dynamic programming fits all boundaries in their order, also the
boundaries outside the scan, to coordinates and discs. A boundary fits well if it lies near its usual coordinate, if its
distance to the next boundary is the usual height of a vertebra, and if it lies on a disc. A disc is darker than the
end plates above and below the disc.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..anatomy.names import VERTEBRAE
from ..embedding.levels import NEXT_TO, has_next
from ..scan.volume import Volume
from .atlas import LOW_MM, STEP_MM, Atlas, Occupancy
from .grid_weights import Field, Grid

_STEP_MM = 1.5  # step along the spine
_NEAR_MM = 8.0  # standard deviation of the Gaussian weight of cells, by their distance from the spine's usual course
_RADIUS_MM = 9.0  # the CT numbers of a disc are read inside this radius
_END_PLATE_MM = (4.5, 6.0)  # from the middle of a disc to its end plates
_BLUR_MM = 1.5
_BEHIND_MM = 16.0  # from the middle of a vertebra's body to its arch
# Usual height of a vertebra with its disc, mm, and the error of a coordinate along the spine there, mm: medians and
# spreads over the label maps of the atlas, rounded.
_HEIGHT_MM = dict(zip(VERTEBRAE, (
    14, 17, 17, 16, 16, 16.5, 18, 20, 22, 23, 23.5, 24, 24.5, 25, 25, 26, 27.5, 29, 31, 33, 34, 34.5, 34.5, 33, 30,
), strict=True))  # fmt: skip
_COORDINATE_MM = dict(
    zip(VERTEBRAE, (*[11] * 7, *[14] * 4, *[17] * 4, *[20] * 3, *[22] * 3, 19, 15, 11, 9), strict=True)
)
_COORDINATE_WORTH = 0.6  # weight of coordinates; below 1, as neighbouring boundaries have similar errors
_SPACING_SHARE = 0.1  # standard deviation of the heights of one patient's vertebrae, as a fraction of the height
_SCALES, _SCALE_SPREAD = np.arange(0.8, 1.26, 0.05), 0.1  # size of a patient relative to the usual size, and its spread
_DISC_WORTH = 2.0
_DISC_LIMIT = 2.0
_CORRELATED = 4.0  # number of neighbouring boundaries whose coordinates have similar errors
_FEWEST_SLICES = 6
_LEAST_SHOWN_MM = 5.0  # if the scan shows less of a vertebra, the vertebra is not listed


@dataclass(frozen=True, eq=False)
class Spine:
    """The n vertebrae of a scan, head first.

    Args:
        centres_ras: (n, 3) RAS mm, middles of the vertebral bodies.
        bounds_s: (n, 2) RAS S mm of the lower and the upper boundary.
        whole: (n,) bool, whether the middle of the vertebra lies in the scan.
        chance: (n,) chance that the level is right.
        shift_mm: (n,) mm, usual body height of each vertebra minus the body height that the map has there.
        course: (m, 3) RAS mm, points along the middle of the spine, lowest first.
    """

    names: tuple[str, ...]
    centres_ras: np.ndarray
    bounds_s: np.ndarray
    whole: np.ndarray
    chance: np.ndarray
    shift_mm: np.ndarray
    course: np.ndarray

    def at_height(self, s: float) -> np.ndarray:
        """Return the middle of the spine (3,) RAS mm at height S = `s` mm."""
        return np.array([np.interp(s, self.course[:, 2], self.course[:, axis]) for axis in range(2)] + [s])

    def shift_of(self, name: str) -> float:
        """Return `shift_mm` of a vertebra; for a vertebra outside the scan, `shift_mm` of the nearest vertebra."""
        order = np.array([VERTEBRAE.index(each) for each in self.names])
        return float(self.shift_mm[np.abs(order - VERTEBRAE.index(name)).argmin()])


def find_spine(grid: Grid, atlas: Atlas, volume: Volume | None) -> Spine | None:
    """Find the vertebrae of a scan. Return None if the scan shows too little of the spine, or if `volume` is None."""
    usual = None if volume is None else _usual_course(atlas)
    if usual is None:
        return None
    names, frame = usual
    course = _course(grid, frame)
    if course is None:
        return None
    heights, path, body_z = course
    disc = _discness(volume, heights, path)
    return _fitted(names, frame, heights, path, body_z, disc)


def begins_at_end(spine: Spine, ends: Mapping[str, float]) -> bool:
    """Return whether the scan shows an end of the spine and the vertebra next to this end: then all levels are certain.

    ends: {name of an end that the scan shows, such as "sacrum": RAS S mm}.
    """
    heights = dict(zip(spine.names, spine.bounds_s.mean(axis=1), strict=True))
    return any(NEXT_TO[end] in heights and has_next(end, heights[NEXT_TO[end]], at) for end, at in ends.items())


@dataclass(frozen=True, eq=False)
class Level:
    """A vertebra or disc. share: fraction inside the scan, 0 to 1. point_ras: (3,) middle; None outside the scan.
    chance: chance that the level is right.
    """

    share: float
    point_ras: np.ndarray | None
    chance: float


def numbered_place(spine: Spine, name: str) -> Level | None:
    """Find the vertebra or disc `name`. Return None for other places, and for the first and the last of VERTEBRAE."""
    kind, first, *_ = *name.split("_"), ""
    if kind not in ("vertebrae", "disc") or first in VERTEBRAE[:1] + VERTEBRAE[-1:]:
        return None
    if first not in spine.names:
        return Level(0.0, None, 0.0)
    n = spine.names.index(first)
    low, high = spine.course[0, 2], spine.course[-1, 2]
    bottom, top = spine.bounds_s[n]
    if kind == "disc":
        held = low <= bottom <= high
        return Level(float(held), spine.at_height(bottom) if held else None, float(spine.chance[n]))
    share = (min(top, high) - max(bottom, low)) / (top - bottom)
    middle = spine.centres_ras[n] if spine.whole[n] else spine.at_height((max(bottom, low) + min(top, high)) / 2)
    return Level(float(share), middle, float(spine.chance[n]))


def between_bounds(grid: Grid, field: Field, spine: Spine, vertebra: str) -> Field:
    """Reduce the values of a vertebra's field above its upper boundary, and less strongly below its lower boundary.

    The processes of a vertebra reach below its lower boundary. For the vertebra directly above `spine`, values below
    its lower boundary become 0, except behind the spine. A vertebra neither in `spine` nor next to it gets zeros.
    """
    place = VERTEBRAE.index(vertebra)
    height, behind = grid.position(field, 2), 1.0
    if vertebra in spine.names:
        bottom, top = spine.bounds_s[spine.names.index(vertebra)]
    elif place == VERTEBRAE.index(spine.names[0]) - 1:
        bottom, top = spine.bounds_s[0, 1], np.inf
        middle = np.interp(height, spine.course[:, 2], spine.course[:, 1])
        behind = (height > bottom) | (grid.position(field, 1) < middle - _BEHIND_MM)
    elif place == VERTEBRAE.index(spine.names[-1]) + 1:
        bottom, top = -np.inf, spine.bounds_s[-1, 0]
    else:
        return grid.with_values(field, np.zeros_like(field.values))
    below, above = np.maximum(bottom - height, 0), np.maximum(height - top, 0)
    return grid.with_values(field, field.values * behind * np.exp(-((below / 8) ** 2) / 2 - (above / 4) ** 2 / 2))


def _usual_course(atlas: Atlas) -> tuple[list[str], np.ndarray] | None:
    """Return the n vertebrae of the atlas, head first, and their middles, (n, 3) body frame mm. None if n < 3."""
    found = {name: atlas.occupancies.get(f"vertebrae_{name}") for name in VERTEBRAE}
    names = [name for name, occupancy in found.items() if occupancy is not None]
    if len(names) < 3:
        return None
    return names, np.array([_densest(found[name]) for name in names])


def _densest(occupancy: Occupancy) -> np.ndarray:
    """Return the middle (3,), mm, of the cells that a structure fills most often: for a vertebra, cells of its body."""
    share = occupancy.share.astype(np.float64)
    weight = np.where(share > 0.7 * share.max(), share, 0)
    k, j, i = np.nonzero(weight)
    return np.average(np.stack([i, j, k], axis=1) + occupancy.first, axis=0, weights=weight[k, j, i]) * STEP_MM + LOW_MM


def _course(grid: Grid, frame: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Find the m slices that show the spine, lowest first; None for fewer than 6. frame: (n, 3) vertebrae, body frame
    mm. Returns for each slice: RAS S mm, (m,); the middle of the spine, RAS R and A mm, (m, 2); its body height, (m,).
    """
    order = np.argsort(frame[:, 2])
    z = grid.body[2]
    x = np.interp(z, frame[order, 2], frame[order, 0]).astype(np.float32)
    y = np.interp(z, frame[order, 2], frame[order, 1]).astype(np.float32)
    square = np.square(grid.body[0] - x) + np.square(grid.body[1] - y)
    within = grid.tissue & (z > frame[:, 2].min() - 40) & (z < frame[:, 2].max() + 20)
    weight = np.exp(-square / (2 * _NEAR_MM**2)) * within
    total = weight.sum(axis=(1, 2))
    held = np.flatnonzero(total > 2.0)
    if len(held) < _FEWEST_SLICES:
        return None
    held = np.arange(held[0], held[-1] + 1)
    weight, total = weight[held], np.maximum(total[held], 1e-6)
    right, ahead, up = grid.axes
    middle = np.stack([(weight * right).sum(axis=(1, 2)), (weight * ahead[:, None]).sum(axis=(1, 2))], axis=1)
    middle /= total[:, None]
    body_z = (weight * z[held]).sum(axis=(1, 2)) / total
    return up[held].astype(np.float64), _smoothed(middle, 14.0 / grid.step[2]), _smoothed(body_z[:, None], 3.0)[:, 0]


def _smoothed(values: np.ndarray, sigma: float) -> np.ndarray:
    """Smooth (m, c) along the first axis by a Gaussian of `sigma` rows; the ends are extended."""
    reach = int(3 * sigma) + 1
    kernel = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    kernel /= kernel.sum()
    padded = np.pad(values, ((reach, reach), (0, 0)), mode="edge")
    return np.stack([np.convolve(column, kernel, mode="valid") for column in padded.T], axis=1)


def _discness(volume: Volume, heights: np.ndarray, path: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return heights (n,), RAS S mm, 1.5 mm apart; and (n,) how much darker the spine is there than above and below."""
    at = np.arange(heights[0] - 2, heights[-1] + 2, _STEP_MM)
    centre = np.stack([np.interp(at, heights, path[:, 0]), np.interp(at, heights, path[:, 1]), at], axis=1)
    tangent = _smoothed(np.gradient(centre, axis=0), 8.0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    across = np.cross(tangent, [1.0, 0.0, 0.0])
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    side = np.cross(across, tangent)
    radius, angle = np.meshgrid(np.array([0, 3, 6, _RADIUS_MM]), np.linspace(0, 2 * np.pi, 8, endpoint=False))
    u, v = (radius * np.cos(angle)).ravel(), (radius * np.sin(angle)).ravel()
    points = centre[:, None] + u[None, :, None] * side[:, None] + v[None, :, None] * across[:, None]
    hu = volume.sample(points.reshape(-1, 3), outside=np.nan).reshape(points.shape[:2])
    mean = np.nanmean(np.clip(np.where(np.isnan(hu).all(axis=1, keepdims=True), 0.0, hu), -50, 600), axis=1)
    mean = _smoothed(np.nan_to_num(mean)[:, None], _BLUR_MM / _STEP_MM)[:, 0]
    plates = np.zeros_like(mean)
    for away in _END_PLATE_MM:
        n = round(away / _STEP_MM)
        low, high = np.roll(mean, n), np.roll(mean, -n)
        low[:n], high[-n:] = mean[0], mean[-1]
        plates = np.maximum(plates, np.minimum(low, high))
    dark = plates[4:-4] - mean[4:-4]
    scale = max(float(np.percentile(np.abs(dark), 75)), 8.0)
    return at, np.pad(np.clip(dark / scale, -_DISC_LIMIT, _DISC_LIMIT), 4)


def _fitted(
    names: list[str],
    frame: np.ndarray,
    heights: np.ndarray,
    path: np.ndarray,
    body_z: np.ndarray,
    disc: tuple[np.ndarray, np.ndarray],
) -> Spine | None:
    slope = float(np.clip(np.polyfit(heights, body_z, 1)[0], 0.75, 1.35))  # mm of body height for each mm in the scan
    bounds = (frame[:-1, 2] + frame[1:, 2]) / 2  # body heights, head first
    top = heights[-1] + max(bounds[0] - body_z[-1], 0) / slope + 90
    bottom = heights[0] - max(body_z[0] - bounds[-1], 0) / slope - 90
    at = np.arange(top, bottom, -_STEP_MM)
    z = np.interp(at, heights, body_z)
    z = np.where(at > heights[-1], body_z[-1] + (at - heights[-1]) * slope, z)
    z = np.where(at < heights[0], body_z[0] + (at - heights[0]) * slope, z)
    evidence = np.interp(at, *disc, left=0.0, right=0.0)
    errors = np.array([_COORDINATE_MM[name] for name in names[:-1]])
    held = (at >= heights[0] - _STEP_MM) & (at <= heights[-1] + _STEP_MM)  # coordinates count only inside the scan
    unary = np.square((z[None] - bounds[:, None]) / errors[:, None]) * (held / 2 * _COORDINATE_WORTH)
    unary = unary - _DISC_WORTH * evidence[None]
    sizes = np.array([_HEIGHT_MM[name] for name in names[1:-1]])
    fits = []
    for scale in _SCALES:
        down, up = _best_paths(unary, scale * sizes)
        cost = float(down[-1].min()) + ((scale - 1) / _SCALE_SPREAD) ** 2 / 2
        fits.append((cost, down + up - unary, down, scale * sizes))
    _, marginal, down, usual = min(fits, key=lambda fit: fit[0])
    chosen = _traced(down, usual)
    upper, lower = at[chosen[:-1]], at[chosen[1:]]  # of all vertebrae except the first and the last
    low, high = heights[0], heights[-1]
    shown = np.flatnonzero(np.minimum(upper, high) - np.maximum(lower, low) >= _LEAST_SHOWN_MM)
    if not len(shown):
        return None
    upper, lower = upper[shown], lower[shown]
    middle = (upper + lower) / 2
    within, whole = np.clip(middle, low, high), (middle >= low) & (middle <= high)
    shift = frame[shown + 1, 2] - np.interp(within, heights, body_z)
    if whole.any():  # a cut vertebra, with its middle outside the scan, gets the shift of the nearest whole vertebra
        shift = np.interp(np.arange(len(shift)), np.flatnonzero(whole), shift[whole])
    return Spine(
        tuple(names[n + 1] for n in shown),
        np.column_stack([*(np.interp(within, heights, side) for side in path.T), within]),
        np.stack([lower, upper], axis=1),
        whole,
        np.array([_chance(marginal, chosen, n + 1) for n in shown]),
        shift,
        np.column_stack([path, heights]),
    )


def _best_paths(unary: np.ndarray, usual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays (boundaries, places). Entry (n, p) is the least total cost if boundary n lies at place p.

    The first array counts the costs of boundary n and of all boundaries above it; the second, of n and all below it.
    """
    down, up = unary.copy(), unary.copy()
    for n in range(1, len(unary)):
        down[n] += _least_before(down[n - 1], usual[n - 1])
    for n in range(len(unary) - 2, -1, -1):
        up[n] += _least_before(up[n + 1][::-1], usual[n])[::-1]
    return down, up


def _steps(usual: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the heights that a vertebra may have, in units of `_STEP_MM`, and the cost of each. usual: mm."""
    places = np.arange(max(int(0.7 * usual / _STEP_MM), 1), int(1.35 * usual / _STEP_MM) + 2)
    return places, np.square((places * _STEP_MM - usual) / (_SPACING_SHARE * usual)) / 2


def _least_before(cost: np.ndarray, usual: float) -> np.ndarray:
    result = np.full(len(cost), np.inf)
    for places, price in zip(*_steps(usual), strict=True):
        result[places:] = np.minimum(result[places:], cost[: len(cost) - places] + price)
    return result


def _traced(down: np.ndarray, usual: np.ndarray) -> list[int]:
    """Return the place of each boundary at the least total cost, head first. down: first array of `_best_paths`."""
    chosen = [int(down[-1].argmin())]
    for n in range(len(down) - 2, -1, -1):
        places, price = _steps(usual[n])
        before = chosen[-1] - places
        cost = np.where(before >= 0, down[n][np.maximum(before, 0)] + price, np.inf)
        chosen.append(max(int(before[int(cost.argmin())]), 0))
    return chosen[::-1]


def _chance(marginal: np.ndarray, chosen: list[int], n: int) -> float:
    """Return the chance that the level of vertebra `n` is right, compared with one level higher and one level lower."""
    costs = []
    for step in (-1, 0, 1):
        places = [(bound, chosen[int(np.clip(bound + step, 0, len(chosen) - 1))]) for bound in (n - 1, n)]
        costs.append(sum(float(marginal[bound][max(at - 2, 0) : at + 3].min()) / 2 for bound, at in places))
    weight = np.exp(-np.clip((np.array(costs) - min(costs)) / _CORRELATED, 0, 50))
    return float(weight[1] / weight.sum())
