"""The cut of an upright slice through a scan, one axis after the other: quicker than pixel by pixel, as VTK does it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_LEANING = 1e-6  # of a voxel in one step along a slice: less is no lean


class _Positions(NamedTuple):
    """Along one axis of the scan: the voxels needed, between which of these, how far from the lower one, and whether
    within the scan.
    """

    needed: slice
    low: np.ndarray
    high: np.ndarray
    part: np.ndarray
    inside: np.ndarray


def cut_upright(
    voxels: np.ndarray, xy_to_ijk: np.ndarray, rows: int, columns: int, outside: float
) -> np.ndarray | None:
    """The slice of a scan, linearly interpolated: (rows, columns) float32, `outside` beyond its outermost voxels.

    voxels: (k, j, i). xy_to_ijk: (4, 4), pixels (column, row, 0, 1) -> continuous voxels (i, j, k, 1). None where the
    slice does not lie along the scan's axes, or holds more voxels than the picture has pixels: reading them all takes
    longer than cutting pixel by pixel.
    """
    steps, start = xy_to_ijk[:3, :2], xy_to_ijk[:3, 3]
    moving = np.abs(steps) > _LEANING
    if not (moving.sum(axis=0) == 1).all() or moving.sum(axis=1).max() > 1:
        return None
    of_column, of_row = moving.argmax(axis=0)  # the axes, 0 to 2 for i, j, k, along which columns and rows go
    still = 3 - of_column - of_row
    depth, down, across = (
        _positions(start[axis] + step * np.arange(count), voxels.shape[2 - axis])
        for axis, step, count in (
            (still, 0.0, 1),
            (of_row, steps[of_row, 1], rows),
            (of_column, steps[of_column, 0], columns),
        )
    )
    if not depth.inside[0]:
        return np.full((rows, columns), outside, np.float32)
    needed = np.transpose(voxels, (2 - still, 2 - of_row, 2 - of_column))[depth.needed, down.needed, across.needed]
    if needed[0].size > rows * columns:
        return None
    near = needed.astype(np.float32)  # in the order of memory, which is read once
    plane = near[0] * (1 - depth.part[0]) + near[-1] * depth.part[0]
    plane = _between(plane[down.low], plane[down.high], down.part[:, None])
    picture = _between(plane.take(across.low, axis=1), plane.take(across.high, axis=1), across.part)
    picture[~down.inside] = outside
    picture[:, ~across.inside] = outside
    return picture


def _positions(at: np.ndarray, count: int) -> _Positions:
    """Of continuous voxels along an axis of so many; a scan ends half a voxel beyond its outermost centres."""
    within = np.clip(at, 0, count - 1)
    low = within.astype(np.intp)
    high = np.minimum(low + 1, count - 1)
    first = low.min()
    part = (within - low).astype(np.float32)
    inside = (at >= -0.5) & (at <= count - 0.5)
    return _Positions(slice(first, high.max() + 1), low - first, high - first, part, inside)


def _between(low: np.ndarray, high: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Linearly; both are overwritten."""
    high -= low
    high *= part
    high += low
    return high
