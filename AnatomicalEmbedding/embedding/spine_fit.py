"""Number the vertebrae: all boundaries between vertebrae are fitted to the spine of a scan at once.

A body coordinate gives the height in the body with an error of about one vertebra. Discs show exactly where boundaries
are, but not between which vertebrae. Dynamic programming fits all boundaries in their order, also the
boundaries outside the scan, to coordinates, discs and the ends of the spine. A boundary fits well if it lies near its
usual coordinate, if its distance to the next boundary is the usual height of a vertebra, and if it lies on a disc. A
disc is darker than the end plates above and below the disc.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch.nn.functional as F

from ..anatomy.names import VERTEBRAE
from ..scan.geometry import bounds_of
from ..scan.volume import Volume
from .levels import spine_ends
from .map import EmbeddingMap
from .spine import AHEAD_MM, HEIGHT_MM, Spine

USUAL_MM = np.stack([AHEAD_MM, HEIGHT_MM], axis=1)  # (25, 2) A and S of each of VERTEBRAE in the body frame

_STEP_MM = 1.5  # step along the spine
_FINE_MM = 4.0  # coordinates are interpolated to about this step
_NEAR_MM = 8.0  # standard deviation of the Gaussian weight of cells, by their distance from the spine's usual course
_REACH_MM = 40.0  # cells farther from the usual course are not read
_LEAST_BODY = 0.4  # least share of body cells around a place of the spine
# The course is moved at most this far to the front or back; loss of HU for each square mm; blur along the spine.
_SOUGHT_MM, _MOVED_HU, _ALONG_MM = 20.0, 0.1, 12.0
_DEPTH_MM = (130.0, 250.0, 440.0, 540.0), (34.0, 32.0, 26.0, 16.0)  # body heights; front to back of a vertebral body
_AHEAD_SHARE = 0.35  # usual distance that the course is moved to the front, as a fraction of the depth of the body
_RADIUS_MM = 9.0  # the CT numbers of a disc are read inside this radius
# From the middle of a disc to its end plates: above and below this body height.
_LUMBAR_MM, _THIN_MM, _THICK_MM = 300.0, (3.0, 4.5), (4.5, 6.0)
_BLUR_MM = 1.5
_BRIGHT_WORTH = 0.7  # weight of bright end plates, relative to a dark disc
_AROUND_MM = 12.0  # standard deviation of the Gaussian weights of the mean HU around a disc
_TILTS = (-20, -10, 0, 10, 20)  # degrees
# Usual height of a vertebra with its disc, mm, and the error of a coordinate along the spine there, mm: medians and
# spreads over the label maps of the atlas, rounded.
_HEIGHT_MM = dict(zip(VERTEBRAE, (
    14, 17, 17, 16, 16, 16.5, 18, 20, 22, 23, 23.5, 24, 24.5, 25, 25, 26, 27.5, 29, 31, 33, 34, 34.5, 34.5, 33, 30,
), strict=True))  # fmt: skip
_COORDINATE_MM = dict(
    zip(VERTEBRAE, (*[11] * 7, *[14] * 4, *[17] * 4, *[20] * 3, *[22] * 3, 19, 15, 11, 9), strict=True)
)
_COORDINATE_WORTH = 0.6  # weight of coordinates; below 1, as neighbouring boundaries have similar errors
_SPACING_SHARE = 0.07  # standard deviation of the heights of one patient's vertebrae, as a fraction of the height
_SCALES, _SCALE_SPREAD = np.arange(0.8, 1.26, 0.05), 0.1  # size of a patient relative to the usual size, and its spread
_DISC_WORTH = 2.0
_DISC_LIMIT = 2.0
_CORRELATED = 4.0  # number of neighbouring boundaries whose coordinates have similar errors
# End of the spine -> vertebra above the boundary that is fitted to the end, height of this boundary above the end, and
# its standard error, mm: measured in label images.
_ENDS = {"sacrum": ("L5", -14.0, 8.0), "lung apices": ("C7", 6.0, 12.0), "skull base": ("C2", -21.0, 7.0)}
_END_WORTH, _END_LIMIT = 3.0, 9.0  # weight of an end; largest squared error of an end, in standard errors
# Ribs are bone of at least _BONE_HU beside the course, behind its middle. Areas in mm^2: equally likely with and
# without a rib; change that makes a rib e times likelier.
_RIB_STEP_MM, _RIB_BLUR_MM, _RIB_BELOW_MM = 3.0, 10.0, 14.0
_BESIDE_MM, _BEHIND, _BONE_HU = (38.0, 55.0), np.arange(-55.0, -13.0, 3.0), 230.0
_RIB_MM2, _SIGN_LIMIT, _RIB_WORTH, _RIB_SEEN = (26.0, 10.0), 2.0, 0.1, 1.0
_HAS_RIBS = np.array([{"C": 1.0, "T": 1.0, "L": -1.0, "S": 0.0}[name[0]] for name in VERTEBRAE])
_HAS_RIBS[VERTEBRAE.index("L5")] = 0.0  # the hip bones begin there
_BESIDE_END_MM = 20.0  # the scan shows the lowest ribs if it reaches this far above and below their vertebra
# Coordinates are corrected fully from the higher chance of the level on, and not at all below the lower chance.
_NOT_CORRECTED, _CORRECTED = 0.5, 0.8
_FEWEST_SLICES = 6
_LEAST_SHOWN_MM = 5.0  # if the scan shows less of a vertebra, the vertebra is not listed


class Course(NamedTuple):
    """The m slices that show the spine, lowest first: RAS S mm, (m,); the middle of the spine, RAS R and A mm, (m, 2);
    its body height, mm, (m,)."""

    heights: np.ndarray
    path: np.ndarray
    body_z: np.ndarray


def fit_spine(embedding: EmbeddingMap, volume: Volume, usual: np.ndarray = USUAL_MM) -> Spine | None:
    """Find the vertebrae of a scan. Return None if the scan shows too little of the spine.

    Args:
        embedding: map of the scan, whose coordinates are not corrected yet.
        usual: (25, 2) usual A and S of the middle of each vertebra (body and arch), head first, mm in the frame of the
            coordinates.
    """
    course = find_course(embedding, usual)
    if course is None:
        return None
    course = centred(volume, course)
    return fit_levels(course, discness(volume, course), spine_ends(embedding), rib_signs(volume, course), usual)


def find_course(embedding: EmbeddingMap, usual: np.ndarray = USUAL_MM) -> Course | None:
    """Find the slices that show the spine; None for fewer than 6. usual: as in `fit_spine`."""
    if not embedding.provenance.metric or not embedding.body.any():
        return None
    index, body = embedding.body_cells
    x, y, z = body.T.numpy()
    near = (np.hypot(x, y - _ahead(z, usual)) < _REACH_MM) & _along_spine(z, usual)
    if not near.any():
        return None
    held = index.numpy()[near]
    low, high = np.maximum(held.min(axis=0) - 1, 0), held.max(axis=0) + 2
    box = tuple(slice(a, b) for a, b in zip(low[::-1], high[::-1], strict=True))
    parts = np.maximum(np.rint(embedding.cell_mm / _FINE_MM), 1).astype(int)
    part = embedding.coordinate_and_body[(slice(None), slice(None), *box)]
    shape = [int(n * p) for n, p in zip(part.shape[2:], parts[::-1], strict=True)]
    mixed = F.interpolate(part, size=shape, mode="trilinear", align_corners=False)[0].numpy()
    step = embedding.cell_mm / parts
    first = embedding.cell_to_ras[:3, 3] + embedding.cell_mm * (low - 0.5) + step / 2
    right, ahead, up = (first[axis] + step[axis] * np.arange(mixed.shape[3 - axis]) for axis in range(3))
    x, y, z = mixed[:3] / np.maximum(mixed[3], 1e-4)
    square = np.square(x) + np.square(y - _ahead(z, usual))
    weight = np.exp(-square / (2 * _NEAR_MM**2)) * ((mixed[3] > _LEAST_BODY) & _along_spine(z, usual))
    bottom, top = bounds_of(embedding.scan_to_ras, embedding.scan_shape)[:, 2]
    weight *= ((up >= bottom) & (up <= top))[:, None, None]
    total = weight.sum(axis=(1, 2))
    shown = np.flatnonzero(total > 2.0)
    if len(shown) < _FEWEST_SLICES:
        return None
    shown = np.arange(shown[0], shown[-1] + 1)
    weight, total = weight[shown], np.maximum(total[shown], 1e-6)
    middle = np.stack([(weight * right).sum(axis=(1, 2)), (weight * ahead[:, None]).sum(axis=(1, 2))], axis=1)
    body_z = (weight * z[shown]).sum(axis=(1, 2)) / total
    middle = _smoothed(middle / total[:, None], 14.0 / step[2])
    return Course(up[shown], middle, _smoothed(body_z[:, None], 3.0)[:, 0])


def _along_spine(z: np.ndarray, usual: np.ndarray) -> np.ndarray:
    return (z > usual[-1, 1] - 40) & (z < usual[0, 1] + 20)


def _ahead(z: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Return the usual A of the middle of the spine, mm, at body heights `z`, mm."""
    return np.interp(z, usual[::-1, 1], usual[::-1, 0])


def _smoothed(values: np.ndarray, sigma: float) -> np.ndarray:
    """Smooth (m, c) along the first axis by a Gaussian of `sigma` rows; the ends are extended."""
    reach = int(3 * sigma) + 1
    kernel = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    kernel /= kernel.sum()
    padded = np.pad(values, ((reach, reach), (0, 0)), mode="edge")
    return np.stack([np.convolve(column, kernel, mode="valid") for column in padded.T], axis=1)


def centred(volume: Volume, course: Course) -> Course:
    """Move a course to the front or to the back, into the middle of the bone of the vertebral bodies."""
    heights, path, _ = course
    depth = np.interp(course.body_z, *_DEPTH_MM)
    off = np.arange(-_SOUGHT_MM, _SOUGHT_MM + 1, 2.0)
    reach = np.arange(off[0] - depth.max() / 2 - 2, off[-1] + depth.max() / 2 + 2, 2.0)
    points = np.empty((len(heights), len(reach), 3, 3))
    points[..., 0] = path[:, 0, None, None] + (-6.0, 0.0, 6.0)
    points[..., 1] = path[:, 1, None, None] + reach[:, None]
    points[..., 2] = heights[:, None, None]
    hu = volume.sample(points.reshape(-1, 3), outside=-1000.0).reshape(points.shape[:3])
    step = np.diff(heights).mean()
    bone = _smoothed(np.clip(hu, -50, 250).mean(axis=2), _ALONG_MM / step)
    total = np.cumsum(bone, axis=1)
    edges = [np.rint((off + sign * depth[:, None] / 2 - reach[0]) / 2).astype(int) for sign in (-1, 1)]
    low, high = (np.take_along_axis(total, edge, axis=1) for edge in edges)
    usual = _AHEAD_SHARE * depth[:, None]  # the average body's course is the middle of the bone with the arches
    best = off[((high - low) / (edges[1] - edges[0]) - _MOVED_HU * np.square(off - usual)).argmax(axis=1)]
    moved = path[:, 1] + _smoothed(best[:, None], _ALONG_MM / step)[:, 0]
    return course._replace(path=np.stack([path[:, 0], moved], axis=1))


def discness(volume: Volume, course: Course) -> tuple[np.ndarray, np.ndarray]:
    """Return heights (n,), RAS S mm, 1.5 mm apart; and (n,) how much darker the spine is there than above and below.

    Discs are tilted to the front or back by up to 20 degrees; the tilt with the largest difference counts.
    """
    heights, path, _ = course
    at = np.arange(heights[0] - 2, heights[-1] + 2, _STEP_MM)
    centre = np.stack([np.interp(at, heights, path[:, 0]), np.interp(at, heights, path[:, 1]), at], axis=1)
    tangent = _smoothed(np.gradient(centre, axis=0), 8.0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    across = np.cross(tangent, [1.0, 0.0, 0.0])
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    side = np.cross(across, tangent)
    radius, angle = np.meshgrid(np.array([0, 3, 6, _RADIUS_MM]), np.linspace(0, 2 * np.pi, 8, endpoint=False))
    u, v = (radius * np.cos(angle)).ravel(), (radius * np.sin(angle)).ravel()
    lumbar = np.interp(at, heights, course.body_z)[4:-4] < _LUMBAR_MM
    dark = []
    for tilt in np.radians(_TILTS):
        ahead = np.cos(tilt) * across + np.sin(tilt) * tangent
        points = centre[:, None] + u[None, :, None] * side[:, None] + v[None, :, None] * ahead[:, None]
        hu = volume.sample(points.reshape(-1, 3), outside=np.nan).reshape(points.shape[:2])
        mean = np.nanmean(np.clip(np.where(np.isnan(hu).all(axis=1, keepdims=True), 0.0, hu), -50, 600), axis=1)
        mean = _smoothed(np.nan_to_num(mean)[:, None], _BLUR_MM / _STEP_MM)[:, 0]
        thin, thick = (_like_disc(mean, plates) for plates in (_THIN_MM, _THICK_MM))
        dark.append(np.where(lumbar, thick, thin))
    best = np.max(dark, axis=0)
    scale = max(float(np.percentile(np.abs(best), 75)), 8.0)
    return at, np.pad(np.clip(best / scale, -_DISC_LIMIT, _DISC_LIMIT), 4)


def _like_disc(mean: np.ndarray, plates_mm: tuple[float, ...]) -> np.ndarray:
    """Return how much the mean HU (n,) along the spine look like a disc at each place; without 4 places at each end.

    A disc is darker than its end plates, and the end plates are brighter than the bone around.
    """
    plates, bright = np.zeros_like(mean), np.zeros_like(mean)
    for away in plates_mm:
        n = round(away / _STEP_MM)
        low, high = np.roll(mean, n), np.roll(mean, -n)
        low[:n], high[-n:] = mean[0], mean[-1]
        plates = np.maximum(plates, np.minimum(low, high))
        bright = np.maximum(bright, (low + high) / 2)
    around = _smoothed(mean[:, None], _AROUND_MM / _STEP_MM)[:, 0]
    return (plates - mean + _BRIGHT_WORTH * (bright - around))[4:-4]


def rib_signs(volume: Volume, course: Course) -> tuple[np.ndarray, np.ndarray]:
    """Return heights (n,), RAS S mm; and (n,), from -2 to 2, whether ribs lie beside the spine; 0 if no rib is seen.

    The ribs are seen as dense bone 38 to 54 mm beside the middle of the spine. There, a rib lies half a vertebra lower
    than its vertebra; the heights are those of the vertebra.
    """
    at = np.arange(course.heights[0], course.heights[-1], _RIB_STEP_MM)
    beside = np.concatenate([side * np.arange(*_BESIDE_MM, _RIB_STEP_MM) for side in (-1, 1)])
    points = np.empty((len(at), len(_BEHIND), len(beside), 3))
    points[..., 0] = np.interp(at, course.heights, course.path[:, 0])[:, None, None] + beside
    points[..., 1] = np.interp(at, course.heights, course.path[:, 1])[:, None, None] + _BEHIND[:, None]
    points[..., 2] = at[:, None, None]
    bone = volume.sample(points.reshape(-1, 3), outside=-1000.0).reshape(points.shape[:3]) > _BONE_HU
    area = bone.sum(axis=(1, 2)) * _RIB_STEP_MM**2 / 2  # of each side
    mean = _smoothed(area[:, None], _RIB_BLUR_MM / _RIB_STEP_MM)[:, 0]
    sign = np.clip((mean - _RIB_MM2[0]) / _RIB_MM2[1], -_SIGN_LIMIT, _SIGN_LIMIT)
    return at + _RIB_BELOW_MM, sign * (sign > _RIB_SEEN).any()


def fit_levels(
    course: Course,
    disc: tuple[np.ndarray, np.ndarray],
    ends: Mapping[str, float],
    ribs: tuple[np.ndarray, np.ndarray] | None = None,
    usual: np.ndarray = USUAL_MM,
) -> Spine | None:
    """Fit the boundaries of all vertebrae. Return None if no vertebra is shown.

    Args:
        disc: result of `discness`.
        ribs: result of `rib_signs`.
        usual: as in `fit_spine`.
        ends: {name of an end that the scan shows, such as "sacrum": RAS S mm}.
    """
    heights, path, body_z = course
    slope = float(np.clip(np.polyfit(heights, body_z, 1)[0], 0.75, 1.35))  # mm of body height for each mm in the scan
    bounds = (usual[:-1, 1] + usual[1:, 1]) / 2  # body heights, head first
    top = heights[-1] + max(bounds[0] - body_z[-1], 0) / slope + 90
    bottom = heights[0] - max(body_z[0] - bounds[-1], 0) / slope - 90
    at = np.arange(top, bottom, -_STEP_MM)
    z = np.interp(at, heights, body_z)
    z = np.where(at > heights[-1], body_z[-1] + (at - heights[-1]) * slope, z)
    z = np.where(at < heights[0], body_z[0] + (at - heights[0]) * slope, z)
    errors = np.array(list(_COORDINATE_MM.values())[:-1])
    held = (at >= heights[0] - _STEP_MM) & (at <= heights[-1] + _STEP_MM)  # coordinates count only inside the scan
    unary = np.square((z[None] - bounds[:, None]) / errors[:, None]) * (held / 2 * _COORDINATE_WORTH)
    unary = unary - _DISC_WORTH * np.interp(at, *disc, left=0.0, right=0.0)
    for end, height in ends.items():
        name, above, error = _ENDS[end]
        off = np.square((at - height - above) / error)
        unary[VERTEBRAE.index(name)] += _END_WORTH / 2 * np.minimum(off, _END_LIMIT)
    if ribs is not None:
        sign = np.cumsum(np.interp(at, *ribs, left=0.0, right=0.0)) * _RIB_WORTH
        unary += (_HAS_RIBS[1:] - _HAS_RIBS[:-1])[:, None] * sign
    sizes = np.array(list(_HEIGHT_MM.values())[1:-1])
    fits = []
    for scale in _SCALES:
        down = _costs_above(unary, scale * sizes)
        fits.append((float(down[-1].min()) + ((scale - 1) / _SCALE_SPREAD) ** 2 / 2, down, scale * sizes))
    _, down, sizes = min(fits, key=lambda fit: fit[0])
    up = _costs_above(unary[::-1, ::-1], sizes[::-1])[::-1, ::-1]
    marginal = down + up - unary
    chosen = _traced(down, sizes)
    edges = at[chosen]
    low, high = heights[0], heights[-1]
    last_rib = edges[VERTEBRAE.index("T12")]
    shows_last_rib = ribs is not None and ribs[1].any() and low + _BESIDE_END_MM < last_rib < high - _BESIDE_END_MM
    anchors = (*ends, *(("ribs",) if shows_last_rib else ()))
    for end, height in ends.items():
        name, above, error = _ENDS[end]
        if np.square((edges[VERTEBRAE.index(name)] - height - above) / error) > _END_LIMIT:
            anchors = ()  # the patient may have a vertebra more or fewer than usual
    shown = np.flatnonzero(np.minimum(edges[:-1], high) - np.maximum(edges[1:], low) >= _LEAST_SHOWN_MM)
    if not len(shown):
        return None
    upper, lower = edges[shown], edges[shown + 1]
    middle = (upper + lower) / 2
    within, whole = np.clip(middle, low, high), (middle >= low) & (middle <= high)
    shift = usual[shown + 1, 1] - np.interp(within, heights, body_z)
    if whole.any():  # a cut vertebra, with its middle outside the scan, gets the shift of the nearest whole vertebra
        shift = np.interp(np.arange(len(shift)), np.flatnonzero(whole), shift[whole])
    chances = np.array([_chances(marginal, chosen, n + 1) for n in shown])
    return Spine(
        tuple(VERTEBRAE[n + 1] for n in shown),
        np.column_stack([*(np.interp(within, heights, side) for side in path.T), within]),
        np.stack([lower, upper], axis=1),
        whole,
        chances,
        shift,
        np.column_stack([path, heights]),
        _course_shift(course, edges, usual, middle, chances),
        anchors,
    )


def _course_shift(
    course: Course, edges: np.ndarray, usual: np.ndarray, middle: np.ndarray, chances: np.ndarray
) -> np.ndarray:
    """Return the correction (m, 2), mm along A and S, at each slice: the mean over the likely levels, times certainty.

    edges: S of all boundaries, RAS mm, head first. middle: (n,) RAS S mm of the vertebrae with the chances (n, 3).
    """
    bounds = (usual[:-1, 1] + usual[1:, 1]) / 2
    wanted = np.zeros_like(course.body_z)
    for step, chance in zip((-1, 0, 1), chances.T, strict=True):
        named = np.clip(np.arange(len(bounds)) + step, 0, len(bounds) - 1)
        height = np.interp(course.heights, edges[::-1], bounds[named][::-1])
        wanted += height * np.interp(course.heights, middle[::-1], chance[::-1])
    ahead = _ahead(wanted, usual) - _ahead(course.body_z, usual)
    certain = np.clip((chances[:, 1] - _NOT_CORRECTED) / (_CORRECTED - _NOT_CORRECTED), 0, 1)
    certain = np.interp(course.heights, middle[::-1], certain[::-1])
    shift = np.stack([ahead, wanted - course.body_z], axis=1) * certain[:, None]
    return _smoothed(shift, 2.0)


def _costs_above(unary: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return (boundaries, places): the least cost of each boundary and all boundaries before it, if it lies there."""
    costs = unary.copy()
    for n in range(1, len(unary)):
        costs[n] += _least_before(costs[n - 1], sizes[n - 1])
    return costs


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
    """Return the place of each boundary at the least total cost, head first. down: result of `_costs_above`."""
    chosen = [int(down[-1].argmin())]
    for n in range(len(down) - 2, -1, -1):
        places, price = _steps(usual[n])
        before = chosen[-1] - places
        cost = np.where(before >= 0, down[n][np.maximum(before, 0)] + price, np.inf)
        chosen.append(max(int(before[int(cost.argmin())]), 0))
    return chosen[::-1]


def _chances(marginal: np.ndarray, chosen: list[int], n: int) -> np.ndarray:
    """Return the chances (3,) that vertebra `n` is really one level higher in the body, level `n`, one level lower."""
    costs = []
    for step in (1, 0, -1):
        places = [(bound, chosen[int(np.clip(bound + step, 0, len(chosen) - 1))]) for bound in (n - 1, n)]
        costs.append(sum(float(marginal[bound][max(at - 2, 0) : at + 3].min()) / 2 for bound, at in places))
    weight = np.exp(-np.clip((np.array(costs) - min(costs)) / _CORRELATED, 0, 50))
    return weight / weight.sum()
