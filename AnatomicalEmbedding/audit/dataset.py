"""Finds the labelled scans of a data set, and reads their labels. docs/audit.md lists the layouts of data sets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..dicom.outlines import outlined_series, read_dicom_labels
from ..errors import AnatomicalEmbeddingError, VolumeError
from ..scan.dicom import is_dicom_file
from ..scan.geometry import image_affine
from ..scan.image_files import IMAGE_SUFFIXES, display_name, image_suffix, is_label_map, read_image
from ..scan.label_map import LabelMap
from ..scan.sources import Source, distinct_names, list_sources
from ..structures.labelled_scans import as_labels, read_texts

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
    slices = {Path(scan.path, name) for scan in scans.values() for name in scan.files}
    files = sorted(path for path in folder.rglob("[!.]*") if path.is_file() and path not in slices)
    entries = [entry for path in files for entry in _entries_of(path, scans)]
    if not entries:
        raise AnatomicalEmbeddingError(
            f"{folder}: contains no labelled scan; give a folder in {_LAYOUTS}."
        )
    names = distinct_names([entry.name for entry in entries])
    named = [replace(entry, name=name) for entry, name in zip(entries, names, strict=True)]
    return sorted(named, key=lambda entry: entry.name)


def _entries_of(path: Path, scans: dict[str, Source]) -> Iterator[LabelledScan]:
    """Yield the entry whose labels begin with the file `path`. scans: path, or UID of the series -> scan."""
    folder = path.parent
    stem = display_name(path).removesuffix(".seg")

    def scan_at(place: Path, *stems: str) -> Source | None:
        """Return the scan with one of these names, and any ending, in the folder `place`; None without one."""
        paths = (str(place / f"{name}{suffix}") for name in stems for suffix in IMAGE_SUFFIXES)
        return next((scans[image] for image in paths if image in scans), None)

    if not image_suffix(path):
        if is_dicom_file(path) and (outlined := outlined_series(path)) is not None:
            scan = next((scans[uid] for uid in sorted(outlined) if uid in scans), None)
            yield LabelledScan(str(path) if scan is None else scan.label, scan, (path,))
    elif folder.name == "segmentations":  # TotalSegmentator
        masks = tuple(sorted(mask for mask in folder.glob("[!.]*") if image_suffix(mask)))
        if path == masks[0]:  # one entry for all masks
            yield LabelledScan(str(folder.parent), scan_at(folder.parent, "ct"), masks)
    elif folder.name in ("labelsTr", "labelsTs"):  # nnU-Net
        images = folder.with_name(folder.name.replace("labels", "images"))
        scan = scan_at(images, f"{stem}_0000", stem)
        names = folder.parent / "dataset.json"
        yield LabelledScan(str(path), scan, (path,), names, folder.name[-2:])
    elif is_label_map(path):
        names = folder / f"{stem}.labels.json"
        yield LabelledScan(str(folder / stem), scan_at(folder, stem), (path,), names)


def read_labels(entry: LabelledScan) -> LabelMap:
    """Read the labels of an entry, with the names that the data set gives them.

    Raises VolumeError if a file is damaged or has fractions, if masks of one scan have different grids, or if the scan
    of DICOM labels is missing; PointsError if the list of names is missing or damaged.
    """
    path = entry.labels[0]
    if not image_suffix(path):
        if entry.scan is None:
            raise VolumeError(f"{path}: its DICOM series is not in the data set; add the series.")
        volume = read_scan(entry.scan)
        return read_dicom_labels(path, volume.shape, volume.ijk_to_ras)
    voxels, ijk_to_ras = _read_voxels(path)
    if entry.list_of_names is not None:
        texts = read_texts(entry.list_of_names)
        return LabelMap(voxels, ijk_to_ras, {text: value for value, text in texts.items()})
    masks = _read_masks(entry.labels, voxels.shape, ijk_to_ras)
    return LabelMap.from_masks(masks, voxels.shape, ijk_to_ras)


def _read_masks(
    paths: Sequence[Path], shape: tuple[int, ...], ijk_to_ras: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (name, mask) of each mask file. Raises VolumeError if a mask does not have this grid."""
    for path in paths:
        voxels, affine = _read_voxels(path)
        if voxels.shape != shape or np.abs(affine - ijk_to_ras).max() > 0.01:
            raise VolumeError(
                f"{path}: has another grid than the first mask; resample the masks to one grid."
            )
        yield display_name(path), voxels > 0


def _read_voxels(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read integer voxels (k, j, i) and ijk_to_ras (4, 4)."""
    image, _ = read_image(path)
    return as_labels(path, image), image_affine(image)
