"""Where the spine runs in a scan: through the places whose body coordinates lie at its usual course.

The course is then moved to the front or back, into the middle of the bone of the vertebral bodies.
"""

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from ..scan.volume import Volume
from .average import ahead_at

_FINE_MM = 4.0  # coordinates are interpolated to about this step
_NEAR_MM = 8.0  # standard deviation of the Gaussian weight of cells, by their distance from the spine's usual course
_REACH_MM = 40.0  # cells farther from the usual course are not read
# how far above and below the usual middles of the last vertebrae cells are read
_ABOVE_MM, _BELOW_MM = 20.0, 40.0
_LEAST_BODY = 0.4  # least share of body cells around a place of the spine
_LEAST_WEIGHT = 2.0  # a slice with a smaller sum of weights does not show the spine
_FEWEST_SLICES = 6  # with fewer, no course is fitted; by hand
# blur of the middle along the spine, mm; of its body height, in slices
_PATH_BLUR_MM, _HEIGHT_BLUR = 14.0, 3.0
# The course is moved at most this far to the front or back; loss of HU for each square mm; blur along the spine.
_SOUGHT_MM, _MOVED_HU, _ALONG_MM = 20.0, 0.1, 12.0
_AHEAD_STEP_MM = 2.0  # step to the front at which CT numbers are read
# They are read in columns side by side, at these fractions of the depth of the body from the middle. The darker half
# of the columns counts: a vessel full of contrast medium is as bright as bone, but narrower. Chosen on both phases of
# three patients, whose courses had been up to 25 mm apart, and are up to 3.
_SIDEWAYS, _DARKER = np.linspace(-0.5, 0.5, 7), 4
_BONE_HU = (-50.0, 250.0)  # CT numbers are limited to this range
# body heights; front to back of a vertebral body
_DEPTH_MM = ((130.0, 250.0, 440.0, 540.0), (34.0, 32.0, 26.0, 16.0))
_AHEAD_SHARE = 0.35  # usual distance that the course is moved to the front, as a fraction of the depth of the body


class Course(NamedTuple):
    """The m slices that show the spine, lowest first.

    Args:
        heights: (m,) RAS S mm.
        path: (m, 2) middle of the spine, RAS R and A mm.
        body_z: (m,) body height of the middle, mm.
    """

    heights: np.ndarray
    path: np.ndarray
    body_z: np.ndarray

    def points_at(self, heights: np.ndarray) -> np.ndarray:
        """Return the middle of the spine (n, 3), RAS mm, at heights (n,), RAS S mm."""
        right, ahead = (np.interp(heights, self.heights, values) for values in self.path.T)
        return np.stack([right, ahead, heights], axis=1)


def find_course(
    coordinates: torch.Tensor,
    cell_to_ras: np.ndarray,
    bounds_s: tuple[float, float],
    usual: np.ndarray,
) -> Course | None:
    """Find the slices that show the spine; None for fewer than 6.

    Args:
        coordinates: (1, 4, k, j, i) body coordinates, mm, and 1 in body cells; zeros in other cells.
        cell_to_ras: (4, 4) cell index i, j, k -> RAS mm; cells lie along R, A, S.
        bounds_s: lower and upper end of the scan, RAS S mm.
        usual: as in `fitting.fit_spine`.
    """
    box = _cells_near(coordinates[0].numpy(), usual)
    if box is None:
        return None
    # each cell is divided into parts, along R, A, S
    cell_mm = np.diag(cell_to_ras)[:3]
    parts = np.maximum(np.rint(cell_mm / _FINE_MM), 1).astype(int)
    step = cell_mm / parts
    crop = coordinates[(slice(None), slice(None), *box)]
    size = (np.array(crop.shape[2:]) * parts[::-1]).tolist()
    mixed = F.interpolate(crop, size=size, mode="trilinear", align_corners=False)[0].numpy()
    first_cell = np.array([part.start for part in box[::-1]])
    first = cell_to_ras[:3, 3] + cell_mm * (first_cell - 0.5) + step / 2
    # centres of the parts along R, A, S, RAS mm
    right, ahead, up = (first[axis] + step[axis] * np.arange(size[2 - axis]) for axis in range(3))
    # coordinates are 0 outside the body; divided by the share of body, they are means over the body alone
    share = mixed[3]
    x, y, z = mixed[:3] / np.maximum(share, 1e-4)
    square = np.square(x) + np.square(y - ahead_at(z, usual))
    counts = (share > _LEAST_BODY) & _along_spine(z, usual)
    weight = np.exp(-square / (2 * _NEAR_MM**2)) * counts
    weight *= ((up >= bounds_s[0]) & (up <= bounds_s[1]))[:, None, None]  # inside the scan
    total = weight.sum(axis=(1, 2))
    shown = np.flatnonzero(total > _LEAST_WEIGHT)
    if len(shown) < _FEWEST_SLICES:
        return None
    slices = np.arange(shown[0], shown[-1] + 1)
    # weighted means over each slice
    middle_r, middle_a, body_z = (
        (weight * values).sum(axis=(1, 2))[slices] / np.maximum(total[slices], 1e-6)
        for values in (right, ahead[:, None], z)
    )
    path = smoothed_rows(np.stack([middle_r, middle_a], axis=1), _PATH_BLUR_MM / step[2])
    return Course(up[slices], path, smoothed(body_z, _HEIGHT_BLUR))


def _cells_near(grid: np.ndarray, usual: np.ndarray) -> tuple[slice, slice, slice] | None:
    """Return the box (along k, j, i) of the body cells near the usual course of the spine; None without such cells.

    grid: (4, k, j, i) body coordinates, and 1 in body cells.
    """
    index = np.argwhere(grid[3] > 0)
    x, y, z = (values[tuple(index.T)] for values in grid[:3])
    nearby = (np.hypot(x, y - ahead_at(z, usual)) < _REACH_MM) & _along_spine(z, usual)
    if not nearby.any():
        return None
    low = np.maximum(index[nearby].min(axis=0) - 1, 0)
    high = index[nearby].max(axis=0) + 2
    return slice(low[0], high[0]), slice(low[1], high[1]), slice(low[2], high[2])


def _along_spine(z: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Return bool: whether body heights `z`, mm, lie between the ends of the spine, or shortly beyond them."""
    return (z > usual[-1, 1] - _BELOW_MM) & (z < usual[0, 1] + _ABOVE_MM)


def centred(volume: Volume, course: Course) -> Course:
    """Move a course to the front or to the back, into the middle of the bone of the vertebral bodies.

    The best move has the brightest window as deep as the vertebral body and as wide. The window's mean HU comes from
    the difference of two cumulative sums along A.
    """
    depth = np.interp(course.body_z, *_DEPTH_MM)
    moves = np.arange(-_SOUGHT_MM, _SOUGHT_MM + 1, _AHEAD_STEP_MM)
    margin = depth.max() / 2 + _AHEAD_STEP_MM
    ahead = np.arange(moves[0] - margin, moves[-1] + margin, _AHEAD_STEP_MM)
    points = np.empty((len(depth), len(ahead), len(_SIDEWAYS), 3))  # heights, along A, along R
    points[..., 0] = course.path[:, :1, None] + depth[:, None, None] * _SIDEWAYS
    points[..., 1] = course.path[:, 1, None, None] + ahead[:, None]
    points[..., 2] = course.heights[:, None, None]
    hu = volume.sample(points.reshape(-1, 3)).reshape(points.shape[:3])
    blur = _ALONG_MM / np.diff(course.heights).mean()
    columns = np.sort(np.clip(hu, *_BONE_HU), axis=2)
    bone = smoothed_rows(columns[..., :_DARKER].mean(axis=2), blur)
    total = np.cumsum(bone, axis=1)
    # (m, moves): index along A of both ends of the window
    half = depth[:, None] / 2
    rear = np.rint((moves - half - ahead[0]) / _AHEAD_STEP_MM).astype(int)
    front = np.rint((moves + half - ahead[0]) / _AHEAD_STEP_MM).astype(int)
    window = np.take_along_axis(total, front, axis=1) - np.take_along_axis(total, rear, axis=1)
    mean = window / (front - rear)
    # the average body's course is the middle of the bone with the arches
    usual = _AHEAD_SHARE * depth[:, None]
    best = moves[(mean - _MOVED_HU * np.square(moves - usual)).argmax(axis=1)]
    moved = course.path[:, 1] + smoothed(best, blur)
    return course._replace(path=np.stack([course.path[:, 0], moved], axis=1))


def smoothed(values: np.ndarray, sigma: float) -> np.ndarray:
    """Smooth (m,) by a Gaussian of `sigma` places; the ends are extended."""
    reach = int(3 * sigma) + 1
    kernel = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    return np.convolve(np.pad(values, reach, mode="edge"), kernel / kernel.sum(), mode="valid")


def smoothed_rows(values: np.ndarray, sigma: float) -> np.ndarray:
    """Smooth (m, c) along the first axis as `smoothed` does."""
    return np.stack([smoothed(column, sigma) for column in values.T], axis=1)
