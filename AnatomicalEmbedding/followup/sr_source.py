"""The DICOM series of a structured report: its headers, and the slice of a place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import AnatomicalEmbeddingError
from ..scan.geometry import LPS_FROM_RAS
from .lesions import Point, Study

if TYPE_CHECKING:
    from pydicom import Dataset

_OUTSIDE_MM = 5.0  # beyond the outermost slices and pixels
# Attributes that may be empty but must exist for a report to copy them (type 2)
_MAY_BE_EMPTY = (
    "PatientID", "PatientName", "PatientBirthDate", "PatientSex", "AccessionNumber", "StudyID", "StudyDate",
    "StudyTime", "ReferringPhysicianName",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class SourceSeries:
    """Headers of one series' slices, without pixels."""

    slices: tuple[Dataset, ...]

    @property
    def frame_of_reference(self) -> str:
        return str(self.slices[0].FrameOfReferenceUID)

    @cached_property
    def _origins(self) -> np.ndarray:
        return np.array([each.ImagePositionPatient for each in self.slices], dtype=np.float64)

    @cached_property
    def _axes(self) -> np.ndarray:
        """(3,3) rows: along a row of pixels, along a column, and across slices; LPS."""
        row, column = np.array(self.slices[0].ImageOrientationPatient, dtype=np.float64).reshape(2, 3)
        return np.stack([row, column, np.cross(row, column)])

    def nearest(self, point_ras: Point) -> Dataset:
        """The slice that a place lies in or nearest to."""
        return self.slices[self._nearest(point_ras)]

    def outside_mm(self, point_ras: Point) -> float:
        """Distance of a place outside the images in mm; 0 inside."""
        number = self._nearest(point_ras)
        header = self.slices[number]
        across, down, away = self._axes @ (_lps(point_ras) - self._origins[number])
        heights = np.sort(self._origins @ self._axes[2])
        step = float(np.max(np.diff(heights))) if len(heights) > 1 else 0.0
        height, width = (
            size * float(mm) for size, mm in zip((header.Rows, header.Columns), header.PixelSpacing, strict=True)
        )
        beyond = (-across, across - width, -down, down - height, abs(away) - step)
        return max(0.0, *map(float, beyond))

    def _nearest(self, point_ras: Point) -> int:
        return int(np.argmin(np.abs((self._origins - _lps(point_ras)) @ self._axes[2])))


def read_source(study: Study, files: str | Path | Iterable[str | Path]) -> SourceSeries:
    """The series of a study. files: its slices, or a folder with it.

    Raises AnatomicalEmbeddingError, naming the study, when there are no files, no DICOM images with a place in the
    patient, several series and none of them the study's, or another study's images.
    """
    slices = _placed_slices(study, _paths(files))
    if not slices:
        raise AnatomicalEmbeddingError(
            f"{study.label}: no DICOM slices of it were given (NIfTI, NRRD and multi-frame files cannot be used);"
            " a structured report refers to the DICOM images of its study: load the DICOM series, or export the table"
            " (CSV), the page (HTML) or the record instead."
        )
    series = {str(each.SeriesInstanceUID) for each in slices}
    wanted = study.series_uid or (series.pop() if len(series) == 1 else "")
    slices = [each for each in slices if each.SeriesInstanceUID == wanted]
    if not slices:
        problem = f"hold another series than {wanted}" if wanted else f"hold {len(series)} series"
        raise AnatomicalEmbeddingError(f"{study.label}: the DICOM files given {problem}; give the study's own series.")
    if study.study_uid and any(each.StudyInstanceUID != study.study_uid for each in slices):
        raise AnatomicalEmbeddingError(f"{study.label}: the DICOM files are of another study; give its own.")
    if "FrameOfReferenceUID" not in slices[0]:
        raise AnatomicalEmbeddingError(
            f"{study.label}: its DICOM images have no frame of reference, so that places in them are undefined;"
            " export the table (CSV) or the page (HTML) instead."
        )
    for keyword in _MAY_BE_EMPTY:
        if keyword not in slices[0]:
            setattr(slices[0], keyword, "")
    return SourceSeries(tuple(slices))


def check_inside(source: SourceSeries, study: Study, label: str, point_ras: Point) -> None:
    """Raise AnatomicalEmbeddingError where a place lies outside the images."""
    outside = source.outside_mm(point_ras)
    if outside > _OUTSIDE_MM:
        raise AnatomicalEmbeddingError(
            f"{label}: lies {outside:.0f} mm outside the DICOM images given for {study.label};"
            " give the series that it was marked in."
        )


def _paths(files: str | Path | Iterable[str | Path]) -> list[Path]:
    if not isinstance(files, str | Path):
        return [Path(file) for file in files]
    path = Path(files)
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _placed_slices(study: Study, paths: Sequence[Path]) -> list[Dataset]:
    """Headers of single CT, MR or PET slices; other files, and images without a place, are skipped."""
    import pydicom

    slices = {}
    for path in paths:
        try:
            header = pydicom.dcmread(path, stop_before_pixels=True)
        except pydicom.errors.InvalidDicomError:
            continue
        except (OSError, ValueError, EOFError) as error:
            raise AnatomicalEmbeddingError(
                f"{path}: cannot be read as DICOM for the report of {study.label} ({error}); copy the series again."
            ) from error
        placed = all(header.get(keyword) for keyword in ("ImagePositionPatient", "ImageOrientationPatient"))
        if placed and header.get("PixelSpacing") and header.get("SeriesInstanceUID") and header.get("SOPInstanceUID"):
            slices[str(header.SOPInstanceUID)] = header
    return list(slices.values())


def _lps(point_ras: Point) -> np.ndarray:
    return LPS_FROM_RAS[:3, :3] @ np.array(point_ras)
