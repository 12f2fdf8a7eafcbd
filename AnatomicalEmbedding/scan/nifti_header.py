"""Checks of NIfTI files that SimpleITK does not make: truncated files and contradictory geometry.

Without any message, SimpleITK fills the missing end of a truncated file with random memory, turns NaN into 0, replaces
a zero spacing by 1, and uses the qform instead of a sheared sform. This module therefore checks the header, the
length and the floating-point voxels of a file before SimpleITK reads the file.
Layout: nifti1.h, https://nifti.nimh.nih.gov/nifti-1.
"""

import gzip
import math
import struct
import zlib
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from ..errors import VolumeError
from .checks import (
    MAX_SHEAR,
    SMALLEST_SPACING_MM,
    check_claimed,
    check_spacing,
    size_text,
    worst_shear,
)
from .geometry import spacing_of

_CHUNK = 1 << 20  # bytes read at a time; only limits memory
# If the file has a qform too, a slight shear of the sform is allowed: SimpleITK uses the qform. 0.5 mm over 500 mm.
_MAX_SHEAR_WITH_QFORM = 1e-3
_HEADER_BYTES = 348
_NIFTI2_HEADER_BYTES = 540
# Fields of the NIfTI-1 header: offset in bytes, struct format.
_LAYOUT = {
    "dim": (40, "8h"),
    "datatype": (70, "h"),
    "bitpix": (72, "h"),
    "pixdim": (76, "8f"),
    "vox_offset": (108, "f"),
    "codes": (252, "2h"),
    "srow": (280, "12f"),
    "magic": (344, "3s"),
}
_FLOAT_CODES = {16: "f4", 64: "f8"}


NiftiGeometry = tuple[np.ndarray | None, bool]
"""The sform, (4,4) ijk_to_ras, or None when it is not set; and whether there is a qform or sform at all."""


def check_nifti(path: Path) -> NiftiGeometry:
    """Check a .nii or .nii.gz file from start to end, and return the geometry in its header. Voxels are not kept.

    Raises VolumeError when the file is not NIfTI-1, is truncated or damaged, holds NaN or infinite voxels, or has an
    unusable spacing or sform.
    """
    try:
        with path.open("rb") as raw:
            compressed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream: BufferedIOBase = gzip.GzipFile(fileobj=raw) if compressed else raw
            fields = _read_fields(stream, path)
            geometry = _geometry(fields, path)
            _check_data(stream, fields, path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise VolumeError(
            f"{path}: is truncated or damaged (compressed data end too early); copy it again."
        ) from error
    return geometry


def _read_fields(stream: BufferedIOBase, path: Path) -> dict[str, tuple]:
    """Return name -> values of each field in _LAYOUT of a NIfTI header, and "order" -> the byte order, "<" or ">"."""
    header = stream.read(_HEADER_BYTES).ljust(_HEADER_BYTES, b"\0")
    # the length of the header, its first number, is right in one byte order only
    order = "<" if header[0] else ">"
    (length,) = struct.unpack_from(order + "i", header)
    if length == _NIFTI2_HEADER_BYTES:
        raise VolumeError(
            f"{path}: is a NIfTI-2 file, which cannot be read; convert it to NIfTI-1 or NRRD."
        )
    fields = {
        name: struct.unpack_from(order + code, header, start)
        for name, (start, code) in _LAYOUT.items()
    }
    axes, *sizes = fields["dim"]
    offset = fields["vox_offset"][0]
    # "n+1" means that header and voxels are in one file; other values are refused.
    is_nifti = length == _HEADER_BYTES and fields["magic"][0] == b"n+1"
    if is_nifti and 1 <= axes <= 7 and min(sizes[:axes]) > 0 and 0 <= offset < 1e9:
        return fields | {"order": (order,)}
    raise VolumeError(
        f"{path}: is not a NIfTI file, or its header is damaged; copy or export it again."
    )


def _check_data(stream: BufferedIOBase, fields: dict[str, tuple], path: Path) -> None:
    """Raise VolumeError if voxels are missing, NaN or infinite. Reading all voxels also verifies gzip's checksum."""
    shape = fields["dim"][1 : fields["dim"][0] + 1]
    bits = fields["bitpix"][0]
    start = int(fields["vox_offset"][0])
    needed = start + math.prod(shape) * bits // 8
    check_claimed(shape, max(bits // 8, 1), path.stat().st_size, str(path))
    code = _FLOAT_CODES.get(fields["datatype"][0])
    stream.seek(start)
    length = start  # bytes of the file up to the last one that was read
    bad = 0
    # gzip verifies its checksum when the end is read, so one read goes beyond the voxels; gigabytes may follow
    while length <= needed:
        chunk = stream.read(_CHUNK)
        if not chunk:
            break
        if code:
            dtype = np.dtype(fields["order"][0] + code)
            voxel_bytes = min(
                len(chunk), needed - length
            )  # what follows the voxels may be of any kind
            count = voxel_bytes // dtype.itemsize
            bad += int(np.count_nonzero(~np.isfinite(np.frombuffer(chunk, dtype, count))))
        length += len(chunk)
    if length < needed:
        raise VolumeError(
            f"{path}: is truncated ({length} of {needed} bytes); copy or download it again."
        )
    if bad:
        raise VolumeError(
            f"{path}: {bad} voxels are NaN or infinite; replace them with -1024 HU and try again."
        )


def _geometry(fields: dict[str, tuple], path: Path) -> NiftiGeometry:
    """Return the sform (4, 4), voxel (i, j, k) to RAS mm, or None, and whether there is a sform or qform."""
    spacing = np.array(fields["pixdim"][1:4])
    if fields["dim"][0] >= 3:
        check_spacing(spacing, str(path), SMALLEST_SPACING_MM)
    qform_code, sform_code = fields["codes"]
    if sform_code <= 0:
        return None, qform_code > 0
    sform = np.vstack((np.reshape(fields["srow"], (3, 4)), (0, 0, 0, 1)))
    columns = spacing_of(sform)
    if not np.isfinite(sform).all() or columns.min() == 0:
        raise VolumeError(
            f"{path}: the sform in the header has a zero axis, NaN or infinity; export the scan again."
        )
    largest_shear = _MAX_SHEAR_WITH_QFORM if qform_code > 0 else MAX_SHEAR
    if worst_shear(sform)[0] > largest_shear:
        raise VolumeError(
            f"{path}: the sform in the header is sheared; resample the scan to perpendicular axes first."
        )
    if not np.allclose(columns, spacing, rtol=1e-2):
        stated, computed = (size_text(sizes, ".4g") for sizes in (spacing, columns))
        raise VolumeError(
            f"{path}: the header gives two different spacings ({stated} mm in pixdim, {computed} mm in the sform);"
            " export the scan again."
        )
    return sform, True
