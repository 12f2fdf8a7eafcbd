"""Read and write image files other than DICOM, through SimpleITK and with checks that SimpleITK does not make."""

import glob
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import SimpleITK as sitk

from ..errors import VolumeError
from ..files import atomic_path
from .checks import SMALLEST_SPACING_MM, check_claimed, check_spacing, size_text
from .geometry import corner_distance_mm, image_affine
from .nifti_header import NiftiGeometry, check_nifti
from .text_headers import check_text_header

_HEADERS = (".nhdr", ".mhd")  # headers whose voxels are in a second file
# The suffix decides the reader. Otherwise ITK tries all readers, and GDCM allocates gigabytes for some damaged files.
_READERS = {
    ".nii.gz": "Nifti",
    ".nii": "Nifti",
    ".nrrd": "Nrrd",
    ".nhdr": "Nrrd",
    ".mha": "Meta",
    ".mhd": "Meta",
}
IMAGE_SUFFIXES = tuple(_READERS)
WRITABLE_SUFFIXES = (".nii.gz", ".nii", ".nrrd", ".mha")
# If qform and sform differ by more than this at a corner of the volume, the reader adds a note.
_FORMS_AGREE_MM = 0.5


def image_suffix(path: Path) -> str:
    """Return the image suffix of a file name, such as ".nii.gz", or "" if files with this name cannot be read."""
    return next((suffix for suffix in IMAGE_SUFFIXES if path.name.lower().endswith(suffix)), "")


def display_name(path: Path) -> str:
    """Return the file or folder name without an image suffix."""
    suffix = image_suffix(path)
    return path.name[: -len(suffix)] if suffix else path.name


def files_beside(folder: Path, scan: str, ending: str) -> list[Path]:
    """Return the files SCAN.ENDING and SCAN.NAME.ENDING of a folder, but none of another scan, such as SCAN.2.

    Args:
        folder: the folder.
        scan: name of the scan's file without its ending.
        ending: such as "mrk.json".
    """
    names = {display_name(path) for path in folder.iterdir() if path.is_dir() or image_suffix(path)}
    longer = tuple(f"{name}." for name in names if name.startswith(f"{scan}."))
    files = sorted(folder.glob(f"{glob.escape(scan)}.*{ending}"))
    return [path for path in files if not path.name.startswith(longer)]


def is_label_map(path: Path) -> bool:
    """Return True if a file is named NAME.seg.SUFFIX, which marks it as the label map of a scan."""
    return display_name(path).endswith(".seg")


def read_image(path: Path) -> tuple[sitk.Image, tuple[str, ...]]:
    """Read one scalar 3-D image. Returns the image, and notes about assumptions on the geometry.

    A fourth dimension of length 1 is removed. Raises VolumeError for an unknown suffix, a damaged or truncated file,
    colour or vector pixels, another number of dimensions, and a spacing outside 0.1 to 12 mm.
    """
    suffix = image_suffix(path)
    if not suffix:
        raise VolumeError(
            f"{path}: is neither DICOM nor one of {', '.join(IMAGE_SUFFIXES)}; convert the file, or correct its suffix."
        )
    geometry = check_nifti(path) if suffix.startswith(".nii") else None
    check_text_header(path)
    try:
        with _unambiguous(path) as unambiguous:
            reader = sitk.ImageFileReader()
            reader.SetImageIO(f"{_READERS[suffix]}ImageIO")
            reader.SetFileName(str(unambiguous))
            reader.ReadImageInformation()
            _select_volume(reader, path)
            if suffix in (".mha", ".mhd"):
                _check_meta_data(reader, path)
            image = reader.Execute()
    except (RuntimeError, ValueError) as error:
        raise VolumeError(
            f"{path}: is damaged, truncated, or not a {suffix} file; copy or export it again."
        ) from error
    return image, _nifti_notes(geometry, image) if geometry else ()


@contextmanager
def _unambiguous(path: Path) -> Iterator[Path]:
    """Yield a path from which SimpleITK reads the voxels of the file `path`.

    If a folder contains scan.nii.gz and scan.nii, ITK 5.4 reads scan.nii instead of scan.nii.gz. In this case
    scan.nii.gz is copied to a temporary folder.
    """
    if image_suffix(path) == ".nii.gz" and path.with_suffix("").exists():
        with tempfile.TemporaryDirectory() as folder:
            yield Path(shutil.copy(path, folder))
    else:
        yield path


def _select_volume(reader: sitk.ImageFileReader, path: Path) -> None:
    """Raise VolumeError unless the image is one 3-D volume with one value per voxel. If the image has a fourth axis of
    length 1, the reader is set to remove this axis."""
    size = reader.GetSize()
    shape = size_text(size)
    if reader.GetNumberOfComponents() != 1:
        raise VolumeError(
            f"{path}: has {reader.GetNumberOfComponents()} values per voxel (a colour picture or vector field);"
            " give a CT with one value per voxel."
        )
    if len(size) < 3 or size[2] == 1:
        raise VolumeError(
            f"{path}: is a single 2-D picture ({shape}); give the 3-D scan that contains this picture."
        )
    if any(n > 1 for n in size[3:]):
        raise VolumeError(
            f"{path}: has {len(size)} dimensions ({shape}); extract one 3-D volume and give this volume."
        )
    file_bytes = None if path.suffix in _HEADERS else path.stat().st_size
    check_claimed(size, _bytes_a_voxel(reader), file_bytes, str(path))
    check_spacing(np.array(reader.GetSpacing()[:3]), str(path), SMALLEST_SPACING_MM)
    if len(size) > 3:
        reader.SetExtractSize([*size[:3], *(0 for _ in size[3:])])


def _bytes_a_voxel(reader: sitk.ImageFileReader) -> int:
    return sitk.Image([1, 1, 1], reader.GetPixelID()).GetSizeOfPixelComponent()


def _check_meta_data(reader: sitk.ImageFileReader, path: Path) -> None:
    """Raise VolumeError if voxels of a MetaImage are missing; SimpleITK would print messages of its own.

    The field ElementDataFile, the last of the header, names the file of the voxels: LOCAL if they follow in this file.
    Voxels in several files (LIST, or a pattern with %) are not checked.
    """
    with path.open("rb") as stream:
        head = stream.read(1 << 16)
    start = head.find(b"ElementDataFile")
    keys = dict(re.findall(rb"(\w+) *= *([^\r\n]*)", head[:start]))
    value = head[start:].partition(b"=")[2].partition(b"\n")[0]
    name = value.strip().decode(errors="replace")
    if name.startswith("LIST") or "%" in name:
        return
    if name == "LOCAL":
        present = path.stat().st_size - head.index(b"\n", start) - 1
    else:
        data_file = path.parent / name
        if not data_file.is_file():
            raise VolumeError(
                f"{path}: the data file {name} is not in the same folder; copy both files into one folder."
            )
        present = data_file.stat().st_size
    if keys.get(b"CompressedData", b"").lower() == b"true":
        needed = int(keys.get(b"CompressedDataSize", 0))
    else:
        needed = math.prod(reader.GetSize()) * _bytes_a_voxel(reader)
    if present < needed:
        raise VolumeError(
            f"{path}: is truncated ({present} of {needed} bytes of voxels); copy the file again."
        )


def _nifti_notes(geometry: NiftiGeometry, image: sitk.Image) -> tuple[str, ...]:
    """Return a remark on the geometry of a NIfTI file, or nothing. SimpleITK uses the qform, if there is one."""
    sform, is_oriented = geometry
    note = ""
    if not is_oriented:
        note = "the header gives no position or orientation (no qform, no sform); right and left are a guess"
    elif sform is not None:
        distance = corner_distance_mm(image_affine(image), sform, image.GetSize()[::-1])
        if distance > _FORMS_AGREE_MM:
            note = f"the qform is used; the sform differs by up to {distance:.1f} mm"
    return (note,) if note else ()


def write_image(image: sitk.Image, path: str | Path) -> None:
    """Write .nii, .nii.gz, .nrrd or .mha, compressed if the format allows it.

    The new file is read back and compared before it replaces an existing file, because SimpleITK does not notice a full
    disk. Raises VolumeError for another suffix, or when the file cannot be written.
    """
    path = Path(path)
    if not path.name.endswith(WRITABLE_SUFFIXES):  # SimpleITK writes lower-case suffixes only
        raise VolumeError(
            f"{path}: files of this kind cannot be written; use one of {', '.join(WRITABLE_SUFFIXES)}."
        )
    try:
        with atomic_path(path) as temporary:
            sitk.WriteImage(image, str(temporary), useCompression=True)
            with temporary.open("r+b") as file:
                os.fsync(file.fileno())
            written = sitk.ReadImage(str(temporary))
            arrays = map(sitk.GetArrayViewFromImage, (image, written))
            # slice by slice, which bounds the memory of the comparison
            for plane, written_plane in zip(*arrays, strict=True):
                if not np.array_equal(plane, written_plane, equal_nan=True):
                    raise OSError("the file is not complete")
    except (RuntimeError, OSError) as error:
        raise VolumeError(
            f"{path}: cannot be written; check that the folder is writable and not full."
        ) from error
