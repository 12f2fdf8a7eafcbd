"""Finds the labelled scans of a data set, and reads their labels. docs/audit.md lists the layouts of data sets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..dicom.outlines import outlined_series
from ..errors import AnatomicalEmbeddingError, VolumeError
from ..scan.dicom import is_dicom_file
from ..scan.image_files import IMAGE_SUFFIXES, display_name, image_suffix, is_label_map
from ..scan.label_map import LabelMap
from ..scan.sources import Source, distinct_names, list_sources
from ..scan.volume import Volume
from ..structures.label_files import (
    canonical_names,
    check_same_grid,
    has_own_names,
    list_of_names,
    read_label_image,
    read_labels,
    read_texts,
)

TRAINING, TEST = "Tr", "Ts"  # ends of the names of nnU-Net's folders
_LAYOUTS = "the layout of nnU-Net or TotalSegmentator, NAME.seg.nii.gz with NAME.labels.json, or DICOM SEG or RTSTRUCT"

read_scan = lru_cache(maxsize=1)(Source.read)  # of an entry; raises VolumeError


@dataclass(frozen=True)
class LabelledScan:
    """One entry of a data set.

    Args:
        name: a name that no other entry has.
        scan: the CT, or None if only labels are there.
        labels: one label map, one DICOM SEG or RTSTRUCT, or one mask for each structure.
        list_of_names: file with the names of the labels; None if they are named by the masks' files or in the DICOM.
        part: TRAINING, TEST, or "" if the data set has no such parts.
    """

    name: str
    scan: Source | None
    labels: tuple[Path, ...]
    list_of_names: Path | None = None
    part: str = ""

    @property
    def state(self) -> list[list[object]]:
        """Names, sizes and times of change of all files. If they change, the entry is checked again."""
        files = filter(None, (*self.labels, self.list_of_names))
        states = [
            [str(path), path.stat().st_size, path.stat().st_mtime_ns]
            for path in files
            if path.exists()
        ]
        scan = self.scan
        return [*states, [scan.path, scan.size, scan.changed_ns] if scan else []]


def list_entries(folder: Path) -> list[LabelledScan]:
    """Find all labelled scans in a folder and its subfolders. Raises AnatomicalEmbeddingError if there are none."""
    sources = list_sources([folder], lambda line: None)
    scans = {source.series or source.path: source for source in sources if not source.unfit}
    # DICOM slices belong to scans; each of the remaining files may hold labels
    slices = {Path(scan.path, name) for scan in scans.values() for name in scan.files}
    files = sorted(path for path in folder.rglob("[!.]*") if path.is_file() and path not in slices)
    entries = list(filter(None, (_entry_of(path, scans) for path in files)))
    if not entries:
        raise AnatomicalEmbeddingError(
            f"{folder}: contains no labelled scan; give a folder in {_LAYOUTS}."
        )
    names = distinct_names([entry.name for entry in entries])
    named = [replace(entry, name=name) for entry, name in zip(entries, names, strict=True)]
    return sorted(named, key=lambda entry: entry.name)


def _entry_of(path: Path, scans: dict[str, Source]) -> LabelledScan | None:
    """Return the entry whose labels begin with the file `path`; None without one. scans: path, or UID of the series ->
    scan."""
    if not image_suffix(path):
        return _dicom_entry(path, scans)
    folder = path.parent
    stem = display_name(path).removesuffix(".seg")
    if folder.name == "segmentations":  # TotalSegmentator
        masks = tuple(sorted(mask for mask in folder.glob("[!.]*") if image_suffix(mask)))
        if path != masks[0]:  # one entry for all masks
            return None
        return LabelledScan(str(folder.parent), _scan_at(folder.parent / "ct", scans), masks)
    if folder.name in ("labelsTr", "labelsTs"):  # nnU-Net
        images = folder.with_name(folder.name.replace("labels", "images"))
        scan = _scan_at(images / f"{stem}_0000", scans) or _scan_at(images / stem, scans)
        names = folder.parent / "dataset.json"
        return LabelledScan(str(path), scan, (path,), names, folder.name[-2:])
    if not is_label_map(path):
        return None
    names = None if has_own_names(path) else list_of_names(path)
    return LabelledScan(str(folder / stem), _scan_at(folder / stem, scans), (path,), names)


def _dicom_entry(path: Path, scans: dict[str, Source]) -> LabelledScan | None:
    """Return the entry of a DICOM SEG or RTSTRUCT; None for any other file. scans: as for `_entry_of`."""
    outlined = outlined_series(path) if is_dicom_file(path) else None
    if outlined is None:
        return None
    for uid in sorted(outlined):
        if uid in scans:
            return LabelledScan(scans[uid].label, scans[uid], (path,))
    return LabelledScan(str(path), None, (path,))


def _scan_at(stem: Path, scans: dict[str, Source]) -> Source | None:
    """Return the scan whose path is `stem` with any ending; None without one. scans: as for `_entry_of`."""
    paths = [f"{stem}{suffix}" for suffix in IMAGE_SUFFIXES]
    return next((scans[path] for path in paths if path in scans), None)


def read_entry_labels(entry: LabelledScan) -> LabelMap:
    """Read the labels of an entry, with the names that the data set gives them.

    Raises VolumeError if a file is damaged or has fractions, if masks of one scan have different grids, or if the scan
    of DICOM labels is missing; PointsError if the list of names is missing or damaged.
    """
    path = entry.labels[0]
    if entry.list_of_names is not None:
        texts = read_texts(entry.list_of_names)
        canonical_names(texts, entry.list_of_names)  # refuses a name that two labels have
        return LabelMap(*read_label_image(path), {text: value for value, text in texts.items()})
    if image_suffix(path) and not is_label_map(path):
        return _read_masks(entry.labels)

    def read_entry() -> Volume:
        if entry.scan is None:
            raise VolumeError(f"{path}: its DICOM series is not in the data set; add the series.")
        return read_scan(entry.scan)

    return read_labels(path, read_entry)


def _read_masks(paths: Sequence[Path]) -> LabelMap:
    """Read masks of one scan. Raises VolumeError if their grids differ."""
    voxels, ijk_to_ras = read_label_image(paths[0])

    def masks() -> Iterator[tuple[str, np.ndarray]]:
        yield display_name(paths[0]), voxels > 0
        for path in paths[1:]:
            mask = LabelMap(*read_label_image(path), {})
            check_same_grid(path, mask, voxels.shape, ijk_to_ras, paths[0].name)
            yield display_name(path), mask.voxels > 0

    return LabelMap.from_masks(masks(), voxels.shape, ijk_to_ras)
