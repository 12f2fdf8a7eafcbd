"""The scans of folders: image files, and DICOM series of many patients and studies, found without reading voxels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import AnatomicalEmbeddingError
from ..scan.dicom import group_series, is_dicom_file
from ..scan.image_files import image_suffix, is_label_map
from ..scan.volume import Volume

MANIFEST_NAME = "cohort.sqlite"  # a folder that holds it is a store, and not searched


@dataclass(frozen=True)
class Source:
    """One scan to read, usable or not.

    path: absolute, an image file or the folder of a DICOM series. series: its SeriesInstanceUID, or "". files: names of
    its slices in that folder. alone: whether it is the folder's only series. size: bytes. changed_ns: time of change.
    """

    path: str
    series: str
    files: tuple[str, ...]
    alone: bool
    size: int
    changed_ns: int

    @property
    def label(self) -> str:
        """The name of the scan in a cohort: its path, with the series where a folder holds several."""
        return self.path if self.alone else f"{self.path}#{self.series}"


def list_sources(roots: list[Path], unreadable: Callable[[str], None]) -> Iterator[Source]:
    """Every scan in folders and their subfolders, in the order of their names, without label maps; files are taken as
    they are.

    One folder holds the whole of a DICOM series: parts of it in other folders count as further scans.
    unreadable: receives a sentence for each folder that cannot be listed.
    Raises AnatomicalEmbeddingError for a root that does not exist.
    """
    for root in roots:
        if not root.exists():
            raise AnatomicalEmbeddingError(f"{root}: no such file or folder; check the path.")
    for root in roots:
        path = Path(os.path.normpath(root.absolute()))
        if path.is_file():
            yield from _in_folder(path.parent, [path.name])
        else:
            for folder, names in _walk(path, unreadable):
                yield from _in_folder(folder, [name for name in names if not is_label_map(Path(name))])


def read_scan(scan: str) -> Volume:
    """A scan by the name that a cohort gives it, as places.csv has it: a file, a folder, or folder#series.

    Raises AnatomicalEmbeddingError where nothing of that name is there any more, VolumeError as `Volume.read`.
    """
    if _is(Path.is_file, scan):
        return Volume.read(scan)
    folder = scan if _is(Path.is_dir, scan) else scan.rpartition("#")[0]
    if not folder or not _is(Path.is_dir, folder):
        raise AnatomicalEmbeddingError(f"{scan}: no such file or folder; check whether it was moved.")
    try:
        names = sorted(each.name for each in Path(folder).iterdir() if not each.name.startswith("."))
    except OSError as error:
        raise AnatomicalEmbeddingError(f"{folder}: cannot be read ({error.strerror}); check its permissions.") from None
    for source in _in_folder(Path(folder), names):
        if source.label == scan and source.series:
            return Volume.read_slices([Path(folder, name) for name in source.files], scan)
    raise AnatomicalEmbeddingError(f"{scan}: the folder holds no such series any more; add it to the cohort again.")


def _is(kind: Callable[[Path], bool], name: str) -> bool:
    try:
        return kind(Path(name))
    except (OSError, ValueError):  # no name that a file could have
        return False


def _walk(root: Path, unreadable: Callable[[str], None]) -> Iterator[tuple[Path, list[str]]]:
    """Folders and the names of their files; links are followed, each folder is visited once."""

    def refused(error: OSError) -> None:
        unreadable(f"{error.filename}: cannot be listed ({error.strerror}); check its permissions.")

    seen = set()
    for folder, inner, names in os.walk(root, followlinks=True, onerror=refused):
        state = Path(folder).stat()
        known = (state.st_dev, state.st_ino)
        if known in seen or MANIFEST_NAME in names:
            inner.clear()
            continue
        seen.add(known)
        inner.sort()
        yield Path(folder), sorted(name for name in names if not name.startswith("."))


def _in_folder(folder: Path, names: list[str]) -> Iterator[Source]:
    slices = []
    for name in names:
        path = folder / name
        if image_suffix(path):
            yield _source(path, "", (path,), True)
        elif _is_slice(path):
            slices.append(path)
    if not slices:
        return
    series, damaged = group_series(slices)
    if len(series) == 1:  # a scan with a damaged slice is not whole
        series = {uid: sorted([*files, *damaged]) for uid, files in series.items()}
    else:
        for path in damaged:
            yield _source(path, "", (path,), True)
    for uid, files in series.items():
        yield _source(folder, uid, tuple(files), len(series) == 1)


def _is_slice(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0 and is_dicom_file(path)
    except OSError:
        return False


def _source(path: Path, series: str, files: tuple[Path, ...], alone: bool) -> Source:
    size = changed = 0
    for file in files:
        try:
            state = file.stat()
        except OSError:  # a link to nowhere, reported when it is read
            continue
        size, changed = size + state.st_size, max(changed, state.st_mtime_ns)
    return Source(str(path), series, tuple(file.name for file in files) if series else (), alone, size, changed)
