"""Checks that voxels and their geometry belong to a CT that can be embedded.

`where`, an argument of each function, is the file or name with which the error message starts.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from ..errors import VolumeError
from .geometry import slice_axis, spacing_of

MIN_SLICES = 16  # of a CT that can be embedded; by hand, not tuned
MIN_EXTENT_MM = 60.0  # along each axis; by hand, not tuned
MIN_SPACING_MM = 0.1  # of a CT that is cropped and of a network's voxels; by hand
SMALLEST_SPACING_MM = 1e-4  # of a scan of any kind, such as a micro-CT
MAX_SPACING_MM = 12.0  # by hand, not tuned
LARGEST_POSITION_MM = 1e6  # a file with a larger coordinate is refused; no scanner reaches 1 km
# A cosine between two voxel axes up to this limit counts as a rounding error of the header: 0.05 mm over 500 mm.
MAX_SHEAR = 1e-4
# Scanners and resampling programs store -2000, -3024 or -32768 outside the field of view. Noise in air is above -1500.
PADDING_BELOW_HU = -1500
PADDING_HU = -1024  # what replaces it: the least value of CTs with 12 bits

_MOST_VOXELS = 1 << 31  # 1024 x 1024 x 2048
_MOST_PACKED = 1032  # largest compression factor of deflate: https://zlib.net/zlib_tech.html
_AXIS_NAMES = "ijk"
# an image of so few different values is a label map; TotalSegmentator has 117 labels
_MAX_LABELS = 150
_AIR_HU = -300  # between lung and fat; brighter voxels count as tissue
_LEAST_CUT, _TIMES_CUT = 0.2, 3.0  # limits of `check_axis_order`, see RESULTS.md
_SAMPLES = 500_000  # voxels that are read for percentiles; by hand, only saves time


def size_text(sizes: Iterable[float], form: str = "") -> str:
    """Return sizes along the axes as a text, such as "512 x 512 x 120". form: format of each number, such as ".4g"."""
    return " x ".join(f"{size:{form}}" for size in sizes)


def parse_numbers(text: str, count: int, separator: str = ",") -> np.ndarray | None:
    """Return the numbers (count,) of a text; None unless it consists of exactly `count` finite numbers."""
    try:
        values = np.array([float(part) for part in text.split(separator)])
    except ValueError:
        return None
    return values if values.size == count and np.isfinite(values).all() else None


def check_claimed(
    shape: Sequence[int], bytes_a_voxel: int, file_bytes: int | None, where: str
) -> None:
    """Raise VolumeError if a header states more voxels than a CT has, or than the file can hold even if compressed.

    Without this check a small file could use all memory.

    Args:
        shape: number of voxels along each axis.
        bytes_a_voxel: bytes of one voxel.
        file_bytes: file size; None if the voxels are in another file.
        where: file or name with which the message starts.
    """
    voxels = math.prod(shape)
    if voxels > _MOST_VOXELS or (
        file_bytes is not None and voxels * bytes_a_voxel > file_bytes * _MOST_PACKED + 4096
    ):
        raise VolumeError(
            f"{where}: the header states {size_text(shape)} voxels, too many for this file; export the scan again."
        )


def as_hu_array(voxels: np.ndarray, where: str) -> np.ndarray:
    """Return voxels as a (k,j,i) array: int16 if they are integers in the range of int16, otherwise float32.

    Raises VolumeError if the array is not 3-D, is empty, or contains values other than finite real numbers.
    """
    voxels = np.asarray(voxels)
    if voxels.ndim != 3:
        raise VolumeError(
            f"{where}: is a {voxels.ndim}-D array of shape {voxels.shape}; give one 3-D CT volume."
        )
    if voxels.size == 0:
        raise VolumeError(f"{where}: has no voxels (shape {voxels.shape}); give one 3-D CT volume.")
    if voxels.dtype.kind not in "iuf":
        raise VolumeError(
            f"{where}: has voxels of type {voxels.dtype}; give integers or floats in Hounsfield units."
        )
    if voxels.dtype.kind == "f":
        bad = voxels.size - int(np.count_nonzero(np.isfinite(voxels)))
        if bad:
            raise VolumeError(
                f"{where}: {bad} voxels are NaN or infinite; replace them with -1024 HU and try again."
            )
        return voxels.astype(np.float32, copy=False)
    if voxels.dtype != np.int16:
        limits = np.iinfo(np.int16)
        fits = voxels.min() >= limits.min and voxels.max() <= limits.max
        return voxels.astype(np.int16 if fits else np.float32)
    return voxels


def without_padding(
    voxels: np.ndarray, notes: tuple[str, ...]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the HU of a CT (k, j, i) with padding set to -1024 HU, and its notes, with one about padding if there is
    any."""
    lowest = voxels.min()
    if lowest >= PADDING_BELOW_HU:  # there is no padding
        return voxels, notes
    note = f"padding of {lowest:g} HU was set to {PADDING_HU} HU"
    padded = voxels < PADDING_BELOW_HU
    return np.where(padded, voxels.dtype.type(PADDING_HU), voxels), (*notes, note)


def as_affine(ijk_to_ras: np.ndarray, where: str) -> np.ndarray:
    """Return ijk_to_ras as a (4,4) float64 matrix.

    Raises VolumeError if the matrix is not finite or its axes are not perpendicular, and the errors of `check_spacing`.
    """
    affine = np.array(ijk_to_ras, np.float64)
    if affine.shape != (4, 4) or not np.allclose(affine[3], (0, 0, 0, 1)):
        raise VolumeError(
            f"{where}: ijk_to_ras has shape {affine.shape}; give a 4x4 affine with last row 0 0 0 1."
        )
    if not np.isfinite(affine).all():
        raise VolumeError(
            f"{where}: the position or orientation in the header is not a number; export the scan again."
        )
    check_spacing(spacing_of(affine), where, SMALLEST_SPACING_MM)
    cosine, first, second = worst_shear(affine)
    if cosine > MAX_SHEAR:
        angle = np.degrees(np.arccos(min(cosine, 1.0)))
        raise VolumeError(
            f"{where}: voxel axes {_AXIS_NAMES[first]} and {_AXIS_NAMES[second]} meet at {angle:.2f} degrees, not 90;"
            " resample the volume to perpendicular axes first."
        )
    return affine


def check_spacing(spacing: np.ndarray, where: str, smallest_mm: float = MIN_SPACING_MM) -> None:
    """Raise VolumeError unless the three voxel sizes are finite and between `smallest_mm` and 12 mm."""
    if not np.all((spacing >= smallest_mm) & (spacing <= MAX_SPACING_MM)):  # also for NaN
        raise VolumeError(
            f"{where}: the voxel spacing is {size_text(spacing, '.4g')} mm,"
            f" outside {smallest_mm:g} to {MAX_SPACING_MM:g} mm; export the scan again with the right spacing."
        )


def worst_shear(affine: np.ndarray) -> tuple[float, int, int]:
    """Find the two voxel axes (0, 1, 2) that are least perpendicular. Returns (|cosine| of their angle, axis, axis)."""
    axes = affine[:3, :3] / spacing_of(affine)
    cosines = np.abs(axes.T @ axes)
    return max((float(cosines[a, b]), a, b) for a, b in combinations(range(3), 2))


def check_extent(shape: tuple[int, int, int], affine: np.ndarray, where: str) -> None:
    """Raise VolumeError when there are fewer than 16 slices or any axis is shorter than 60 mm.

    Slices are counted along the axis closest to superior-inferior.

    Args:
        shape: (nk, nj, ni).
        affine: (4, 4) ijk_to_ras.
        where: file or name with which the message starts.
    """
    counts = np.array(shape[::-1])
    slices = counts[slice_axis(affine)]
    if slices < MIN_SLICES:
        raise VolumeError(
            f"{where}: has {slices} axial slices; give a CT with at least {MIN_SLICES} slices."
        )
    extent = counts * spacing_of(affine)
    if extent.min() < MIN_EXTENT_MM:
        raise VolumeError(
            f"{where}: the scan covers only {size_text(extent, '.0f')} mm;"
            f" give a scan of at least {MIN_EXTENT_MM:.0f} mm along each axis."
        )


def check_axis_order(voxels: np.ndarray, ijk_to_ras: np.ndarray, where: str) -> None:
    """Raise VolumeError if voxels that should be (k,j,i) seem to be in the order (i,j,k), the order of nibabel.

    In a correct scan the body is cut by the upper or lower face, and the four side faces show air. In a scan with
    reversed axes the side faces show tissue, and the upper and lower faces show air.

    Args:
        voxels: (k, j, i) HU.
        ijk_to_ras: (4, 4).
        where: file or name with which the message starts.
    """
    along = slice_axis(ijk_to_ras)

    def tissue_share(axis: int) -> float:
        return max(float(np.mean(voxels.take(face, axis=axis) > _AIR_HU)) for face in (0, -1))

    ends = tissue_share(2 - along)
    sides = tissue_share(along)
    if sides > _LEAST_CUT and sides > _TIMES_CUT * ends:
        raise VolumeError(
            f"{where}: the first and last slices show air, and the body touches the sides, as if the voxels were in "
            "the order i, j, k of nibabel; use array.transpose() to give the voxels in the order k, j, i."
        )


def sample_voxels(voxels: np.ndarray) -> np.ndarray:
    """Return some of the voxels, (n,), at least 500,000 of a large scan, for percentiles. voxels: (k, j, i)."""
    stride = max(1, voxels.size // _SAMPLES)
    # With an odd stride, samples do not always fall on the same columns: row lengths are usually even.
    return voxels.reshape(-1)[:: stride | 1]


def grey_range(voxels: np.ndarray, highest: float = 99.9) -> tuple[float, float]:
    """Return the values that become black and white: percentiles, so that a few bright voxels do not decide.

    Args:
        voxels: (k, j, i).
        highest: percentile of white; that of black is 1.
    """
    return tuple(np.percentile(sample_voxels(voxels), (1.0, highest)))


def check_hounsfield(voxels: np.ndarray, where: str) -> None:
    """Raise VolumeError unless the voxels look like CT in Hounsfield units. The message lists the values found.

    A scan of the body must hold fat (below -30 HU) and soft tissue (-150 to 250 HU), and its values must span 150 HU
    or more. A crop that shows almost only one organ, such as brain or liver, must have a median of 10 to 90 HU and
    some values below -5 HU. Scans without air and scans clipped to a window can meet these conditions.
    """
    sample = sample_voxels(voxels)
    inside = sample[sample > PADDING_BELOW_HU]
    if inside.size == 0 or inside.min() == inside.max():
        raise VolumeError(
            f"{where}: all voxels are {sample[0]:g}, so the image is empty; export the scan again."
        )
    p1, p50, p99 = np.percentile(inside, (1, 50, 99))
    low = float(inside.min())
    high = float(inside.max())
    summary = f"values {low:g} to {high:g}, percentiles 1/50/99 = {p1:.4g}/{p50:.4g}/{p99:.4g}"
    integral = inside.dtype.kind == "i" or bool(np.all(inside == np.rint(inside)))
    if integral and low >= 0 and high <= 255 and np.unique(inside).size <= _MAX_LABELS:
        raise VolumeError(
            f"{where}: looks like a label map, not a CT ({summary}); give the CT of this label map. MR needs weights "
            "of its own kind: anatemb train --kind any."
        )
    # Without the rescale intercept, all tissue but lung, from fat to vessels with contrast, has values of 850 to 1300.
    dense = np.count_nonzero(inside > 500)
    shifted = np.count_nonzero((inside > 850) & (inside < 1300))
    if low >= 0 and p1 < 300 and shifted > max(0.6 * dense, 0.005 * inside.size):
        raise VolumeError(
            f"{where}: looks like a CT without its rescale intercept ({summary}); subtract 1024 from the voxels, or "
            "export the scan again."
        )
    has_fat = np.mean(inside < -30) >= 0.005
    tissue = np.count_nonzero((inside >= -150) & (inside <= 250))
    # In a wide field of view nearly all voxels are air, so tissue is also compared with the voxels above -500 HU.
    has_tissue = tissue >= max(0.01 * inside.size, 0.3 * np.count_nonzero(inside > -500))
    p10, p90 = np.percentile(inside, (10, 90))
    is_organ = low < -5 and p10 > -30 and 10 <= p50 <= 90 and p90 < 150
    is_body = has_fat and has_tissue and p99 - p1 >= 150
    if not (is_body or is_organ):
        raise VolumeError(
            f"{where}: is not a CT in Hounsfield units ({summary}); give a CT, not MR, PET or a picture."
        )
