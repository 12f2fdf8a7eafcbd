"""Compute one voxel grid from the positions of single DICOM slices: order, spacing, tilt, missing slices."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ..errors import VolumeError
from .checks import MIN_SLICES
from .geometry import RAS_FROM_LPS

# In steps of the even grid. Slices up to this far from their grid position count as even: headers are rounded.
_EVEN = 0.1
# A step larger than this many times the median step is a gap.
_GAP = 1.5
# In median steps: the largest gap that is interpolated (two missing slices). A series with a larger gap is refused.
_MAX_STEP = 3.2
_MAX_STEP_MM = 15.0  # largest gap that is interpolated, also if it has fewer steps; by hand
_MAX_MISSING = 0.1  # largest share of missing slices; by hand
# share of slices at the position of another slice; above it, a series has several phases
MAX_DUPLICATES = 0.1
# Slice origins may lie this far from the straight line fitted through all of them.
_MAX_OFF_LINE_MM = 1.0


@dataclass(frozen=True)
class SliceStack:
    """How the slices of a series are stacked into a volume.

    order: indices of the slices to use, sorted along the normal of the slices. positions: position of each used slice
    along the normal, in steps of the output grid, increasing from 0. slices: number of slices of the output grid.
    ijk_to_ras: (4,4) of the output grid; sheared when the gantry was tilted. notes: sentences about slices that are
    left out and about uneven steps.
    """

    order: np.ndarray
    positions: np.ndarray
    slices: int
    ijk_to_ras: np.ndarray
    notes: tuple[str, ...]


def arrange_slices(
    positions_lps: np.ndarray,
    orientations_lps: np.ndarray,
    pixel_spacings: np.ndarray,
    sizes: np.ndarray,
    where: str,
) -> SliceStack:
    """Find the grid on which N slices lie.

    Slices whose size or orientation differs from most slices are left out. Of several slices at the same position, one
    is kept.

    Args:
        positions_lps: (N, 3) mm.
        orientations_lps: (N, 6) row and column direction.
        pixel_spacings: (N, 2) mm between rows and between columns.
        sizes: (N, 2) columns and rows.
        where: the folder, for the message.

    Raises VolumeError when more than 10 % of slices share a position, when slice origins do not lie on a straight line,
    or when steps are too uneven.
    """
    notes = []
    order = _alike(np.hstack((orientations_lps, pixel_spacings, sizes)))
    unlike = len(positions_lps) - len(order)
    if unlike:
        notes.append(f"{unlike} slices of another size or orientation were left out")

    # from here on, `order` lists the slices along the normal, and `distance` is their place along it, mm
    row, column, normal = _axes(orientations_lps[order[0]], where)
    order = order[np.argsort(positions_lps[order] @ normal, kind="stable")]
    distance = positions_lps[order] @ normal
    is_first = np.diff(distance, prepend=-np.inf) > 0.01  # of the slices at its position
    duplicates = int(np.count_nonzero(~is_first))
    if duplicates > MAX_DUPLICATES * len(order):
        raise VolumeError(
            f"{where}: {duplicates} of {len(order)} slices have the same position as another slice, so the series mixes"
            " phases or reconstructions, and neither acquisition, time nor order of its slices tells them apart;"
            " export one phase in one reconstruction."
        )
    if duplicates:
        notes.append(f"{duplicates} slices at the position of another slice were left out")
    order = order[is_first]
    distance = distance[is_first]
    if len(order) < MIN_SLICES:
        raise VolumeError(
            f"{where}: only {len(order)} slices form a stack; give a CT of at least {MIN_SLICES} slices."
        )

    origins = positions_lps[order]
    slices, uneven = _grid_length(origins, distance, normal, where)
    notes += uneven
    step = (distance[-1] - distance[0]) / (slices - 1)
    spacing = pixel_spacings[order[0]]
    origin, along = _line(origins, distance, normal, half_pixel=spacing.min() / 2, where=where)
    lps = np.eye(4)
    lps[:3, :3] = np.column_stack((row * spacing[1], column * spacing[0], along * step))
    lps[:3, 3] = origin
    return SliceStack(order, _in_steps(distance, slices), slices, RAS_FROM_LPS @ lps, tuple(notes))


def _alike(properties: np.ndarray) -> np.ndarray:
    """Return the numbers of the slices that have the most common properties. properties: (N, p), compared rounded."""
    keys = [tuple(row) for row in np.round(properties, 3)]
    common, _ = Counter(keys).most_common(1)[0]
    return np.array([n for n, key in enumerate(keys) if key == common])


def fill_gaps(voxels: np.ndarray, stack: SliceStack) -> np.ndarray:
    """Interpolate slices (k,j,i), which lie at stack.positions, linearly at the evenly spaced slices of the stack."""
    if len(voxels) == stack.slices and _is_even(stack.positions):
        return voxels
    # slice k of the grid lies between the read slices lower[k] and lower[k] + 1, at this fraction of their distance
    grid = np.arange(stack.slices)
    lower = np.clip(np.searchsorted(stack.positions, grid, side="right") - 1, 0, len(voxels) - 2)
    width = stack.positions[lower + 1] - stack.positions[lower]
    fraction = np.clip((grid - stack.positions[lower]) / width, 0, 1)
    # A slice that is only a rounding error away from its grid position is copied, not interpolated.
    fraction[fraction < _EVEN] = 0
    fraction[fraction > 1 - _EVEN] = 1
    fraction = fraction.astype(np.float32)
    filled = np.empty((stack.slices, *voxels.shape[1:]), voxels.dtype)
    for k in grid:
        below, above = voxels[lower[k] : lower[k] + 2]
        plane = below * (1 - fraction[k]) + above * fraction[k]
        filled[k] = np.rint(plane) if voxels.dtype.kind in "iu" else plane
    return filled


def _axes(orientation_lps: np.ndarray, where: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Convert Image Orientation (6 rounded numbers) to perpendicular unit vectors (3,): row, column and normal."""
    row = orientation_lps[:3]
    column = orientation_lps[3:]
    lengths = np.linalg.norm(row), np.linalg.norm(column)
    if min(lengths) < 0.9 or max(lengths) > 1.1 or abs(row @ column) > 0.01:
        raise VolumeError(
            f"{where}: axes in Image Orientation (Patient) are not perpendicular; export the scan again."
        )
    row = row / lengths[0]
    column = column - (column @ row) * row
    column /= np.linalg.norm(column)
    return row, column, np.cross(row, column)


def _line(
    positions: np.ndarray, distance: np.ndarray, normal: np.ndarray, half_pixel: float, where: str
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a line to slice origins. Returns the point (3,) of the line at the first slice, and the shift (3,) of the
    line for each mm of distance between slices.

    Args:
        positions: (n, 3) LPS mm, the origins.
        distance: (n,) mm, their places along `normal`.
        normal: (3,) normal of the slices.
        half_pixel: mm; if the whole line leaves the normal by less than this, it is taken as the normal: no tilt.
        where: the folder, for the message.
    """
    centred = distance - distance.mean()
    along = (positions - positions.mean(axis=0)).T @ centred / (centred @ centred)
    off_line = positions - positions.mean(axis=0) - centred[:, None] * along
    worst = np.linalg.norm(off_line, axis=1).max()
    if worst > _MAX_OFF_LINE_MM:
        raise VolumeError(
            f"{where}: slices lie up to {worst:.1f} mm off a straight line, so the series mixes scans; export one scan."
        )
    # `along` is at most a rounding error away from the normal
    if np.linalg.norm(along - normal) * np.ptp(distance) < half_pixel:
        along = normal
    return positions.mean(axis=0) + centred[0] * along, along


def _grid_length(
    positions: np.ndarray, distance: np.ndarray, normal: np.ndarray, where: str
) -> tuple[int, list[str]]:
    """Return the number of slices of a grid without gaps, and [a sentence on missing or uneven slices], or [].

    Args:
        positions: (n, 3) LPS mm, the origins of the slices.
        distance: (n,) mm, their places along `normal`, increasing.
        normal: (3,) normal of the slices; the message states places along the axis nearest to it.
        where: the folder, for the message.
    """
    steps = np.diff(distance)
    median = float(np.median(steps))
    # Steps are averaged without the gaps. The median would be biased, because positions are rounded in the header.
    mean = steps[steps < _GAP * median].mean()
    slices = round((distance[-1] - distance[0]) / mean) + 1
    missing = slices - len(distance)
    number = int(np.argmax(steps))
    widest = steps[number]
    axis = int(np.argmax(np.abs(normal)))
    # of the widest gap, RAS mm; the diagonal holds the sign of each axis
    ends = (np.diag(RAS_FROM_LPS)[axis] * positions[number : number + 2, axis]).tolist()
    gap = f"{'xyz'[axis]} = {min(ends):.1f} and {max(ends):.1f} mm"
    if widest > _MAX_STEP * median or (widest > _GAP * median and widest > _MAX_STEP_MM):
        raise VolumeError(
            f"{where}: slices are missing between {gap} (the usual step is {median:.2f} mm);"
            " export the whole series again."
        )
    if missing > _MAX_MISSING * slices:
        raise VolumeError(
            f"{where}: slices are {steps.min():.2f} to {steps.max():.2f} mm apart and {missing} of {slices} slices"
            f" are missing (widest gap between {gap}); export all slices again, at equal distances."
        )
    if missing:
        subject = "1 missing slice was" if missing == 1 else f"{missing} missing slices were"
        return slices, [f"{subject} interpolated (widest gap between {gap})"]
    if _is_even(_in_steps(distance, slices)):
        return slices, []
    note = f"slices at uneven steps of {steps.min():.2f} to {steps.max():.2f} mm were interpolated"
    return slices, [note]


def _in_steps(distance: np.ndarray, slices: int) -> np.ndarray:
    """Convert the positions of the slices from mm to steps: 0 at the first slice, `slices` - 1 at the last slice."""
    return (distance - distance[0]) * (slices - 1) / (distance[-1] - distance[0])


def _is_even(positions: np.ndarray) -> bool:
    """Return whether slices at these positions, in steps of the grid, are the slices of the grid."""
    return bool(np.abs(positions - np.arange(len(positions))).max() <= _EVEN)
