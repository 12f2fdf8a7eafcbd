"""Files that the page sends: bounded in size and number, under names of our own, in a folder that goes with them."""

from __future__ import annotations

import errno
import math
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from aiohttp import web

from ..logic.origins import UNKNOWN, origin_in
from ..logic.session import Limits

_SUFFIXES = (".nii.gz", ".nii", ".nrrd", ".mha")  # each a file that holds all of its scan
_CHUNK = 1 << 20
_DISK_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
_HEADER = 1 << 16
_LINK = 0xA  # of the file kinds that a zip made on Unix states


class UploadError(Exception):
    """A sentence for the user."""


async def receive(request: web.Request, folder: Path, limits: Limits) -> tuple[Path, list[str]]:
    """Write the files of a request into a new folder below `folder`; returns it and the names as they were sent.

    No name that was sent is used for more than its suffix: files are numbered. Raises UploadError, and leaves nothing,
    where there are too many or too large ones, or the disk is full.
    """
    if request.content_type != "multipart/form-data":
        raise UploadError("Nothing was sent; choose one or more files.")
    with _disk_full_reported():
        target = Path(tempfile.mkdtemp(prefix="upload-", dir=folder))
    names, total = [], 0
    try:
        async for part in await request.multipart():
            if part.filename is None:
                continue
            if len(names) >= limits.files:
                raise UploadError(f"More than {limits.files} files were sent; send them as one zip, or fewer.")
            names.append(safe_name(part.filename))
            with _disk_full_reported(), (target / _numbered(len(names), names[-1])).open("wb") as file:
                while chunk := await part.read_chunk(_CHUNK):
                    total += len(chunk)
                    if total > limits.upload_bytes:
                        raise UploadError(_too_large(limits))
                    file.write(chunk)
        if not names:
            raise UploadError("Nothing was sent; choose one or more files.")
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return target, names


@contextmanager
def _disk_full_reported() -> Iterator[None]:
    """Raise UploadError where a file cannot grow; other faults as they are."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        raise UploadError("There is no room for these files on the viewer's disk; make room and send again.") from error


def make_reader(folder: Path, names: list[str], limits: Limits) -> Callable:
    """A reader for `Scans.read` of what `receive` has written; the folder is removed when it ends."""

    def read(cancelled: Callable[[], bool]) -> list:
        from AnatomicalEmbedding.errors import VolumeError

        try:
            return _read_all(folder, names, limits, cancelled)
        except UploadError as error:
            raise VolumeError(str(error)) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return read


def safe_name(name: str) -> str:
    """The last part of a name that was sent, without anything that is more than a name; for people to read."""
    last = PurePosixPath(name.replace("\\", "/")).name
    return re.sub(r"[^\w.()+ -]", "_", last).strip(" .")[:120] or "file"


def unzip(archive: Path, target: Path, limits: Limits) -> int:
    """Unpack a zip's files, numbered, into a folder; returns how many. Raises UploadError for what is no honest zip."""
    count = total = 0
    try:
        with _disk_full_reported(), zipfile.ZipFile(archive) as packed:
            entries = [entry for entry in packed.infolist() if entry.filename and not entry.is_dir()]
            if len(entries) > limits.files:
                raise UploadError(f"The zip holds {len(entries)} files, more than {limits.files}; send a smaller one.")
            if sum(entry.file_size for entry in entries) > limits.upload_bytes:
                raise UploadError(f"Unpacked, {_too_large(limits)}")
            for entry in entries:
                path = PurePosixPath(entry.filename.replace("\\", "/"))
                if (
                    path.is_absolute()
                    or ".." in path.parts
                    or ":" in entry.filename
                    or entry.external_attr >> 28 == _LINK
                ):
                    raise UploadError(
                        "The zip names files outside itself; it was refused. Pack the scan's folder anew."
                    )
                if path.name.startswith(".") or "__MACOSX" in path.parts:
                    continue
                count += 1
                with packed.open(entry) as source, (target / _numbered(count, safe_name(path.name))).open("wb") as file:
                    while chunk := source.read(_CHUNK):  # the sizes that a zip states may be lies
                        total += len(chunk)
                        if total > limits.upload_bytes:
                            raise UploadError(f"Unpacked, {_too_large(limits)}")
                        file.write(chunk)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise UploadError(
            "The zip is damaged, encrypted or of an unknown kind; pack the scan's folder anew."
        ) from error
    return count


def check_self_contained(path: Path, limits: Limits) -> None:
    """Raise UploadError for an image that takes its voxels from another file, or claims to be beyond all bounds."""
    with path.open("rb") as file:
        head = file.read(_HEADER)
    if path.name.endswith(".nrrd"):
        fields = head.partition(b"\n\n")[0].partition(b"\r\n\r\n")[0].lower()
        if re.search(rb"^\s*data ?file\s*:", fields, re.MULTILINE):
            raise UploadError("its voxels are in another file; save it as one file (.nrrd with its data).")
    if path.name.endswith(".mha"):
        kept_in = re.search(rb"ElementDataFile\s*=\s*([^\r\n]*)", head, re.IGNORECASE)
        if kept_in is None or kept_in.group(1).strip() != b"LOCAL":
            raise UploadError("its voxels are in another file; save it as one file (.mha).")
    size = _claimed(path)
    if size is not None and math.prod(size) > limits.voxel_bytes:
        raise UploadError(
            f"claims to hold {math.prod(size) / 2**30:.0f} GB of voxels, more than {limits.voxel_bytes / 2**30:.0f}."
        )


def check_slices(folder: Path, limits: Limits) -> None:
    """Raise UploadError for DICOM images that claim to be beyond all bounds; a small file can claim a large picture."""
    total = 0
    for path in folder.iterdir():
        size = _claimed(path)
        if size is None:
            continue
        total += math.prod(size)
        if math.prod(size[:3]) > limits.slice_bytes:
            raise UploadError(
                f"a DICOM image claims to have {size[1]} × {size[2]} pixels, more than a CT slice; send the CT alone."
            )
        if total > limits.voxel_bytes:
            raise UploadError(
                f"the DICOM images claim to hold more than {limits.voxel_bytes / 2**30:.0f} GB of voxels together; "
                "send one series at a time."
            )


def _claimed(path: Path) -> tuple[int, ...] | None:
    """Bytes of a voxel, then the number of voxels along each axis, by an image's header; None for what is no image,
    of which the engine's own reader says what is wrong.
    """
    import SimpleITK as sitk

    from AnatomicalEmbedding.errors import VolumeError
    from AnatomicalEmbedding.scan.dicom_lengths import lengths_fit
    from AnatomicalEmbedding.scan.image_files import image_reader
    from AnatomicalEmbedding.scan.text_headers import check_text_header

    reader = image_reader(path)
    try:
        check_text_header(path)
        if not path.name.endswith(_SUFFIXES) and not lengths_fit(path):
            return None
        reader.ReadImageInformation()
    except (RuntimeError, VolumeError):
        return None
    voxel = sitk.Image([1, 1, 1], reader.GetPixelID()).GetSizeOfPixelComponent() * reader.GetNumberOfComponents()
    return voxel, *reader.GetSize()


def _read_all(folder: Path, names: list[str], limits: Limits, cancelled: Callable[[], bool]) -> list:
    """Scans of the images that were sent, each a file, and of all else, which is taken for DICOM."""
    images, rest = [], folder / "dicom"
    rest.mkdir()
    called = {_numbered(n, name): name for n, name in enumerate(names, 1)}
    for path in sorted(folder.iterdir()):
        name = called.get(path.name)
        if name is None:
            continue
        if name.lower().endswith(_SUFFIXES):
            images.append((path, name))
        elif name.lower().endswith(".zip"):
            inner = folder / f"{path.stem}-unpacked"
            inner.mkdir()
            unzip(path, inner, limits)
            for each in inner.iterdir():
                if each.name.lower().endswith(_SUFFIXES):
                    images.append((each, name))
                else:
                    each.rename(rest / f"{path.stem}-{each.name}")
        else:
            path.rename(rest / path.name)
    volumes = []
    for path, name in images:
        if not cancelled():
            volumes.append((_read_image(path, name, limits), UNKNOWN))
    if any(rest.iterdir()) and not cancelled():
        volumes += _read_dicom(rest, names, limits, folder.parent, with_images=bool(images))
    if not volumes and not cancelled():
        raise UploadError(_no_scan(names))
    return volumes


def _read_image(path: Path, name: str, limits: Limits):
    from dataclasses import replace

    from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, VolumeError
    from AnatomicalEmbedding.scan.image_files import display_name
    from AnatomicalEmbedding.scan.volume import Volume

    try:
        check_self_contained(path, limits)
        volume = Volume.read(path)
    except UploadError as error:
        raise VolumeError(f"{name}: {error}") from error
    except AnatomicalEmbeddingError as error:
        raise VolumeError(str(error).replace(str(path), name)) from error
    return replace(volume, name=display_name(Path(name)), path="")


def _read_dicom(folder: Path, names: list[str], limits: Limits, keep_below: Path, with_images: bool) -> list:
    """Every CT volume of the files, and where it comes from; headers are kept next to the upload's own folder.

    with_images: image files were sent with them. Without a CT volume, the first series says what is wrong.
    """
    from dataclasses import replace

    from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, VolumeError
    from AnatomicalEmbedding.scan.checks import MIN_SLICES
    from AnatomicalEmbedding.scan.dicom import list_series
    from AnatomicalEmbedding.scan.volume import Volume

    name = names[0].rsplit(".", 1)[0] if len(names) == 1 else "DICOM"
    try:
        check_slices(folder, limits)
        try:
            series = list_series(folder)
        except VolumeError as error:
            raise VolumeError(_no_scan(names, with_images)) from error
        uids = [each.uid for each in series if each.modality == "CT" and each.slices >= MIN_SLICES] or [series[0].uid]
        volumes = [replace(Volume.read(folder, uid), name=name, path="") for uid in uids]
        # last: what is kept stays where a series is refused
        return [(volume, origin_in(folder, uid, keep_below)) for volume, uid in zip(volumes, uids, strict=True)]
    except UploadError as error:
        raise VolumeError(f"{name}: {error}") from error
    except AnatomicalEmbeddingError as error:
        raise VolumeError(str(error).replace(str(folder), name)) from error


def _numbered(number: int, name: str) -> str:
    """A name of our own: the number, and a suffix that readers know."""
    lower = name.lower()
    suffix = next((s for s in (*_SUFFIXES, ".zip") if lower.endswith(s)), ".dcm")
    return f"{number:05d}{suffix}"


def _no_scan(names: list[str], with_images: bool = False) -> str:
    what = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    found = "some of it is no scan" if with_images else "no scan was found"
    return f"{what}: {found}; send NIfTI, NRRD, MHA or DICOM files, or a zip of them."


def _too_large(limits: Limits) -> str:
    return (
        f"the files are larger than {limits.upload_bytes / 2**30:.1f} GB together; give their paths to `anatemb view`."
    )
