"""Image files written whole or not at all: SimpleITK says nothing where the disk is full before a NIfTI file ends."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import SimpleITK as sitk

from ..errors import VolumeError
from ..files import atomic_path
from .image_files import WRITABLE_SUFFIXES, image_suffix

_CHUNK = 1 << 20
_NIFTI_HEADER = 352
_HEADER_ENDS = {".nrrd": b"\n\n", ".mha": b"ElementDataFile = LOCAL\n"}  # what follows is compressed


def write_image(image: sitk.Image, path: str | Path) -> None:
    """Write .nii, .nii.gz, .nrrd or .mha, compressed where the format can; a file of that name stays until this one is
    known to be whole. Raises VolumeError for another suffix, or when the file cannot be written.
    """
    path = Path(path)
    if not path.name.endswith(WRITABLE_SUFFIXES):  # SimpleITK knows them in lower case only
        raise VolumeError(f"{path}: cannot write this kind of file; use one of {', '.join(WRITABLE_SUFFIXES)}.")
    needed = image.GetNumberOfPixels() * image.GetNumberOfComponentsPerPixel() * image.GetSizeOfPixelComponent()
    try:
        with atomic_path(path) as temporary:
            sitk.WriteImage(image, str(temporary), useCompression=True)
            if _voxel_bytes(temporary) < needed:
                raise VolumeError(f"{path}: could not be written whole; is the disk full?")
    except (RuntimeError, OSError) as error:
        raise VolumeError(f"{path}: cannot be written; check that the folder is writable and not full.") from error


def _voxel_bytes(path: Path) -> int:
    """How many bytes of voxels a file holds on the disk (a .nii.gz: and of a header); 0 where its end is missing."""
    suffix = image_suffix(path)
    with path.open("r+b") as file:
        os.fsync(file.fileno())
        if suffix == ".nii":
            return path.stat().st_size - _NIFTI_HEADER
        if suffix in _HEADER_ENDS:
            start = file.read(_CHUNK).find(_HEADER_ENDS[suffix])
            if start < 0:
                return 0
            file.seek(start + len(_HEADER_ENDS[suffix]))
        stream, count = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32), 0  # zlib or gzip, whose checksums are compared
        try:
            while not stream.eof and (packed := file.read(_CHUNK)):
                count += len(stream.decompress(packed))
        except zlib.error:
            return 0
    return count if stream.eof else 0
