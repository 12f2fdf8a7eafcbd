"""The DICOM images that a result refers to, and the attributes that all results of this program share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import __version__
from ..errors import AnatomicalEmbeddingError, require
from ..files import atomic_path
from ..scan.dicom import describe_series, group_series, is_dicom_file
from ..scan.geometry import LPS_FROM_RAS, transform_points
from ..scan.sources import Source

if TYPE_CHECKING:
    from pydicom import Dataset

PRODUCT = "AnatomicalEmbedding"
# of results, by their modality; by hand: above the numbers that scanners give
_SERIES_NUMBERS = {"SR": 990, "SEG": 991, "REG": 992}
_GEOMETRY = ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing")
# Attributes that a result copies from the images. They must exist, but may be empty (DICOM type 2).
_MAY_BE_EMPTY = (
    *("PatientID", "PatientName", "PatientBirthDate", "PatientSex"),
    *("AccessionNumber", "StudyID", "StudyDate", "StudyTime", "ReferringPhysicianName"),
)
# Other attributes of the images that results need. Nothing else of the images is read, so nothing else is copied.
_NEEDED = """
SOPClassUID SOPInstanceUID StudyInstanceUID SeriesInstanceUID FrameOfReferenceUID PositionReferenceIndicator
Modality ImageType Rows Columns SliceThickness NumberOfFrames InstanceNumber
SpecificCharacterSet StudyDescription IssuerOfPatientID
"""


def load_highdicom(extra: str = "dicom") -> ModuleType:
    """Import highdicom. If it is missing, raises AnatomicalEmbeddingError that names the dependency group `extra`."""
    return require("highdicom", "highdicom", "DICOM results need", extra)


@dataclass(frozen=True, eq=False)
class SourceSeries:
    """The headers of the slices of one DICOM series, without pixels. label: name of the scan, for messages."""

    label: str
    slices: list[Dataset]

    @property
    def frame(self) -> str:
        """UID of the frame of reference."""
        return str(self.slices[0].FrameOfReferenceUID)

    @property
    def study(self) -> str:
        """UID of the study."""
        return str(self.slices[0].StudyInstanceUID)

    def nearest(self, point_ras: np.ndarray) -> Dataset:
        """Return the header of the slice nearest to a point, (3,) RAS mm."""
        orientation = np.array(self.slices[0].ImageOrientationPatient, np.float64)
        row, column = orientation.reshape(2, 3)
        origins = np.array([image.ImagePositionPatient for image in self.slices], np.float64)
        # along the normal of the slices, mm
        away = (origins - transform_points(LPS_FROM_RAS, point_ras)) @ np.cross(row, column)
        return self.slices[int(np.argmin(np.abs(away)))]

    @contextmanager
    def writing(self, path: str | Path) -> Iterator[Path]:
        """Yield a temporary path for a result. Problems of the result become AnatomicalEmbeddingError."""
        try:
            with atomic_path(path) as temporary:
                yield temporary
        except OSError as error:
            raise AnatomicalEmbeddingError(
                f"{path}: cannot be written; check that the folder is writable and not full."
            ) from error
        except (AttributeError, TypeError, ValueError) as error:
            raise AnatomicalEmbeddingError(
                f"{self.label}: the headers of its DICOM images are not valid ({error}); repair the headers."
            ) from error


def read_source(
    label: str,
    files: str | Path | Iterable[str | Path],
    series_uid: str = "",
    instead: str = "leave out --dicom",
) -> SourceSeries:
    """Read the headers of the DICOM slices of a scan.

    Args:
        label: name of the scan, for messages.
        files: the slices, or folders with the slices.
        series_uid: UID of the series; "" if the files contain one series.
        instead: a remedy for a scan that is not DICOM, for messages.

    Raises:
        AnatomicalEmbeddingError: the files contain no slices of this scan, or the headers do not state where the slices
            lie in the patient.
    """
    paths = [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]
    usable = _usable_slices(paths)
    if not usable:
        raise AnatomicalEmbeddingError(
            f"{label}: no DICOM slices of this study were given (NIfTI, NRRD, multi-frame files cannot be used)."
            f" A DICOM result refers to the DICOM images of its study; give the DICOM series, or {instead}."
        )
    uid = series_uid
    if not uid and len(usable) == 1:
        (uid,) = usable
    # UID-1, UID-2 are phases of a series; the slices of one phase alone are a whole series
    if uid not in usable:
        uid = uid.partition("-")[0]
    if uid not in usable:
        problem = f"are not of the series {uid}" if uid else f"are of {len(usable)} series"
        raise AnatomicalEmbeddingError(
            f"{label}: the DICOM files {problem}; give the slices of this study."
        )
    slices = usable[uid]
    if "FrameOfReferenceUID" not in slices[0]:
        raise AnatomicalEmbeddingError(
            f"{label}: its DICOM images have no Frame of Reference UID, so a report cannot refer to places in"
            f" these images; {instead}."
        )
    for keyword in _MAY_BE_EMPTY:
        if keyword not in slices[0]:
            setattr(slices[0], keyword, "")
    for image in slices:  # highdicom reads the thickness, which headers may leave empty
        image.SliceThickness = image.get("SliceThickness") or image.PixelSpacing[0]
    return SourceSeries(label, slices)


def _usable_slices(paths: Iterable[Path]) -> dict[str, list[Dataset]]:
    """Read the headers of the slices that state their place in the patient. Returns them by the UID of the series.

    paths: files, and folders that are searched.
    """
    pydicom = require("pydicom", "pydicom", "DICOM results need", "dicom")
    keywords = [*_MAY_BE_EMPTY, *_GEOMETRY, *_NEEDED.split()]
    all_files = chain.from_iterable(
        sorted(path.rglob("*")) if path.is_dir() else [path] for path in paths
    )
    series, _damaged = group_series(
        path for path in all_files if path.is_file() and is_dicom_file(path)
    )
    usable = {}
    for uid, (slice_paths, _unfit) in series.items():
        slices = {}  # by UID, so that a copy counts once
        for path in slice_paths:
            header = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=keywords)
            has_place = all(map(header.get, _GEOMETRY)) and "NumberOfFrames" not in header
            if has_place and "LOCALIZER" not in header.get("ImageType", ()):
                slices[header.SOPInstanceUID] = header
        if slices:
            usable[uid] = list(slices.values())
    return usable


def source_at(path: Path, series_uid: str | None = None) -> SourceSeries:
    """Read the headers of the slices of a DICOM folder, or of the series of one DICOM file.

    Another file, such as NIfTI, is refused by `read_source`, as are damaged slices.

    series_uid: UID of the series; None if the folder contains one CT series.
    """
    if not path.is_dir() and not is_dicom_file(path):
        return read_source(str(path), path)
    files = path if path.is_dir() else sorted(path.parent.iterdir())
    return read_source(str(path), files, describe_series(path, series_uid).uid)


def source_of(scan: Source) -> SourceSeries:
    """Read the headers of the slices of a scan that was found in a folder. Errors: see `read_source`."""
    if not scan.files:
        return source_at(Path(scan.path))
    return read_source(scan.label, [Path(scan.path, name) for name in scan.files], scan.series)


def result_attributes(hd: ModuleType, modality: str, description: str) -> dict[str, Any]:
    """Return the arguments that the constructors of highdicom's objects share.

    Args:
        hd: the module highdicom.
        modality: of the result: SR, SEG or REG.
        description: description of its series.
    """
    return {
        "series_instance_uid": hd.UID(),
        "series_number": _SERIES_NUMBERS[modality],
        "sop_instance_uid": hd.UID(),
        "instance_number": 1,
        "manufacturer": PRODUCT,
        "manufacturer_model_name": PRODUCT,
        "software_versions": __version__,
        "device_serial_number": "1",
        "series_description": description,
    }
