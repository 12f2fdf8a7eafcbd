"""Reads folders of labelled scans as cases, and finds pairs of cases that share points.

Files next to the scan `<id>.nii.gz`, or next to the folder `<id>` of a DICOM series:

* `<id>.seg.nii.gz` and `<id>.labels.json` ({"1": "liver", ...}): a label map on the grid of the scan, and its names;
* `<id>.seg.dcm`: the same as a DICOM SEG or RTSTRUCT;
* `<id>.landmarks.json` ({"frame": "RAS", "unit": "mm", "points": {"carina": [r, a, s], ...}}): named points.

A film `<id>.png` or `<id>.tif` has landmarks only. With {"frame": "pixels"}, the points are [x, y] in its pixels.

The names of two scans of one patient differ only in the time point at the end: `_t0`, `_tp1`, `_baseline`,
`_followup`, `_followup2`, `_visit1`, `_pre`, `_post`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations, product
from pathlib import Path

import numpy as np
import SimpleITK as sitk

from ..anatomy.names import canonical_name, spelling_key
from ..dicom.outlines import read_dicom_labels
from ..errors import PointsError, VolumeError
from ..files import parse_json
from ..scan.film import is_picture
from ..scan.geometry import (
    GRIDS_AGREE_MM,
    LPS_FROM_RAS,
    corner_distance_mm,
    image_affine,
    transform_points,
)
from ..scan.image_files import IMAGE_SUFFIXES, display_name, image_suffix, is_label_map, read_image
from ..scan.label_map import LabelMap
from ..scan.text_headers import check_text_header
from ..scan.volume import Volume
from .label_names import KINDS, LANDMARK, find_structures

_TIME_POINT = re.compile(
    r"[_-](t\d+|tp\d+|time\d+|visit\d+|baseline|follow-?up\d*|pre|post)$", re.IGNORECASE
)
# end of the file name of a SEG or RTSTRUCT; its start is the name of the scan
DICOM_LABELS = ".seg.dcm"


@dataclass(frozen=True, eq=False)
class Case:
    """One scan with its labels.

    Args:
        structures: name -> points (7, 3) RAS mm, in the order of label_names.KINDS.
        landmarks: name -> point (3,) RAS mm.
        left_out: name of a structure that is not measured -> reason.
        labels: file of the label map, or None.
    """

    id: str
    path: Path
    structures: dict[str, np.ndarray] = field(default_factory=dict)
    landmarks: dict[str, np.ndarray] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    labels: Path | None = None

    @property
    def label_map(self) -> LabelMap:
        """The label map of the scan. Raises PointsError if the scan has no label map."""
        if self.labels is None:
            raise PointsError(
                f"{self.id}: the scan has no label map; put {self.id}.seg.nii.gz next to the scan."
            )
        if self.labels.name.endswith(DICOM_LABELS):
            return _read_dicom(self.labels, self.path)
        return _read_label_map(self.labels, self.path.with_name(f"{self.id}.labels.json"))

    @property
    def patient(self) -> str:
        return patient_of(self.id)

    @property
    def volume(self) -> Volume:
        """The scan, read at its first use. The six scans that were used last stay in memory."""
        return _read_volume(self.path)


def source_of(scan: str) -> str:
    """Return the letters before the first digit or sign of a scan's name: scans of one source are named alike."""
    return re.match(r"[^\W\d_]*", scan)[0].lower()


def patient_of(scan: str) -> str:
    """Return the patient of a scan: the scan's name without an ending such as _t2 or -baseline."""
    return _TIME_POINT.sub("", scan)


@lru_cache(maxsize=6)
def _read_volume(path: Path) -> Volume:
    """Read a scan; the last six stay in memory."""
    return Volume.read(path)


def load_cases(folder: str | Path) -> list[Case]:
    """Read the labels and landmarks of all labelled scans in a folder, sorted by id. Volumes are read later.

    Raises PointsError for a folder without labelled scans and for a damaged .json. Raises VolumeError for a label map
    that is damaged or does not have the grid of its scan.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise PointsError(f"{folder}: no such folder; give a folder of labelled scans.")
    cases = [case for case in map(load_case, list_scans(folder)) if case is not None]
    if not cases:
        raise PointsError(
            f"{folder}: holds no labelled scan; put <id>.seg.nii.gz with <id>.labels.json, or <id>.landmarks.json,"
            " next to each <id>.nii.gz."
        )
    return cases


def refuse_twins(names: Sequence[str]) -> None:
    """Raise PointsError if two scans have the same name, for example two scans from different folders."""
    for name, count in Counter(names).items():
        if count > 1:
            raise PointsError(
                f"two scans have the name {name}; rename one scan, or give only one of the folders."
            )


def list_scans(folder: Path) -> list[Path]:
    """List the image files of a folder, and its DICOM folders with labels, sorted, without label maps. A picture is a
    film if it has landmarks."""
    return [
        path
        for path in sorted(folder.iterdir())
        if (path.is_dir() and path.with_name(path.name + DICOM_LABELS).exists())
        or (image_suffix(path) and not is_label_map(path))
        or (is_picture(path) and path.with_name(f"{path.stem}.landmarks.json").exists())
    ]


def load_case(scan: Path) -> Case | None:
    """Read the labels and landmarks of one scan; None if the scan has neither. Raises the errors of `load_cases`."""
    if is_picture(scan):
        landmarks = scan.with_name(f"{scan.stem}.landmarks.json")
        points = _read_landmarks(landmarks, Volume.read(scan).ijk_to_ras)
        return Case(scan.stem, scan, landmarks=points)
    case_id = display_name(scan)
    label_files = (scan.with_name(f"{case_id}.seg{suffix}") for suffix in IMAGE_SUFFIXES)
    labels = next(filter(Path.exists, label_files), None)
    landmarks = scan.with_name(f"{case_id}.landmarks.json")
    in_dicom = scan.with_name(f"{case_id}{DICOM_LABELS}")
    if labels is None and not landmarks.exists() and not in_dicom.exists():
        return None
    points = _read_landmarks(landmarks) if landmarks.exists() else {}
    if labels is not None:
        image, _ = read_image(labels)
        _check_same_grid(scan, labels, image)
        names = read_names(scan.with_name(f"{case_id}.labels.json"))
        structures, left_out = find_structures(as_labels(labels, image), image_affine(image), names)
        return Case(case_id, scan, structures, points, left_out, labels)
    if in_dicom.exists():
        label_map = _read_dicom(in_dicom, scan)
        names = {value: name for name, value in label_map.values.items()}
        structures, left_out = find_structures(label_map.layers, label_map.ijk_to_ras, names)
        return Case(case_id, scan, structures, points, left_out, in_dicom)
    return Case(case_id, scan, landmarks=points)


@lru_cache(maxsize=2)
def _read_dicom(labels: Path, scan: Path) -> LabelMap:
    """Read a SEG or RTSTRUCT on the voxels of its scan."""
    volume = _read_volume(scan)
    return read_dicom_labels(labels, volume.shape, volume.ijk_to_ras)


@lru_cache(maxsize=2)
def _read_label_map(labels: Path, names: Path) -> LabelMap:
    """Read a label map file and the file with its names."""
    image, _ = read_image(labels)
    texts = read_texts(names)
    structures = canonical_names(texts, names)
    values = {name: value for value, name in structures.items()}
    as_written = {name: texts[value] for value, name in structures.items()}
    return LabelMap(as_labels(labels, image), image_affine(image), values, texts=as_written)


def as_labels(labels: Path, image: sitk.Image) -> np.ndarray:
    """Return the voxels of a label map, (k, j, i), as integers. Raises VolumeError if a voxel is a fraction."""
    voxels = sitk.GetArrayFromImage(image)
    if voxels.dtype.kind != "f":
        return voxels
    if not np.array_equal(voxels, np.rint(voxels)):
        raise VolumeError(f"{labels}: the voxels contain fractions; give a label map of integers.")
    return voxels.astype(np.int32)


def _check_same_grid(scan: Path, labels: Path, image: sitk.Image) -> None:
    """Raise VolumeError if the label map `image`, read from `labels`, lies on other voxels than the scan, of which only
    the header is read."""
    check_text_header(scan)
    reader = sitk.ImageFileReader()
    reader.SetFileName(str(scan))
    try:
        reader.ReadImageInformation()
    except RuntimeError as error:
        raise VolumeError(
            f"{scan}: the file is damaged or is not an image; copy the file again."
        ) from error
    size = reader.GetSize()[:3]
    distance_mm = corner_distance_mm(image_affine(reader), image_affine(image), size[::-1])
    if size != image.GetSize() or distance_mm > GRIDS_AGREE_MM:
        raise VolumeError(
            f"{labels}: has another grid than {scan.name}; resample the label map to the grid of the scan."
        )


def read_texts(path: Path) -> dict[int, str]:
    """Read the names of labels as they are written: label -> name. Raises PointsError for other content.

    path: a `.labels.json` file, or nnU-Net's dataset.json, whose "labels" are {"liver": 1} or {"1": "liver"}.
    """
    content = _read_json(path)
    try:
        if path.name == "dataset.json":
            # either the key or the value is the name; lists are regions, which have no label of their own
            pairs = [pair for pair in content["labels"].items() if not isinstance(pair[1], list)]
            content = dict(pair if isinstance(pair[1], str) else pair[::-1] for pair in pairs)
        texts = {int(value): text.strip() for value, text in content.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PointsError(
            f'{path}: is not a list of label names; write {{"1": "liver", ...}}.'
        ) from error
    return texts


def read_names(path: Path) -> dict[int, str]:
    """Read a `.labels.json` file: label -> canonical name. Raises PointsError for other content."""
    return canonical_names(read_texts(path), path)


def canonical_names(texts: Mapping[int, str], path: Path) -> dict[int, str]:
    """Return label -> canonical name. Raises PointsError, with the file `path`, if two labels have the same name."""
    names = {value: canonical_name(text) for value, text in texts.items()}
    keys = list(map(spelling_key, names.values()))
    twice = [name for name, key in zip(names.values(), keys, strict=True) if keys.count(key) > 1]
    if twice:
        raise PointsError(
            f"{path}: several labels have the name {twice[0]}; give each structure its own name."
        )
    return names


def _read_landmarks(path: Path, film_to_ras: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Read a file of landmarks. film_to_ras: matrix from the pixels of the film, if the scan is a film."""
    content = _read_json(path)
    try:
        frames = {"RAS": np.eye(4), "LPS": LPS_FROM_RAS}
        if film_to_ras is not None:
            frames["pixels"] = film_to_ras
        to_ras = frames[content.get("frame", "RAS")]
        names = list(content["points"])
        values = [content["points"][name] for name in names]
        if to_ras is film_to_ras:
            values = [[x, y, 0.0] for x, y in values]
        points = np.array(values, dtype=np.float64).reshape(len(names), 3)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise PointsError(
            f'{path}: is not a list of landmarks; write {{"frame": "RAS", "points": {{"carina": [r, a, s], ...}}}}.'
        ) from error
    if content.get("unit", "mm") != "mm" or not np.isfinite(points).all():
        raise PointsError(f"{path}: a coordinate is not a finite number in mm; correct the file.")
    return dict(zip(names, transform_points(to_ras, points), strict=True))


def _read_json(path: Path) -> dict:
    """Read a JSON file. Raises PointsError if it is missing or damaged."""
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise PointsError(
            f"{path}: is missing; create this file with the names of structures or points."
        ) from error
    except (OSError, ValueError) as error:
        raise PointsError(f"{path}: the file is not valid JSON; correct the file.") from error


@dataclass(frozen=True, eq=False)
class Pair:
    """N points that two scans show. names, kinds (e.g. "centre"): N texts. template_ras, target_ras: (N, 3) RAS mm."""

    template: Case
    target: Case
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    template_ras: np.ndarray
    target_ras: np.ndarray


def find_pairs(cases: Iterable[Case], templates: Iterable[Case] = ()) -> list[Pair]:
    """Find all ordered pairs of cases that share points.

    Two cases of one patient share landmarks, and so do two films; CTs of different patients share the centre and
    extremes of structures.
    templates: additional cases, used as templates only.
    """
    cases = list(cases)
    templates = list(templates)
    refuse_twins([case.id for case in (*cases, *templates)])
    pairs = []
    for template, target in [*permutations(cases, 2), *product(templates, cases)]:
        films = is_picture(template.path) and is_picture(target.path)
        as_landmarks = films or template.patient == target.patient
        template_points = _points(template, as_landmarks)
        target_points = _points(target, as_landmarks)
        shared = [key for key in template_points if key in target_points]
        if shared:
            names, kinds = zip(*shared, strict=True)
            template_ras, target_ras = (
                np.array([points[key] for key in shared])
                for points in (template_points, target_points)
            )
            pairs.append(Pair(template, target, names, kinds, template_ras, target_ras))
    return pairs


def _points(case: Case, as_landmarks: bool) -> dict[tuple[str, str], np.ndarray]:
    """Return {(name, kind): (3,) RAS mm} of a case's landmarks or, if not `as_landmarks`, of its structures' points."""
    if as_landmarks:
        return {(name, LANDMARK): point for name, point in sorted(case.landmarks.items())}
    structures = sorted(case.structures.items())
    return {
        (name, kind): point
        for name, points in structures
        for kind, point in zip(KINDS, points, strict=True)
    }
