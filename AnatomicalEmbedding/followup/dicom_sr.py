"""One study of a follow-up as a DICOM structured report: Comprehensive 3D SR, template TID 1500.

Each lesion is a measurement group (TID 1501) with its Tracking Unique Identifier, which is the same in the reports of
all studies; its place and the ends of its axes are 3-D coordinates in the frame of reference of the images.
`sr_reading.read_srs` reads it back.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import AnatomicalEmbeddingError, require
from ..files import atomic_path
from . import sr_codes as codes
from .lesions import MERGED, PROPOSED, Axis, Finding, Lesion, Point, Study
from .record import FollowUp

if TYPE_CHECKING:
    import highdicom
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


_PRODUCT = "AnatomicalEmbedding"
_DEVICE_UID = "2.25.61474311286713206218837262349214873021"  # of this program, wherever it runs
_SERIES_NUMBER = 990


def import_highdicom():
    """highdicom, or AnatomicalEmbeddingError where it is not installed."""
    require("highdicom.sr", "highdicom", "DICOM structured reports need", "followup")
    return sys.modules["highdicom"]


def write_sr(
    record: FollowUp,
    study_key: str,
    source_files: str | Path | Iterable[str | Path],
    path: str | Path,
    include_unconfirmed: bool = False,
    observer: str = "",
) -> tuple[str, ...]:
    """Write the lesions' findings in one study; returns sentences on what was left out.

    source_files: the DICOM slices that the lesions were marked in, or a folder with them. include_unconfirmed: also
    report unreviewed places, without sizes, flagged UNCONFIRMED. observer: the reader, "Family^Given". The report is
    always marked unverified and preliminary, and partial unless every lesion is reviewed.

    Raises AnatomicalEmbeddingError when highdicom is not installed, the study has no DICOM images or other ones, a
    lesion lies outside them, nothing can be reported, or the file cannot be written.
    """
    hd = import_highdicom()
    study = record.study(study_key)
    source = read_source(study, source_files)
    left_out: list[str] = []
    groups, images = [], {}
    for lesion in record.lesions:
        found = lesion.findings.get(study_key)
        if found is None:
            left_out.append(f"{lesion.id}: it is not assessed in {study.label}, so the report leaves it out.")
        elif not found.reviewed and not include_unconfirmed:
            left_out.append(f"{lesion.id}: its place in {study.label} is not confirmed, so the report leaves it out.")
        else:
            _check_uid(lesion)
            if found.point_ras is not None:
                check_inside(source, study, lesion.id, found.point_ras)
            group = _Group(hd, record, lesion, found, source, study)
            groups.append(group.written())
            images.update(group.images)
            left_out += group.left_out
    if not groups:
        raise AnatomicalEmbeddingError(
            f"{study.label}: no lesion was confirmed in it, so there is nothing to report; confirm or mark one first."
        )
    reviewed = all(
        (found := lesion.findings.get(study_key)) is not None and found.reviewed for lesion in record.lesions
    )
    evidence = [source.slices[0], *(each for each in images.values() if each is not source.slices[0])]
    try:
        document = _document(hd, groups, evidence, reviewed, observer)
        with atomic_path(path) as temporary:
            document.save_as(temporary)
    except OSError as error:
        raise AnatomicalEmbeddingError(f"{path}: cannot be written; check that the folder is writable.") from error
    except (AttributeError, ValueError) as error:
        raise AnatomicalEmbeddingError(
            f"{study.label}: its DICOM images do not make a report ({error}); repair their headers."
        ) from error
    return tuple(left_out)


def _check_uid(lesion: Lesion) -> None:
    uid = lesion.tracking_uid
    if len(uid) > 64 or not re.fullmatch(r"[0-9]+(\.[0-9]+)*", uid):
        raise AnatomicalEmbeddingError(
            f"{lesion.id}: its tracking UID {uid!r} is not a DICOM UID (numbers and points, 64 characters);"
            " correct it in the record."
        )


class _Group:
    """The measurement group of one lesion. images: slices it refers to, by their UIDs. left_out: sentences."""

    def __init__(
        self, hd: highdicom, record: FollowUp, lesion: Lesion, found: Finding, source: SourceSeries, study: Study
    ) -> None:
        self.hd, self.record, self.lesion, self.found, self.source = hd, record, lesion, found, source
        self.study = study
        self.images: dict[str, Dataset] = {}
        self.left_out: list[str] = []

    def written(self) -> highdicom.sr.MeasurementsAndQualitativeEvaluations:
        sr, lesion, found = self.hd.sr, self.lesion, self.found
        evaluations = [
            sr.QualitativeEvaluation(self._code(codes.STATE), self._code(codes.STATE_CODES[found.state])),
            sr.QualitativeEvaluation(self._code(codes.ROLE), self._code(codes.ROLE_CODES[lesion.target, lesion.nodal])),
        ]
        source_images = None
        if found.point_ras is not None:
            source_images = [sr.SourceImageForMeasurementGroup(*self._image(found.point_ras))]
        group = sr.MeasurementsAndQualitativeEvaluations(
            tracking_identifier=sr.TrackingIdentifier(uid=lesion.tracking_uid, identifier=self._label()),
            finding_type=self._code(codes.LESION),
            finding_sites=self._site(),
            algorithm_id=sr.AlgorithmIdentification(_PRODUCT, _version()) if found.state == PROPOSED else None,
            measurements=self._measurements(),
            qualitative_evaluations=evaluations,
            source_images=source_images,
        )
        items = group[0].ContentSequence
        contains = sr.RelationshipTypeValues.CONTAINS
        if found.point_ras is not None:
            place = sr.Scoord3DContentItem(
                self._code(codes.CENTER), "POINT", _lps([found.point_ras]), self.source.frame_of_reference,
                relationship_type=contains,
            )  # fmt: skip
            items.append(place)
        for name, other in ((codes.MERGED_WITH, found.into if found.state == MERGED else ""),
                            (codes.SPLIT_FROM, lesion.split_from)):  # fmt: skip
            if other:
                uid = self.record.lesion(other).tracking_uid
                items.append(sr.UIDRefContentItem(self._code(name), uid, relationship_type=contains))
        return group

    def _label(self) -> str:
        """The lesion's label, with a flag for readers without our codes."""
        return f"{self.lesion.label}{codes.UNCONFIRMED}" if self.found.state == PROPOSED else self.lesion.label

    def _measurements(self) -> list[highdicom.sr.Measurement]:
        size = self.found.size
        drawn = [(codes.LONG_AXIS, size.long_axis, size.long_mm), (codes.SHORT_AXIS, size.short_axis, size.short_mm)]
        if not (self.found.visible and size.confirmed):
            if self.found.visible and any(axis is not None for _, axis, _ in drawn):
                self.left_out.append(
                    f"{self.lesion.id}: its axes in {self.study.label} are not confirmed, so they are left out."
                )
            return []
        written = [self._axis(name, axis, mm) for name, axis, mm in drawn if axis is not None]
        if size.volume_ml is not None:
            name, unit = self._code(codes.VOLUME), self._code(codes.ML)
            written.append(self.hd.sr.Measurement(name, round(size.volume_ml, 4), unit))
        return written

    def _axis(self, name: codes.Code, axis: Axis, mm: float) -> highdicom.sr.Measurement:
        middle = tuple(np.mean(axis, axis=0))
        ends = self.hd.sr.CoordinatesForMeasurement3D("POLYLINE", _lps(axis), self.source.frame_of_reference)
        image = self.hd.sr.SourceImageForMeasurement(*self._image(middle))
        return self.hd.sr.Measurement(
            self._code(name), round(mm, 3), self._code(codes.MM), referenced_images=[image],
            referenced_coordinates=[ends],
        )  # fmt: skip

    def _site(self) -> list[highdicom.sr.FindingSite] | None:
        if not self.lesion.site:
            return None
        found = codes.site_codes(self.lesion.site)
        if found is None:
            self.left_out.append(f"{self.lesion.id}: its site {self.lesion.site!r} has no code; it is left out.")
            return None
        organ, side = found
        return [self.hd.sr.FindingSite(self._code(organ), None if side is None else self._code(side))]

    def _image(self, point_ras: Point) -> tuple[str, str]:
        header = self.source.nearest(point_ras)
        self.images[header.SOPInstanceUID] = header
        return header.SOPClassUID, header.SOPInstanceUID

    def _code(self, code: codes.Code) -> highdicom.sr.CodedConcept:
        value, scheme, meaning = code
        return self.hd.sr.CodedConcept(value, scheme, meaning)


def _document(
    hd: highdicom, groups: list, evidence: list[Dataset], complete: bool, observer: str
) -> highdicom.sr.Comprehensive3DSR:
    sr = hd.sr
    device = sr.ObserverContext(
        sr.CodedConcept("121007", "DCM", "Device"),
        sr.DeviceObserverIdentifyingAttributes(_DEVICE_UID, _PRODUCT, _PRODUCT, _PRODUCT),
    )
    person = None
    if observer:
        name = observer if "^" in observer else f"{observer}^"
        person = sr.ObserverContext(
            sr.CodedConcept("121006", "DCM", "Person"), sr.PersonObserverIdentifyingAttributes(name)
        )
    report = sr.MeasurementReport(
        observation_context=sr.ObservationContext(person, device),
        procedure_reported=sr.CodedConcept("25045-6", "LN", "CT unspecified body region"),
        imaging_measurements=groups,
        title=sr.CodedConcept("126000", "DCM", "Imaging Measurement Report"),
    )
    document = sr.Comprehensive3DSR(
        evidence=evidence, content=report[0], series_instance_uid=hd.UID(), series_number=_SERIES_NUMBER,
        sop_instance_uid=hd.UID(), instance_number=1, manufacturer=_PRODUCT, manufacturer_model_name=_PRODUCT,
        software_versions=_version(), device_serial_number="1", series_description="Lesion follow-up",
        coding_schemes=[
            hd.coding_schemes.CodingSchemeIdentificationItem(
                codes.SCHEME, name=_PRODUCT, responsible_organization=_PRODUCT
            )
        ],
        is_complete=complete,
    )  # fmt: skip
    document.SpecificCharacterSet = "ISO_IR 192"  # UTF-8: names of lesions may be in any language
    return document


def _lps(ras: Iterable) -> np.ndarray:
    """LPS mm of one point or several."""
    return np.array(list(ras), dtype=np.float64) * (-1, -1, 1)


def _version() -> str:
    try:
        return metadata.version(_PRODUCT)
    except metadata.PackageNotFoundError:  # run from a source folder, as inside an extension
        return "unknown"
