"""Number the vertebrae: all boundaries between vertebrae are fitted to the spine of a scan at once.

A body coordinate gives the height in the body with an error of about one vertebra. Discs show exactly where boundaries
are, but not between which vertebrae. Dynamic programming fits all boundaries in their order, also those outside the
scan, to coordinates, discs, ribs and the ends of the spine. A boundary fits well if it lies near its usual
coordinate, if its distance to the next boundary is the usual height of a vertebra, and if it lies on a disc.
"""

from collections.abc import Mapping

import numpy as np
import torch

from ..anatomy.names import VERTEBRAE
from ..scan.volume import Volume
from .average import ERROR_MM, SIZE_MM, ahead_at
from .boundaries import STEP_MM, place_boundaries
from .course import Course, centred, find_course, smoothed_rows
from .ends import ENDS
from .signs import Signs, disc_signs, rib_signs
from .vertebrae import Spine

# weight of coordinates; below 1, as neighbouring boundaries have similar errors
_COORDINATE_WORTH = 0.6
_DISC_WORTH = 2.0  # weight of a disc's sign; by hand, 1.5 was tried, too
# weight of an end; largest squared error of an end, in standard errors
_END_WORTH, _END_LIMIT = 3.0, 9.0
_RIB_WORTH = 0.1  # weight of ribs; a tenth was best (LOG, Spine and levels)
# 1 with ribs beside, -1 without, 0 unknown; necks count like chests: ribs do not show T1 (LOG, Spine and levels)
_HAS_RIBS = np.array([{"C": 1.0, "T": 1.0, "L": -1.0, "S": 0.0}[name[0]] for name in VERTEBRAE])
_HAS_RIBS[VERTEBRAE.index("L5")] = 0.0  # the hip bones begin there
# the scan shows the lowest ribs if it reaches this far above and below their vertebra
_BESIDE_END_MM = 20.0
_BEYOND_MM = 90.0  # boundaries may lie this far beyond their usual heights
_SLOPES = 0.75, 1.35  # limits of mm of body height for each mm in the scan
_LEAST_SHOWN_MM = 5.0  # if the scan shows less of a vertebra, the vertebra is not listed
# Coordinates are corrected fully from the higher chance of the level on, and not at all below the lower chance.
_NOT_CORRECTED, _CORRECTED = 0.5, 0.8
_SHIFT_BLUR = 2.0  # blur of the correction along the spine, in slices


def fit_spine(
    coordinates: torch.Tensor,
    cell_to_ras: np.ndarray,
    volume: Volume,
    ends: Mapping[str, float],
    usual: np.ndarray,
) -> Spine | None:
    """Find the vertebrae of a scan. Return None if the scan shows too little of the spine.

    Args:
        coordinates, cell_to_ras: as in `course.find_course`; the coordinates are not corrected yet.
        volume: the scan.
        ends: the ends of the spine that the scan shows, `ends.find_ends`.
        usual: (25, 2) usual A and S of the middle of each vertebra (body and arch), head first, mm in the frame of the
            coordinates.
    """
    bottom, top = volume.bounds_ras[:, 2]
    course = find_course(coordinates, cell_to_ras, (bottom, top), usual)
    if course is None:
        return None
    course = centred(volume, course)
    return fit_levels(course, disc_signs(volume, course), ends, rib_signs(volume, course), usual)


def fit_levels(
    course: Course,
    discs: Signs,
    ends: Mapping[str, float],
    ribs: Signs,
    usual: np.ndarray,
) -> Spine | None:
    """Fit the boundaries of all vertebrae. Return None if no vertebra is shown.

    Args:
        course: the slices that show the spine.
        discs: result of `disc_signs`.
        ends: {name of an end that the scan shows, such as "sacrum": RAS S mm}.
        ribs: result of `rib_signs`.
        usual: as in `fit_spine`.
    """
    places = _places(course, usual)
    boundaries = place_boundaries(_costs(course, places, discs, ends, ribs, usual), SIZE_MM[1:-1])
    edges = places[boundaries.place]  # S of all boundaries, head first
    low = course.heights[0]
    high = course.heights[-1]
    shown_mm = np.minimum(edges[:-1], high) - np.maximum(edges[1:], low)
    # row n lies between the boundaries n and n + 1: the first of VERTEBRAE has no upper boundary
    rows = np.flatnonzero(shown_mm >= _LEAST_SHOWN_MM)
    if not len(rows):
        return None
    upper = edges[rows]
    lower = edges[rows + 1]
    middle = (upper + lower) / 2
    whole = (middle >= low) & (middle <= high)
    centres = course.points_at(np.clip(middle, low, high))
    chances = np.array([boundaries.level_chances(row) for row in rows])
    return Spine(
        names=tuple(VERTEBRAE[row + 1] for row in rows),
        centres_ras=centres,
        bounds_s=np.stack([lower, upper], axis=1),
        whole=whole,
        chances=chances,
        shift_mm=_shifts(course, centres[:, 2], whole, usual[rows + 1, 1]),
        course=np.column_stack([course.path, course.heights]),
        course_shift_mm=_course_shift(course, edges, usual, middle, chances),
        anchors=_anchors(edges, ends, ribs, low, high),
    )


def _places(course: Course, usual: np.ndarray) -> np.ndarray:
    """Return the places (p,), RAS S mm, head first, at which boundaries may lie, also beyond the scan."""
    slope = _slope(course)
    bounds = _bounds(usual)
    top = course.heights[-1] + max(bounds[0] - course.body_z[-1], 0) / slope + _BEYOND_MM
    bottom = course.heights[0] - max(course.body_z[0] - bounds[-1], 0) / slope - _BEYOND_MM
    return np.arange(top, bottom, -STEP_MM)


def _bounds(usual: np.ndarray) -> np.ndarray:
    """Return the usual body heights of the boundaries, mm, head first."""
    return (usual[:-1, 1] + usual[1:, 1]) / 2


def _slope(course: Course) -> float:
    """Return the mm of body height for each mm in the scan."""
    return float(np.clip(np.polyfit(course.heights, course.body_z, 1)[0], *_SLOPES))


def _costs(
    course: Course,
    places: np.ndarray,
    discs: Signs,
    ends: Mapping[str, float],
    ribs: Signs,
    usual: np.ndarray,
) -> np.ndarray:
    """Return the cost (boundaries, p) of each boundary at each place."""
    first = course.heights[0]
    last = course.heights[-1]
    beyond = np.minimum(places - first, 0) + np.maximum(places - last, 0)
    body_heights = np.interp(places, course.heights, course.body_z) + beyond * _slope(course)
    # coordinates count only inside the scan
    inside = (places >= first - STEP_MM) & (places <= last + STEP_MM)
    errors = (body_heights - _bounds(usual)[:, None]) / ERROR_MM[:-1, None]
    costs = np.square(errors) / 2 * inside * _COORDINATE_WORTH
    costs -= _DISC_WORTH * discs.at(places)
    for name, height in ends.items():
        square = np.square(_end_errors(name, height, places))
        costs[_boundary_at(name)] += _END_WORTH / 2 * np.minimum(square, _END_LIMIT)
    # A vertebra saves its value of _HAS_RIBS times the sum of the signs between its boundaries. Over all vertebrae, a
    # boundary at a place costs the sum of all signs above this place, times the change of _HAS_RIBS.
    costs += np.diff(_HAS_RIBS)[:, None] * (np.cumsum(ribs.at(places)) * _RIB_WORTH)
    return costs


def _boundary_at(end: str) -> int:
    """Return the index of the boundary that is fitted to an end of the spine."""
    return VERTEBRAE.index(ENDS[end].above)


def _end_errors(end: str, height: float, places: np.ndarray) -> np.ndarray:
    """Return how far places (p,), RAS S mm, lie above the usual place of the boundary at an end, in standard errors.

    height: RAS S mm of the end.
    """
    return (places - height - ENDS[end].boundary_mm) / ENDS[end].error_mm


def _anchors(
    edges: np.ndarray, ends: Mapping[str, float], ribs: Signs, low: float, high: float
) -> tuple[str, ...]:
    """Return the landmarks from which the levels are counted; none if they contradict each other.

    edges: S of all boundaries, RAS mm, head first. low, high: lowest and highest slice of the course, RAS S mm.
    """
    for name, height in ends.items():
        if np.square(_end_errors(name, height, edges[_boundary_at(name)])) > _END_LIMIT:
            return ()  # the patient may have a vertebra more or fewer than usual
    lowest_rib = edges[VERTEBRAE.index("T12")]
    is_inside = low + _BESIDE_END_MM < lowest_rib < high - _BESIDE_END_MM
    shows_ribs = ribs.values.any() and is_inside
    return (*ends, "ribs") if shows_ribs else tuple(ends)


def _shifts(
    course: Course, heights: np.ndarray, whole: np.ndarray, usual: np.ndarray
) -> np.ndarray:
    """Return the correction (n,), mm, of the body height of each vertebra.

    heights: (n,) RAS S mm of the vertebrae. whole: (n,) bool, False if the middle lies outside the scan. usual: (n,)
    usual body heights, mm.
    """
    shift = usual - np.interp(heights, course.heights, course.body_z)
    if not whole.any():
        return shift
    # a cut vertebra, with its middle outside the scan, gets the shift of the nearest whole vertebra
    return np.interp(np.arange(len(shift)), np.flatnonzero(whole), shift[whole])


def _course_shift(
    course: Course, edges: np.ndarray, usual: np.ndarray, middle: np.ndarray, chances: np.ndarray
) -> np.ndarray:
    """Return the correction (m, 2), mm along A and S, at each slice: the mean over the likely levels, times certainty.

    edges: S of all boundaries, RAS mm, head first. middle: (n,) RAS S mm of the vertebrae with the chances (n, 3).
    """
    bounds = _bounds(usual)
    heights = np.zeros_like(course.body_z)  # mean body height over the likely levels
    # `np.interp` needs rising heights, so all that is head first is reversed
    for step, chance in zip((-1, 0, 1), chances.T, strict=True):
        named = np.clip(np.arange(len(bounds)) + step, 0, len(bounds) - 1)
        height = np.interp(course.heights, edges[::-1], bounds[named][::-1])
        heights += height * np.interp(course.heights, middle[::-1], chance[::-1])
    ahead = ahead_at(heights, usual) - ahead_at(course.body_z, usual)
    certainty = np.clip((chances[:, 1] - _NOT_CORRECTED) / (_CORRECTED - _NOT_CORRECTED), 0, 1)
    weight = np.interp(course.heights, middle[::-1], certainty[::-1])
    shift = np.stack([ahead, heights - course.body_z], axis=1) * weight[:, None]
    return smoothed_rows(shift, _SHIFT_BLUR)
