"""Find the scans in folders: image files, and DICOM series of many patients and studies. Voxels are not read.

Each scan also gets a short name that no other scan has.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple, Self

from ..errors import AnatomicalEmbeddingError
from ..files import free_name
from .dicom import group_series, is_dicom_file, patient_id_of
from .image_files import display_name, image_suffix, is_label_map
from .volume import Volume

_LABEL = re.compile(r"(.+)#([0-9.]+(?:-\d+)?)")  # see `Source.label`


@dataclass(frozen=True)
class Source:
    """One scan that was found. It is not read yet and may be unusable.

    path: an image file, or the folder of a DICOM series. series: UID of the series or phase, or "" for an image file.
    files: file names of the slices; () for an image file. alone: True if the folder holds no other series. size: bytes
    of all files. changed_ns: time of the last change, ns. unfit: reason why a series is not a CT volume, or "".
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
        """The path of the scan, or path#SeriesInstanceUID if the folder holds several series."""
        return self.path if self.alone else f"{self.path}#{self.series}"

    @property
    def patient_id(self) -> str:
        """The DICOM Patient ID, read from one file; "" if it is not known."""
        return patient_id_of(Path(self.path, self.files[0])) if self.files else ""

    def read(self, check: Callable[[Volume], Volume] | None = None) -> Volume:
        """Read the scan. Raises VolumeError for the same reasons as `Volume.read`. check: as there."""
        files = [Path(self.path, name) for name in self.files]
        return Volume.read(self.label, files=files, check=check)


def list_sources(roots: Sequence[Path], unreadable: Callable[[str], None]) -> Iterator[Source]:
    """Yield every scan in folders and their subfolders, sorted by name. Label maps (NAME.seg.SUFFIX) are left out.

    A root that is a file is always a scan, even if it is a label map. If the files of a DICOM series lie in several
    folders, each folder gives a scan of its own. unreadable: called with a sentence for each folder that cannot be
    listed. Raises AnatomicalEmbeddingError for a root that does not exist.
    """
    for root in roots:
        if not root.exists():
            raise AnatomicalEmbeddingError(f"{root}: no such file or folder; check the path.")
    for root in roots:
        if root.is_file():
            yield _source(root, "", (root,))
        else:
            for folder, names in _walk(root, unreadable):
                yield from _in_folder(
                    folder, [name for name in names if not is_label_map(Path(name))]
                )


def find_scans(
    paths: Sequence[str | Path],
    report: Callable[[str], None],
    series: Sequence[str] = (),
    output: Path | None = None,
) -> dict[str, Source]:
    """Find the scans in files, folders and their subfolders. Returns each scan once, under a unique short name.

    A DICOM series that is not a CT volume is left out if other series under the same path are CT volumes. For a
    path without a scan, a Source is returned too; its `read` raises an error with the reason.

    Args:
        paths: files and folders.
        report: called with a sentence for each series that is left out, and for each folder that cannot be listed.
        series: UIDs; if a folder holds a series with one of these UIDs, its other series are not used.
        output: a folder of results, which is not searched.

    Raises AnatomicalEmbeddingError if one of `series` is in no folder.
    """
    sources: dict[Path, Source] = {}
    for path in paths:
        scans = _scans_at(Path(path), series, output, report)
        usable = [scan for scan in scans if not scan.unfit] or scans
        for scan in scans:
            if scan not in usable:
                report(f"left out: {scan.label}: {scan.unfit}.")
        for scan in usable or [Source(str(path), "", (), alone=True, size=0, changed_ns=0)]:
            sources.setdefault(Path(scan.label).resolve(), scan)
    unknown = set(series) - {scan.series for scan in sources.values()}
    if unknown:
        raise AnatomicalEmbeddingError(
            f"--series {min(unknown)}: none of the folders contains this series; `anatemb info DIR` lists the series."
        )
    names = distinct_names([scan.label for scan in sources.values()])
    return dict(zip(names, sources.values(), strict=True))


def _scans_at(
    root: Path, series: Sequence[str], output: Path | None, report: Callable[[str], None]
) -> list[Source]:
    """Return the scans of a folder, without those in `output` and without the series that `series` excludes."""
    if not root.is_dir():
        return []
    scans = list(list_sources([root], report))
    if output is not None and root.resolve() in output.resolve().parents:
        scans = [
            scan for scan in scans if output.resolve() not in Path(scan.path).resolve().parents
        ]
    chosen = {scan.path for scan in scans if scan.series in series}
    return [scan for scan in scans if scan.series in series or scan.path not in chosen]


def distinct_names(scans: Sequence[str | Path]) -> list[str]:
    """Return a short name for each scan: its file or folder name without an image suffix; unique, ignoring case.

    scans: paths, or labels of sources. If scans would get the same name, folders are added before the name and parts of
    the series UID after it, as few as needed: a/ct.nii.gz and b/ct.nii.gz become a_ct and b_ct. Names that are still
    equal, for example of ct.nii.gz and ct.nrrd in one folder, get numbers: _2, _3 ...
    """
    labels = [_Label.of(str(scan)) for scan in scans]
    names = [label.name for label in labels]
    alike: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        alike.setdefault(name.casefold(), []).append(number)
    for group in alike.values():
        # scans of one name: as many columns of folders and of numbers of the UID as tell them apart
        folders = _telling([labels[n].folders for n in group], [])
        numbers = _telling([labels[n].numbers for n in group], folders)
        for row, n in enumerate(group):
            before = [column[row] for column in folders]
            after = [column[row] for column in numbers]
            names[n] = "_".join(filter(None, [*before, names[n], *after]))
    used: set[str] = set()
    for number, name in enumerate(names):
        names[number] = free_name(name, used)
        used.add(names[number].casefold())
    return names


class _Label(NamedTuple):
    """The parts of a scan's label: the folders above its file, the file's name, and the numbers of its series UID."""

    folders: list[str]
    name: str
    numbers: list[str]

    @classmethod
    def of(cls, text: str) -> Self:
        """Split a label."""
        file, numbers = text, []
        series = _LABEL.fullmatch(text)
        if series and not _exists(text):  # else the # is part of the file's name
            file = series[1]
            numbers = re.split("[.-]", series[2])
        path = Path(os.path.normpath(Path(file).absolute()))
        # names hold no slashes, backslashes or colons
        folders = [re.sub(r"[\\/:]", "", part) for part in path.parts[:-1]]
        return cls(folders, display_name(path), numbers)


def _telling(rows: list[list[str]], earlier: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the columns of `rows` that help to tell the scans apart. A column is chosen if two scans differ in this
    column, but are equal in all columns of `earlier` and in all columns chosen before.

    rows: for each scan, a list of parts of its name. earlier: columns with other parts of the names.
    """
    chosen: list[tuple[str, ...]] = []
    # scans whose values are equal in all columns so far; without any column, all scans are alike
    groups = set(zip(*earlier, strict=True)) or {()}
    for column in zip_longest(*rows, fillvalue=""):  # a value for each scan
        finer_groups = set(zip(*earlier, *chosen, column, strict=True))
        if len(finer_groups) > len(groups):
            chosen.append(column)
            groups = finer_groups
    return chosen


def read_scan(scan: str) -> Volume:
    """Read a scan of a cohort. scan: label in the cohort, which is a file, a folder, or folder#SeriesInstanceUID.

    Raises AnatomicalEmbeddingError if the scan does not exist any more, and the errors of `Volume.read`.
    """
    path = scan if _exists(scan) else scan.rpartition("#")[0]
    if path and _exists(path):
        for source in list_sources([Path(path)], lambda line: None):
            if source.label == scan:
                return source.read()
            if source.path != path:
                break  # the sources of subfolders follow the sources of the folder
    raise AnatomicalEmbeddingError(
        f"{scan}: this scan does not exist any more; check whether the scan was moved."
    )


def _exists(name: str) -> bool:
    """Return whether a file or folder has this name; False for a text that no file can have as its name."""
    with suppress(OSError, ValueError):  # the name is not a valid file name
        return Path(name).exists()
    return False


def _walk(root: Path, unreadable: Callable[[str], None]) -> Iterator[tuple[Path, list[str]]]:
    """Yield `root` and each folder in it once, with the names of its files. Links to folders are followed."""

    def refused(error: OSError) -> None:
        unreadable(f"{error.filename}: cannot be listed ({error.strerror}); check its permissions.")

    visited = set()
    for folder, inner, names in os.walk(root, followlinks=True, onerror=refused):
        state = Path(folder).stat()
        identity = (state.st_dev, state.st_ino)
        if identity in visited:
            inner.clear()
            continue
        visited.add(identity)
        inner.sort()
        yield Path(folder), sorted(name for name in names if not name.startswith("."))


def _in_folder(folder: Path, names: list[str]) -> Iterator[Source]:
    """Yield the scans among the files `names` of a folder: image files, DICOM series, and damaged slices.

    A damaged slice belongs to the series if the folder has one series; otherwise it is yielded by itself.
    """
    slices = []
    for name in names:
        path = folder / name
        if image_suffix(path):
            yield _source(path, "", (path,))
        elif _is_slice(path):
            slices.append(path)
    if not slices:
        return
    series, damaged = group_series(slices)
    alone = len(series) == 1
    if not alone:
        for path in damaged:
            yield _source(path, "", (path,))
    for uid, (files, unfit) in series.items():
        # damaged slices are included, so that reading fails
        whole = sorted([*files, *damaged]) if alone else files
        yield _source(folder, uid, tuple(whole), unfit, alone)


def _is_slice(path: Path) -> bool:
    """Return whether a file looks like DICOM; False if it cannot be opened."""
    try:
        return path.is_file() and path.stat().st_size > 0 and is_dicom_file(path)
    except OSError:
        return False


def _source(
    path: Path, series: str, files: tuple[Path, ...], unfit: str = "", alone: bool = True
) -> Source:
    """Make a Source with the size and the time of change of its files. Arguments: as the fields of `Source`."""
    size = changed = 0
    for file in files:
        try:
            state = file.stat()
        except OSError:  # a broken link; reading it will report the error
            continue
        size = size + state.st_size
        changed = max(changed, state.st_mtime_ns)
    return Source(
        str(path),
        series,
        tuple(file.name for file in files) if series else (),
        alone,
        size,
        changed,
        unfit,
    )
