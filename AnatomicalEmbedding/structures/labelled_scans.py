"""Reads folders of labelled scans as cases, and finds pairs of cases that share points.

Files next to the scan `<id>.nii.gz`, or next to the folder `<id>` of a DICOM series:

* labels, see `label_files`: `<id>.seg.nii.gz` and `<id>.labels.json`, `<id>.seg.nrrd`, or `<id>.seg.dcm`;
* `<id>.landmarks.json` ({"frame": "RAS", "unit": "mm", "points": {"carina": [r, a, s], ...}}): named points.

A film `<id>.png` or `<id>.tif` has landmarks only. With {"frame": "pixels"}, the points are [x, y] in its pixels.

The names of two scans of one patient differ only in the time point at the end: `_t0`, `_tp1`, `_baseline`,
`_followup`, `_followup2`, `_visit1`, `_pre`, `_post`.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import SimpleITK as sitk

from ..errors import PointsError, VolumeError
from ..files import require_folder
from ..scan.film import is_picture
from ..scan.geometry import LPS_FROM_RAS, image_affine, transform_points
from ..scan.image_files import IMAGE_SUFFIXES, display_name, image_suffix, is_label_map
from ..scan.label_map import LabelMap
from ..scan.text_headers import check_text_header
from ..scan.volume import Volume
from .label_files import check_same_grid, has_own_names, read_json, read_labels, resampled
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
        labels: file of the labels, or None.
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
        return _read_labels(self.labels, self.path)

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
    require_folder(folder, "labelled scans")
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
    return [path for path in sorted(folder.iterdir()) if _is_scan(path)]


def _is_scan(path: Path) -> bool:
    """Return whether `list_scans` lists a file or folder."""
    if path.is_dir():
        return path.with_name(path.name + DICOM_LABELS).exists()
    if is_picture(path):
        return path.with_name(f"{path.stem}.landmarks.json").exists()
    return bool(image_suffix(path)) and not is_label_map(path)


def load_case(scan: Path) -> Case | None:
    """Read the labels and landmarks of one scan; None if the scan has neither. Raises the errors of `load_cases`."""
    if is_picture(scan):
        landmarks = scan.with_name(f"{scan.stem}.landmarks.json")
        points = _read_landmarks(landmarks, Volume.read(scan).ijk_to_ras)
        return Case(scan.stem, scan, landmarks=points)
    case_id = display_name(scan)
    suffixes = (*(f".seg{suffix}" for suffix in IMAGE_SUFFIXES), DICOM_LABELS)
    label_files = (scan.with_name(f"{case_id}{suffix}") for suffix in suffixes)
    labels = next(filter(Path.exists, label_files), None)
    landmarks = scan.with_name(f"{case_id}.landmarks.json")
    points = _read_landmarks(landmarks) if landmarks.exists() else {}
    if labels is None:
        return Case(case_id, scan, landmarks=points) if landmarks.exists() else None
    label_map = _read_labels(labels, scan)
    # an image with a list of names must lie on the scan's voxels; other labels were brought there when they were read
    if image_suffix(labels) and not has_own_names(labels):
        _check_same_grid(scan, labels, label_map)
    structures, left_out = find_structures(label_map)
    return Case(case_id, scan, structures, points, left_out, labels)


@lru_cache(maxsize=2)
def _read_labels(labels: Path, scan: Path) -> LabelMap:
    """Read the labels of a scan, on its voxels."""
    label_map = read_labels(labels, lambda: _read_volume(scan))
    return resampled(label_map, _read_volume(scan)) if has_own_names(labels) else label_map


def _check_same_grid(scan: Path, labels: Path, label_map: LabelMap) -> None:
    """Raise VolumeError if the label map in the file `labels` lies on other voxels than the scan, of which only the
    header is read."""
    check_text_header(scan)
    reader = sitk.ImageFileReader()
    reader.SetFileName(str(scan))
    try:
        reader.ReadImageInformation()
    except RuntimeError as error:
        raise VolumeError(
            f"{scan}: the file is damaged or is not an image; copy the file again."
        ) from error
    shape = reader.GetSize()[2::-1]
    check_same_grid(labels, label_map, shape, image_affine(reader), scan.name)


def _read_landmarks(path: Path, film_to_ras: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Read a file of landmarks. film_to_ras: matrix from the pixels of the film, if the scan is a film."""
    content = read_json(path)
    try:
        frames = {"RAS": np.eye(4), "LPS": LPS_FROM_RAS}
        if film_to_ras is not None:
            frames["pixels"] = film_to_ras
        to_ras = frames[content.get("frame", "RAS")]
        named = content["points"]
        values = list(named.values())
        if to_ras is film_to_ras:
            values = [[x, y, 0.0] for x, y in values]
        points = np.array(values, np.float64).reshape(len(named), 3)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise PointsError(
            f'{path}: is not a list of landmarks; write {{"frame": "RAS", "points": {{"carina": [r, a, s], ...}}}}.'
        ) from error
    if content.get("unit", "mm") != "mm" or not np.isfinite(points).all():
        raise PointsError(f"{path}: a coordinate is not a finite number in mm; correct the file.")
    return dict(zip(named, transform_points(to_ras, points), strict=True))


class Pair(NamedTuple):
    """N points that two scans show. names, kinds (e.g. "centre"): N texts. template_ras, target_ras: (N, 3) RAS mm."""

    template: Case
    target: Case
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    template_ras: np.ndarray
    target_ras: np.ndarray


def find_pairs(cases: Sequence[Case], templates: Sequence[Case] = ()) -> list[Pair]:
    """Find all ordered pairs of cases that share points.

    Two cases of one patient share landmarks, and so do two films; CTs of different patients share the centre and
    extremes of structures.
    templates: additional cases, used as templates only.
    """
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
            template_ras = np.array([template_points[key] for key in shared])
            target_ras = np.array([target_points[key] for key in shared])
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
