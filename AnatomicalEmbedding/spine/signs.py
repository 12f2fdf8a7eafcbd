"""Signs of discs and ribs along the spine, from the CT numbers of a scan.

A disc is darker than the end plates above and below the disc. Ribs are dense bone beside the spine.
"""

from typing import NamedTuple

import numpy as np

from ..scan.volume import Volume
from .course import Course, smoothed, smoothed_rows

_STEP_MM = 1.5  # step along the spine at which discs are sought
_BEYOND_MM = 2.0  # discs are sought this far beyond both ends of the course
# places at each end without a sign of a disc, because an end plate would lie beyond the end
_EDGE = 4
# the CT numbers of a disc are read at these distances from its middle
_RADIUS_MM = np.array([0, 3, 6, 9])
_DIRECTIONS = 8  # around the middle, in which they are read; by hand
_TILTS = (-20, -10, 0, 10, 20)  # degrees
_TANGENT_BLUR = 8.0  # blur of the direction of the spine, in steps
_DISC_HU = (-50.0, 600.0)  # CT numbers are limited to this range
# From the middle of a disc to its end plates: above and below this body height.
_LUMBAR_MM, _THIN_MM, _THICK_MM = 300.0, (3.0, 4.5), (4.5, 6.0)
_BLUR_MM = 1.5  # blur of the CT numbers along the spine; by hand, one step
_BRIGHT_WORTH = 0.7  # weight of bright end plates, relative to a dark disc
_AROUND_MM = 12.0  # standard deviation of the Gaussian weights of the mean HU around a disc
# signs are divided by this percentile of their sizes, at least by this HU
_SCALE_PERCENT, _LEAST_SCALE_HU = 75, 8.0
_LIMIT = 2.0  # largest sign of a disc and of a rib
# Ribs are bone of at least _BONE_HU beside the course, behind its middle. Areas in mm^2: equally likely with and
# without a rib; change that makes a rib e times likelier.
_RIB_STEP_MM, _RIB_BLUR_MM, _RIB_BELOW_MM = 3.0, 10.0, 14.0
# mm sideways (begin and end), mm to the front, HU
_BESIDE_MM, _BEHIND, _BONE_HU = (38.0, 55.0), np.arange(-55.0, -13.0, 3.0), 230.0
_RIB_MM2, _RIB_CHANGE_MM2 = 26.0, 10.0
_LEAST_RIB_SIGN = 1.0  # a scan without a larger sign shows no rib


class Signs(NamedTuple):
    """Signs of a structure along the spine.

    Args:
        heights: (n,) RAS S mm, ascending.
        values: (n,) sign of the structure at each height, from -2 to 2; 0 says nothing.
    """

    heights: np.ndarray
    values: np.ndarray

    def at(self, heights: np.ndarray) -> np.ndarray:
        """Return the signs (m,) at heights (m,), RAS S mm; 0 beyond the ends."""
        return np.interp(heights, self.heights, self.values, left=0.0, right=0.0)


def disc_signs(volume: Volume, course: Course) -> Signs:
    """Measure how much darker the spine is at each height than above and below.

    Discs are tilted to the front or back by up to 20 degrees; the tilt with the largest difference counts.
    """
    heights = np.arange(course.heights[0] - _BEYOND_MM, course.heights[-1] + _BEYOND_MM, _STEP_MM)
    centre = course.points_at(heights)
    # three directions (n, 3) at each height: along the spine, to the front, and sideways
    tangent = _unit(smoothed_rows(np.gradient(centre, axis=0), _TANGENT_BLUR))
    ahead = _unit(np.cross(tangent, [1.0, 0.0, 0.0]))
    side = np.cross(ahead, tangent)
    # points on circles in the disc
    angle = np.linspace(0, 2 * np.pi, _DIRECTIONS, endpoint=False)[:, None]
    sideways = (_RADIUS_MM * np.cos(angle)).ravel()
    forward = (_RADIUS_MM * np.sin(angle)).ravel()
    is_lumbar = np.interp(heights, course.heights, course.body_z) < _LUMBAR_MM
    darkness = []
    for tilt in np.radians(_TILTS):
        tilted = np.cos(tilt) * ahead + np.sin(tilt) * tangent
        points = (
            centre[:, None] + sideways[:, None] * side[:, None] + forward[:, None] * tilted[:, None]
        )
        hu = volume.sample(points.reshape(-1, 3), outside=np.nan).reshape(points.shape[:2])
        mean = smoothed(_mean_inside(np.clip(hu, *_DISC_HU)), _BLUR_MM / _STEP_MM)
        darkness.append(np.where(is_lumbar, _darkness(mean, _THICK_MM), _darkness(mean, _THIN_MM)))
    best = np.max(darkness, axis=0)[_EDGE:-_EDGE]
    scale = max(np.percentile(np.abs(best), _SCALE_PERCENT), _LEAST_SCALE_HU)
    return Signs(heights, np.pad(np.clip(best / scale, -_LIMIT, _LIMIT), _EDGE))


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Return vectors (n, 3), scaled to the length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _mean_inside(hu: np.ndarray) -> np.ndarray:
    """Return the means (n,) of the numbers in each row of (n, m); 0 for a row of NaN only."""
    inside = ~np.isnan(hu)
    return np.where(inside, hu, 0.0).sum(axis=1) / np.maximum(inside.sum(axis=1), 1)


def _darkness(mean: np.ndarray, plates_mm: tuple[float, ...]) -> np.ndarray:
    """Return (n,) how much the mean HU (n,) along the spine look like a disc at each place.

    A disc is darker than its end plates, and the end plates are brighter than the bone around.
    """
    # the brighter one of two distances of the end plates counts
    plates = np.zeros_like(mean)  # HU of the darker end plate
    bright = np.zeros_like(mean)  # mean HU of both end plates
    for distance_mm in plates_mm:
        steps = round(distance_mm / _STEP_MM)
        padded = np.pad(mean, steps, mode="edge")
        below = padded[: len(mean)]  # `steps` places below each place
        above = padded[-len(mean) :]
        plates = np.maximum(plates, np.minimum(below, above))
        bright = np.maximum(bright, (below + above) / 2)
    return plates - mean + _BRIGHT_WORTH * (bright - smoothed(mean, _AROUND_MM / _STEP_MM))


def rib_signs(volume: Volume, course: Course) -> Signs:
    """Measure whether ribs lie beside the spine at each height; all signs are 0 if no rib is seen.

    The ribs are seen as dense bone 38 to 54 mm beside the middle of the spine. There, a rib lies half a vertebra lower
    than its vertebra; the heights are those of the vertebra.
    """
    heights = np.arange(course.heights[0], course.heights[-1], _RIB_STEP_MM)
    beside = np.concatenate([side * np.arange(*_BESIDE_MM, _RIB_STEP_MM) for side in (-1, 1)])
    points = np.empty((len(heights), len(_BEHIND), len(beside), 3))
    points[:] = course.points_at(heights)[:, None, None]
    # (heights, along A, along R): places behind and beside the middle of the spine
    points[..., 0] += beside
    points[..., 1] += _BEHIND[:, None]
    bone = volume.sample(points.reshape(-1, 3)).reshape(points.shape[:3]) > _BONE_HU
    area = bone.sum(axis=(1, 2)) * _RIB_STEP_MM**2 / 2  # of each side
    mean = smoothed(area, _RIB_BLUR_MM / _RIB_STEP_MM)
    signs = np.clip((mean - _RIB_MM2) / _RIB_CHANGE_MM2, -_LIMIT, _LIMIT)
    return Signs(heights + _RIB_BELOW_MM, signs * (signs > _LEAST_RIB_SIGN).any())
