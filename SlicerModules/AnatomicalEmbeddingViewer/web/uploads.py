"""Uploads: files that the page sends. Their total size is limited. Each file is stored under a number, not its name."""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from aiohttp import web

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, VolumeError
from AnatomicalEmbedding.scan.film import PICTURE_SUFFIXES

if TYPE_CHECKING:
    from AnatomicalEmbedding.scan.volume import Volume

    Check = Callable[[Volume], Volume] | None  # see `Volume.read`

# file formats that store a whole scan in one file
_SUFFIXES = (".nii.gz", ".nii", ".nrrd", ".mha", *PICTURE_SUFFIXES)
_BYTES_LIMIT = 2 * 2**30  # limit for the files of one upload, and for the files in one zip
_CHUNK_BYTES = 1 << 20  # read at a time; only limits memory
_HEADER_BYTES = 1 << 16  # in which a reference must be; by hand: headers are shorter
_NAME_LIMIT = 120  # largest number of characters in a name
_NO_ROOM = "could not be stored; free some space on the viewer's disk, then send the files again."


async def receive(request: web.Request, folder: Path) -> tuple[Path, list[str]]:
    """Write the files of a request into a new folder below `folder`, under the names that `numbered_name` returns.

    Returns:
        The new folder, and for each file the name that the page shows, see `readable_name`.

    Raises:
        VolumeError: no files were sent, the files are too large, or the disk is full. No file is left on the disk.
    """
    if request.content_type != "multipart/form-data":
        raise VolumeError("Nothing was sent; choose one or more files.")
    try:
        target = Path(tempfile.mkdtemp(prefix="upload-", dir=folder))
    except OSError as error:
        raise VolumeError(f"The files {_NO_ROOM}") from error
    names = []
    total = 0
    try:
        async for part in await request.multipart():
            if part.filename is None:
                continue
            names.append(readable_name(part.filename))
            with (target / numbered_name(len(names), names[-1])).open("wb") as file:
                while chunk := await part.read_chunk(_CHUNK_BYTES):
                    total += len(chunk)
                    _check_size(total, _BYTES_LIMIT)
                    file.write(chunk)
        if not names:
            raise VolumeError("Nothing was sent; choose one or more files.")
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError) and not isinstance(error, ConnectionError):
            raise VolumeError(f"The files {_NO_ROOM}") from error
        raise
    return target, names


def _check_size(total: int, limit: int) -> None:
    """Raise VolumeError if `total` bytes are more than `limit`."""
    if total > limit:
        size = f"{limit / 2**30:.1f} GB"
        raise VolumeError(
            f"The files are larger than {size} in total; give their paths to `anatemb view`."
        )


def read_files(
    folder: Path, names: list[str], cancelled: Callable[[], bool], check: Check = None
) -> list[Volume]:
    """Return the scans in the files that `receive` has written, and remove the folder.

    Each image file is one scan; all other files are read as DICOM.

    Args:
        folder: folder of the files.
        names: names of the files.
        cancelled: returns True to stop.
        check: as in `Volume.read`.
    """
    try:
        return _read_files(folder, names, cancelled, check)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read_files(
    folder: Path, names: list[str], cancelled: Callable[[], bool], check: Check
) -> list[Volume]:
    """Read the scans among uploaded files and in uploaded .zip files. All files of no known ending are read as DICOM.

    Raises VolumeError if there is no scan.
    """
    from AnatomicalEmbedding.scan.volume import is_film_file

    images = []
    dicom = folder / "dicom"
    dicom.mkdir()
    for number, name in enumerate(names, 1):
        path = folder / numbered_name(number, name)
        unpacked = [path]
        if path.suffix == ".zip":
            inner = folder / f"{number:05d}"
            inner.mkdir()
            unzip(path, inner)
            unpacked = sorted(inner.iterdir())
        for file in unpacked:
            if file.name.endswith(_SUFFIXES) or is_film_file(file):
                images.append((file, name))
            else:
                file.rename(dicom / f"{number:05d}-{file.name}")
    volumes = [_read_image(path, name, check) for path, name in images if not cancelled()]
    if any(dicom.iterdir()) and not cancelled():
        volumes += _read_dicom(dicom, names, check)
    if not volumes and not cancelled():
        raise VolumeError(_no_scan(names))
    return volumes


def readable_name(name: str) -> str:
    """Return the name in the path of an uploaded file. Most characters other than letters and digits become "_"."""
    last = PurePosixPath(name.replace("\\", "/")).name
    return re.sub(r"[^\w.()+ -]", "_", last).strip(" .")[:_NAME_LIMIT] or "file"


def numbered_name(number: int, name: str) -> str:
    """Return the name under which a file is stored: its number, and a suffix that the readers know."""
    for suffix in (*_SUFFIXES, ".zip"):
        if name.lower().endswith(suffix):
            return f"{number:05d}{suffix}"
    return f"{number:05d}.dcm"


def unzip(archive: Path, target: Path, bytes_limit: int = _BYTES_LIMIT) -> None:
    """Unpack a zip into a folder, with numbers as file names.

    Args:
        archive: the zip.
        target: the folder.
        bytes_limit: largest size of the unpacked files together.

    Raises:
        VolumeError: the zip is damaged or too large.
    """
    total = 0
    try:
        with zipfile.ZipFile(archive) as packed:
            # without hidden files
            entries = [
                entry
                for entry in packed.infolist()
                if entry.filename
                and not entry.is_dir()
                and not PurePosixPath(entry.filename).name.startswith(".")
            ]
            for number, entry in enumerate(entries, 1):
                with (
                    packed.open(entry) as source,
                    (target / numbered_name(number, entry.filename)).open("wb") as file,
                ):
                    while chunk := source.read(_CHUNK_BYTES):  # the zip may state wrong sizes
                        total += len(chunk)
                        _check_size(total, bytes_limit)
                        file.write(chunk)
    except (
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,
        RuntimeError,
        EOFError,
        OSError,
    ) as error:
        # the decompressor of bzip2 sets no errno
        if isinstance(error, OSError) and error.errno is not None:
            raise VolumeError(f"The files of the zip {_NO_ROOM}") from error
        raise VolumeError(
            "The zip is damaged, encrypted or of an unknown kind; make a new zip of the scan's folder."
        ) from error


def check_self_contained(path: Path, name: str) -> None:
    """Raise VolumeError if the header of an image refers to another file, which could be any file of this computer.

    name: name of the image in the error message.
    """
    with path.open("rb") as file:
        head = file.read(_HEADER_BYTES)
    named = False
    if path.name.endswith(".nrrd"):
        # the header ends with an empty line
        fields = head.partition(b"\n\n")[0].partition(b"\r\n\r\n")[0].lower()
        named = re.search(rb"^\s*data ?file\s*:", fields, re.MULTILINE) is not None
    elif path.name.endswith(".mha"):
        data = re.search(rb"ElementDataFile\s*=\s*([^\r\n]*)", head, re.IGNORECASE)
        named = data is None or data.group(1).strip() != b"LOCAL"
    if named:
        raise VolumeError(
            f"{name}: the voxels are in another file; save the header and the voxels in one file."
        )


def _read_image(path: Path, name: str, check: Check) -> Volume:
    """Read an uploaded image. name: the name of the file that the user sent, for messages."""
    from AnatomicalEmbedding.scan.image_files import display_name
    from AnatomicalEmbedding.scan.volume import Volume

    check_self_contained(path, name)
    try:
        volume = Volume.read(path, check=check)
    except AnatomicalEmbeddingError as error:
        raise VolumeError(str(error).replace(str(path), name)) from error
    return replace(volume, name=display_name(Path(name)), path="")


def _read_dicom(folder: Path, names: list[str], check: Check) -> list[Volume]:
    """Read all CT series from the uploaded files `names` in a folder. Raises VolumeError if a series cannot be read."""
    from AnatomicalEmbedding.scan.checks import MIN_SLICES
    from AnatomicalEmbedding.scan.dicom import list_series
    from AnatomicalEmbedding.scan.volume import Volume

    name = names[0].rsplit(".", 1)[0] if len(names) == 1 else "DICOM"
    try:
        series = list_series(folder)
    except VolumeError as error:
        raise VolumeError(_no_scan(names)) from error
    uids = [entry.uid for entry in series if entry.modality == "CT" and entry.slices >= MIN_SLICES]
    uids = uids or [series[0].uid]  # its error says why it cannot be used
    try:
        return [replace(Volume.read(folder, uid, check=check), name=name, path="") for uid in uids]
    except AnatomicalEmbeddingError as error:
        raise VolumeError(str(error).replace(str(folder), name)) from error


def _no_scan(names: list[str]) -> str:
    sent = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return f"{sent}: this is not a complete scan; send NIfTI, NRRD, MHA, PNG, TIFF or DICOM files, or a zip of them."
