"""DICOM folders: list their series, and read one CT series as an array with its position in the patient.

SimpleITK (GDCM) reads tags and pixels. Slice order, spacing and tilt are computed from Image Position and Image
Orientation (Patient), DICOM PS3.3 C.7.6.2.1.1, never from file names or instance numbers. If a series shows the same
part of the body several times, each of its phases counts as a series of its own: UID-1, UID-2 ... (`dicom_phases`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import SimpleITK as sitk

from ..errors import VolumeError
from .checks import MIN_SLICES, check_claimed, parse_numbers
from .dicom_geometry import arrange_slices, fill_gaps
from .dicom_lengths import lengths_fit
from .dicom_phases import split_phases
from .film import MODALITIES, read_tags

_CT_STORAGE = b"1.2.840.10008.5.1.4.1.1.2"
_TAGS = {
    "series": "0020|000e",
    "description": "0008|103e",
    "modality": "0008|0060",
    "image_type": "0008|0008",
    "instance": "0008|0018",
    "position": "0020|0032",
    "orientation": "0020|0037",
    "pixel_spacing": "0028|0030",
    "frames": "0028|0008",
    "study": "0020|000d",
    "date": "0008|0020",
    "patient": "0010|0020",
    "acquisition": "0020|0012",
    "temporal": "0020|0100",
    "kernel": "0018|1210",
    "acquired": "0008|0032",
    "created": "0008|0033",
    "number": "0020|0013",
}


@dataclass(frozen=True)
class SeriesInfo:
    """One DICOM series of a folder, or one phase of a series. uid: SeriesInstanceUID; of a phase, with -1, -2 ...

    slices: number of images that have a position and are not localizers. spacing: (i,j,k) mm; None if not known.
    study_uid, date: UID and date (YYYYMMDD) of the study. patient: Patient ID. Texts that are not in the files are "".
    """

    uid: str
    description: str
    modality: str
    slices: int
    spacing: tuple[float, float, float] | None
    study_uid: str
    date: str
    patient: str


DicomSeries = tuple[np.ndarray, np.ndarray, tuple[str, ...], str]
"""Voxels (k,j,i) in HU; ijk_to_ras (4,4), which may be sheared; notes for the user; and the Patient ID or ""."""


@dataclass(frozen=True)
class _Slice:
    """Values in the header of one DICOM file. tags: name in _TAGS -> text. An array is None if the header lacks it."""

    path: Path
    tags: dict[str, str]
    size: tuple[int, int]
    position_lps: np.ndarray | None
    orientation_lps: np.ndarray | None
    pixel_spacing: np.ndarray | None
    frames: int

    @property
    def series(self) -> str:
        return self.tags["series"]

    @property
    def image(self) -> str:
        """The SOP Instance UID, which copies of a file share; its path if the header has none."""
        return self.tags["instance"] or str(self.path)

    @property
    def modality(self) -> str:
        return self.tags["modality"] or "unknown"


def is_dicom_file(path: Path) -> bool:
    """Return True if a file has the suffix .dcm or .ima, or the letters "DICM" at byte 128."""
    if path.suffix.lower() in (".dcm", ".ima"):
        return True
    with path.open("rb") as stream:
        return stream.read(132)[128:] == b"DICM"


def patient_id_of(file: Path) -> str:
    """Return the Patient ID in the header of a DICOM file; "" if the file cannot be read or has no Patient ID."""
    return next((header.tags["patient"] for header in _read_headers([file])[0]), "")


def is_film(path: Path) -> bool:
    """Return True if a file is a DICOM radiograph (modality CR, DX, RG or RF)."""
    if not is_dicom_file(path):
        return False
    slices, _ = _read_headers([path])
    return bool(slices) and slices[0].modality in MODALITIES


def list_series(folder: str | Path) -> list[SeriesInfo]:
    """List the image series of a folder and its subfolders, sorted by the number of slices, the largest first.

    Raises VolumeError when the folder holds no DICOM image, or only damaged images.
    """
    slices, damaged = _scan(Path(folder))
    if not slices:
        raise VolumeError(_damaged(damaged[0]))
    infos = [_info(uid, group) for uid, group in _by_series(slices).items()]
    return sorted(infos, key=lambda info: -info.slices)


def read_series(path: Path, series: str | None = None, files: Sequence[Path] = ()) -> DicomSeries:
    """Read one CT series.

    Args:
        path: a folder, or one file of the series.
        series: SeriesInstanceUID; needed when the folder holds more than one CT series of 16 slices or more.
        files: the slices to read, if they are known; `path` is then used in messages only.

    Raises VolumeError when `series` is needed but not given, or is not in the folder; when the series is not CT; and
    when slices are damaged, when neighbouring slices are missing, or when the slices do not form one stack.
    """
    return _read_stack(_chosen_slices(path, series, files), path)


def group_series(files: Iterable[Path]) -> tuple[dict[str, tuple[list[Path], str]], list[Path]]:
    """Group DICOM files by series.

    Returns {SeriesInstanceUID: (files of the series, reason)}, and a list of the CT files that cannot be read. The
    reason says why the series is not a CT volume; it is "" if the series may be a CT volume.
    """
    slices, damaged = _read_headers(files)
    groups = _by_series(slices)
    series = {
        uid: ([item.path for item in group], _why_unfit(group)) for uid, group in groups.items()
    }
    return series, damaged


def _damaged(path: Path) -> str:
    """Return the error message about a CT slice that cannot be read."""
    return (
        f"{path}: is a damaged or truncated CT slice; copy the series again, or delete this file."
    )


def _read_stack(chosen: list[_Slice], path: Path) -> DicomSeries:
    """Read the pixels of the slices of one series. Copies of a slice, which have its SOP Instance UID, are left out.

    path: for messages.
    """
    unique = _without_copies(chosen)
    stack = arrange_slices(
        np.array([s.position_lps for s in unique]),
        np.array([s.orientation_lps for s in unique]),
        np.array([s.pixel_spacing for s in unique]),
        np.array([s.size for s in unique]),
        str(path),
    )
    voxels = _read_pixels([unique[n].path for n in stack.order])
    voxels = fill_gaps(voxels, stack)
    notes = stack.notes
    copies = len(chosen) - len(unique)
    if copies:
        notes = (f"{copies} duplicate slices were left out", *notes)
    return voxels, stack.ijk_to_ras, notes, unique[0].tags["patient"]


def _without_copies(slices: Iterable[_Slice]) -> list[_Slice]:
    """Return the slices; of the copies of a slice, the last."""
    return list({s.image: s for s in slices}.values())


def describe_series(path: Path, series: str | None = None) -> SeriesInfo:
    """Describe the series that `read_series` would read. Raises the same errors as `read_series`."""
    chosen = _chosen_slices(path, series)
    return _info(chosen[0].series, chosen)


def _chosen_slices(path: Path, series: str | None, files: Sequence[Path] = ()) -> list[_Slice]:
    """Return the slices of the series to read.

    Args:
        path: a folder; or a file, which is one slice of the series.
        series: UID of the series. If it is None, the series of the file is chosen; in a folder, the only CT series.
        files: the slices, if they are known; the folder is then not searched, and the series of the first is chosen.
    """
    if files:
        slices, damaged = _read_headers(files)
    elif path.is_dir():
        slices, damaged = _scan(path)
    else:
        slices, damaged = _scan(path.parent, recursive=False)
    if damaged:
        raise VolumeError(_damaged(damaged[0]))
    if series is None and (files or not path.is_dir()):
        candidates = [s.series for s in slices if files or s.path == path]
        if not candidates:
            raise VolumeError(f"{path}: contains no readable image; give a CT series.")
        series = candidates[0]
    return _choose(_by_series(slices), path, series)


def _scan(folder: Path, recursive: bool = True) -> tuple[list[_Slice], list[Path]]:
    """Return the headers of all DICOM images in a folder, and the paths of the CT images that cannot be read."""
    pattern = "**/*" if recursive else "*"
    files = sorted(path for path in folder.glob(pattern) if path.is_file())
    slices, damaged = _read_headers(filter(is_dicom_file, files))
    if not slices and not damaged:
        raise VolumeError(
            f"{folder}: contains no DICOM image ({len(files)} file{'' if len(files) == 1 else 's'} found);"
            " give a folder with a CT series, or an image file."
        )
    return slices, damaged


def _read_headers(files: Iterable[Path]) -> tuple[list[_Slice], list[Path]]:
    """Return the slices in DICOM files, each phase as a series of its own, and the CT files that cannot be read."""
    slices = []
    damaged = []
    reader = sitk.ImageFileReader()
    reader.SetImageIO("GDCMImageIO")
    for file in files:
        try:
            if not lengths_fit(file):
                raise ValueError("states lengths beyond its end")
            slices.append(_read_header(reader, file))
        except (RuntimeError, ValueError, VolumeError):
            if _is_ct_storage(file):
                damaged.append(file)
    groups = _by_series(slices).values()
    return [item for group in groups for item in _in_phases(group)], damaged


def _in_phases(group: list[_Slice]) -> list[_Slice]:
    """Give the slices of each phase of a series a series of their own. Slices without a position keep their series.

    The phases of series UID become UID-1, UID-2 ... in the natural order of their names, such as "acquisition 9".
    """
    images = _without_copies(_positioned(group))
    if not images:
        return group
    # rounded, so that slices at one position have equal keys
    positions = [(*s.position_lps.round(2), *s.orientation_lps.round(3)) for s in images]
    phases = split_phases(positions, _heights(images), [s.tags for s in images])
    if phases is None:
        return group
    # copies of a slice get its phase
    phase_of_image = {s.image: phase for s, phase in zip(images, phases, strict=True)}
    names = sorted(set(phases), key=_in_natural_order)
    slices = []
    for item in group:
        phase = phase_of_image.get(item.image)
        if phase is not None:
            description = ", ".join(filter(None, [item.tags["description"], phase]))
            series = f"{item.series}-{names.index(phase) + 1}"
            changed = {"series": series, "description": description}
            item = replace(item, tags=item.tags | changed)
        slices.append(item)
    return sorted(slices, key=lambda item: item.series)


def _heights(images: list[_Slice]) -> list[float]:
    """Return the places of images along their normal, mm."""
    normal = np.cross(images[0].orientation_lps[:3], images[0].orientation_lps[3:])
    return [float(s.position_lps @ normal) for s in images]


def _in_natural_order(text: str) -> list[tuple[int, str]]:
    """Return a key that sorts texts by the numbers in them: "acquisition 9" before "acquisition 10"."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]


def _read_header(reader: sitk.ImageFileReader, path: Path) -> _Slice:
    """Read the header of one file. Missing texts become "", missing numbers None.

    An image in colours gets no position: then it is not used.
    """
    reader.SetFileName(str(path))
    reader.ReadImageInformation()
    tags = read_tags(reader, _TAGS)
    scalar = reader.GetNumberOfComponents() == 1
    check_claimed(reader.GetSize(), 2, path.stat().st_size, str(path))
    return _Slice(
        path,
        tags,
        reader.GetSize()[:2],
        parse_numbers(tags["position"], 3, "\\") if scalar else None,
        parse_numbers(tags["orientation"], 6, "\\"),
        parse_numbers(tags["pixel_spacing"], 2, "\\"),
        int(tags["frames"] or 1),
    )


def _is_ct_storage(path: Path) -> bool:
    """Return True if a DICOM file has the SOP class CT Image Storage, has no SOP class, or ends before its SOP class.

    A file without readable SOP class may be a slice of the series. GDCM is not used: it refuses some damaged files.
    """
    with path.open("rb") as stream:
        head = stream.read(1024)
    # tag (0002,0002), VR "UI", the length in two bytes, the value
    start = head.find(b"\x02\x00\x02\x00UI")
    if start < 0:
        return head[128:132] == b"DICM"
    end = start + 8 + int.from_bytes(head[start + 6 : start + 8], "little")
    if end > len(head):
        return len(head) < 1024
    return head[start + 8 : end].rstrip(b"\0 ") == _CT_STORAGE


def _by_series(slices: Iterable[_Slice]) -> dict[str, list[_Slice]]:
    """Return series UID -> slices."""
    groups = defaultdict(list)
    for item in slices:
        groups[item.series].append(item)
    return groups


def _positioned(group: Iterable[_Slice]) -> list[_Slice]:
    """Return the images of a series that have a position, an orientation and pixel spacing and are no localizers."""
    return [
        item
        for item in group
        if item.position_lps is not None
        and item.orientation_lps is not None
        and item.pixel_spacing is not None
        and "LOCALIZER" not in item.tags["image_type"].upper()
    ]


def _why_unfit(group: list[_Slice]) -> str:
    """Return why a series is not a CT volume; "" if it may be one."""
    if group[0].modality != "CT":
        return f"{len(group)} {group[0].modality} images, not a CT"
    count = len(_positioned(group))
    return "" if count >= MIN_SLICES else f"{count} slices with a position, fewer than {MIN_SLICES}"


def _info(uid: str, group: list[_Slice]) -> SeriesInfo:
    """Describe a series. Its spacing along i, j, k is None if there are not two positions along the normal."""
    images = _positioned(group)
    spacing = None
    steps = np.diff(np.unique(np.round(_heights(images), 3))) if images else np.empty(0)
    if steps.size:
        row, column = images[0].pixel_spacing.tolist()  # between rows, between columns
        spacing = (column, row, float(np.median(steps)))
    tags = group[0].tags
    study = (tags["study"], tags["date"], tags["patient"])
    return SeriesInfo(uid, tags["description"], group[0].modality, len(images), spacing, *study)


def _choose(groups: dict[str, list[_Slice]], path: Path, series: str | None) -> list[_Slice]:
    """Return the slices of the series with the UID `series`, or of the only CT series if `series` is None. Raises
    VolumeError if this series does not exist or is not a CT volume. groups: series UID -> slices."""
    if series is not None and series not in groups:
        raise VolumeError(
            f"{path}: contains no series {series}; choose one of {_describe(groups, list(groups))}."
        )
    volumes = [uid for uid, slices in groups.items() if not _why_unfit(slices)]
    if series is None and len(volumes) > 1:
        raise VolumeError(
            f"{path}: contains {len(volumes)} CT series; choose a series with --series UID: "
            f"{_describe(groups, volumes)}."
        )
    if series is not None:
        group = groups[series]
    elif volumes:
        group = groups[volumes[0]]
    else:
        # the error message describes the largest CT series, or the largest series if none is CT
        group = max(groups.values(), key=lambda group: (group[0].modality == "CT", len(group)))
    if group[0].modality != "CT":
        slices = group if series else chain.from_iterable(groups.values())
        kinds = Counter(item.modality for item in slices).most_common()
        kinds_text = ", ".join(f"{count} {kind}" for kind, count in kinds)
        raise VolumeError(f"{path}: contains {kinds_text} images, but no CT series; give a CT.")
    if any(s.frames > 1 for s in group):
        raise VolumeError(
            f"{path}: is a multi-frame (enhanced) DICOM file; convert it to NIfTI, e.g. with dcm2niix."
        )
    images = _positioned(group)
    if len(images) < MIN_SLICES:
        raise VolumeError(
            f"{path}: the CT series has only {len(images)} slices with a position in the patient;"
            f" give a CT with at least {MIN_SLICES} slices."
        )
    return images


def _describe(groups: dict[str, list[_Slice]], uids: Iterable[str]) -> str:
    """List the series `uids` for an error message. groups: series UID -> slices."""
    infos = [_info(uid, groups[uid]) for uid in uids]
    return "; ".join(
        f"{i.uid} ({i.description or 'no description'}, {i.modality}, {i.slices} slices)"
        for i in infos
    )


def _read_pixels(paths: list[Path]) -> np.ndarray:
    """Read slices as an array (k, j, i) in the order of `paths`. GDCM applies the rescale values of each slice."""
    reader = sitk.ImageFileReader()
    reader.SetImageIO("GDCMImageIO")
    planes = []
    for path in paths:
        reader.SetFileName(str(path))
        try:
            plane = sitk.GetArrayFromImage(reader.Execute())
        except RuntimeError as error:
            raise VolumeError(
                f"{path}: the pixels of this slice cannot be read; the file is damaged or truncated, so copy it again."
            ) from error
        plane = plane.reshape(plane.shape[-2:])
        planes.append(plane.astype(np.float32) if plane.dtype.kind == "f" else plane)
    return np.stack(planes)
