"""The scans of folders: image files, and DICOM series of many patients and studies, found without reading voxels; and
short names that tell them apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from ..errors import AnatomicalEmbeddingError
from ..files import free_name
from .dicom import group_series, is_dicom_file
from .image_files import display_name, image_suffix, is_label_map
from .volume import Volume

_LABEL = re.compile(r"(.+)#([0-9.]+)")  # see `Source.label`


@dataclass(frozen=True)
class Source:
    """One scan to read, usable or not.

    path: an image file, or the folder of a DICOM series. series: its SeriesInstanceUID, or "". files: names of its
    slices in that folder. alone: whether it is the folder's only series. size: bytes. changed_ns: time of change.
    unfit: why a series, by its headers, is no CT volume; "" for all others.
    """

    path: str
    series: str
    files: tuple[str, ...]
    alone: bool
    size: int
    changed_ns: int
    unfit: str = ""

    @property
    def label(self) -> str:
        """The path of the scan, with the series where a folder holds several: path#series."""
        return self.path if self.alone else f"{self.path}#{self.series}"

    def read(self) -> Volume:
        """The scan. Raises VolumeError as `Volume.read`."""
        if self.series:
            return Volume.read_slices([Path(self.path, name) for name in self.files], self.label)
        return Volume.read(self.path)


def list_sources(roots: Sequence[Path], unreadable: Callable[[str], None]) -> Iterator[Source]:
    """Every scan in folders and their subfolders, in the order of their names, without label maps. A root that is a
    file is a scan, label map or not.

    One folder holds the whole of a DICOM series: parts of it in other folders count as further scans.
    unreadable: receives a sentence for each folder that cannot be listed.
    Raises AnatomicalEmbeddingError for a root that does not exist.
    """
    for root in roots:
        if not root.exists():
            raise AnatomicalEmbeddingError(f"{root}: no such file or folder; check the path.")
    for root in roots:
        if root.is_file():
            yield _source(root, "", (root,), True)
        else:
            for folder, names in _walk(root, unreadable):
                yield from _in_folder(folder, [name for name in names if not is_label_map(Path(name))])


def find_scans(
    given: Sequence[str | Path], report: Callable[[str], None], series: Sequence[str] = (), output: Path | None = None
) -> dict[str, Source]:
    """The scans of files, and of folders and all below them, each once, by a name that tells it from the others.

    report: receives a sentence for each DICOM series that is left out, since it is no CT volume and its folder holds
    CT volumes, and for each folder that cannot be listed. series: a folder that holds any of these series gives only
    them. output: a folder of results, which is not searched. A path without a scan becomes a source, too: reading it
    raises the error that says why. Raises AnatomicalEmbeddingError for a series that no folder holds.
    """
    found: dict[Path, Source] = {}
    for scan in given:
        root = Path(scan)
        here = list(list_sources([root], report)) if root.is_dir() else []
        if output is not None and root.resolve() in output.resolve().parents:
            here = [each for each in here if output.resolve() not in Path(each.path).resolve().parents]
        chosen = {each.path for each in here if each.series in series}
        here = [each for each in here if each.series in series or each.path not in chosen]
        usable = [each for each in here if not each.unfit] or here
        for each in here:
            if each not in usable:
                report(f"left out: {each.label}: {each.unfit}.")
        for each in usable or [Source(str(scan), "", (), True, 0, 0)]:
            found.setdefault(Path(each.label).resolve(), each)
    if unknown := set(series) - {each.series for each in found.values()}:
        raise AnatomicalEmbeddingError(f"--series {min(unknown)}: is in no folder given; see `anatemb info DIR`.")
    return dict(zip(distinct_names([each.label for each in found.values()]), found.values(), strict=True))


def distinct_names(scans: Sequence[str | Path]) -> list[str]:
    """A short name for each scan, no two alike without regard to case: its file or folder, without an image suffix.

    scans: paths, or labels of sources. Scans with one name get the parts of their paths that differ: folders before the
    name, the series after it, as few as are enough. a/ct.nii.gz and b/ct.nii.gz become a_ct and b_ct. Names that are
    still alike, such as those of ct.nii.gz and ct.nrrd in one folder, get numbers: _2, _3 ...
    """
    parts = [_parts(str(scan)) for scan in scans]
    alike: dict[str, list[int]] = {}
    for number, (_, name, _) in enumerate(parts):
        alike.setdefault(name.casefold(), []).append(number)
    names = [name for _, name, _ in parts]
    for group in alike.values():
        above = _telling([parts[n][0] for n in group], [])
        after = _telling([parts[n][2] for n in group], above)
        for row, n in enumerate(group):
            names[n] = "_".join(filter(None, [*(c[row] for c in above), names[n], *(c[row] for c in after)]))
    taken: set[str] = set()
    for number, name in enumerate(names):
        names[number] = free_name(name, taken)
        taken.add(names[number].casefold())
    return names


def _parts(scan: str) -> tuple[list[str], str, list[str]]:
    """The folders above a scan, its name, and the parts of its series."""
    series = _LABEL.fullmatch(scan)
    if series and _exists(scan):  # no series but a name with a #
        series = None
    path = Path(os.path.normpath(Path(series[1] if series else scan).absolute()))
    above = [re.sub(r"[\\/:]", "", part) for part in path.parts[:-1]]  # the root and drives are no part of a name
    return above, display_name(path), series[2].split(".") if series else []


def _telling(rows: list[list[str]], known: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Columns of rows that tell the rows further apart, each after the columns before it and those that are known."""
    chosen: list[tuple[str, ...]] = []
    for column in zip_longest(*rows, fillvalue=""):
        before = [*known, *chosen]
        if len(set(zip(*before, column, strict=True))) > len(set(zip(*before, strict=True)) or {()}):
            chosen.append(column)
    return chosen


def read_scan(scan: str) -> Volume:
    """A scan by the name that a cohort gives it, as places.csv has it: a file, a folder, or folder#series.

    Raises AnatomicalEmbeddingError where nothing of that name is there any more, VolumeError as `Volume.read`.
    """
    path = scan if _exists(scan) else scan.rpartition("#")[0]
    if path and _exists(path):
        for source in list_sources([Path(path)], lambda line: None):
            if source.label == scan:
                return source.read()
    raise AnatomicalEmbeddingError(f"{scan}: is not there any more; check whether it was moved, or add it again.")


def _exists(name: str) -> bool:
    with suppress(OSError, ValueError):  # a name that no file could have
        return Path(name).exists()
    return False


def _walk(root: Path, unreadable: Callable[[str], None]) -> Iterator[tuple[Path, list[str]]]:
    """Folders and the names of their files; links are followed, each folder is visited once."""

    def refused(error: OSError) -> None:
        unreadable(f"{error.filename}: cannot be listed ({error.strerror}); check its permissions.")

    seen = set()
    for folder, inner, names in os.walk(root, followlinks=True, onerror=refused):
        state = Path(folder).stat()
        known = (state.st_dev, state.st_ino)
        if known in seen:
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
    alone = len(series) == 1
    if not alone:
        for path in damaged:
            yield _source(path, "", (path,), True)
    for uid, (files, unfit) in series.items():
        whole = sorted([*files, *damaged]) if alone else files  # a scan with a damaged slice is not whole
        yield _source(folder, uid, tuple(whole), alone, unfit)


def _is_slice(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0 and is_dicom_file(path)
    except OSError:
        return False


def _source(path: Path, series: str, files: tuple[Path, ...], alone: bool, unfit: str = "") -> Source:
    size = changed = 0
    for file in files:
        try:
            state = file.stat()
        except OSError:  # a link to nowhere, reported when it is read
            continue
        size, changed = size + state.st_size, max(changed, state.st_mtime_ns)
    return Source(str(path), series, tuple(file.name for file in files) if series else (), alone, size, changed, unfit)
