"""One study of a follow-up as a DICOM structured report: Comprehensive 3D SR, template TID 1500.

Each lesion is a measurement group (TID 1501) with a Tracking Unique Identifier, which is the same in the reports of all
studies. The place of a lesion and the ends of its axes are 3-D coordinates in the frame of reference of the images.
`sr_reading.read_srs` reads the report back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import AnatomicalEmbeddingError, require
from ..files import atomic_path
from ..scan.dicom import group_series, is_dicom_file
from . import sr_codes as codes
from .lesions import MERGED, Axis, Finding, Lesion, Point, Study
from .record import FollowUp

if TYPE_CHECKING:
    from pydicom import Dataset

_PRODUCT = "AnatomicalEmbedding"
_DEVICE_UID = "2.25.61474311286713206218837262349214873021"  # of this program, wherever it runs
_SERIES_NUMBER = 990
_GEOMETRY = ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing")
# Attributes that may be empty but must exist for a report to copy them (type 2)
_MAY_BE_EMPTY = (
    "PatientID", "PatientName", "PatientBirthDate", "PatientSex", "AccessionNumber", "StudyID", "StudyDate",
    "StudyTime", "ReferringPhysicianName",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class _SourceSeries:
    """Headers of the slices of one series, without pixels."""

    slices: tuple[Dataset, ...]

    @property
    def frame_of_reference(self) -> str:
        return str(self.slices[0].FrameOfReferenceUID)

    def nearest(self, point_ras: Point) -> Dataset:
        """The slice nearest to a place."""
        row, column = np.array(self.slices[0].ImageOrientationPatient, dtype=np.float64).reshape(2, 3)
        origins = np.array([each.ImagePositionPatient for each in self.slices], dtype=np.float64)
        return self.slices[int(np.argmin(np.abs((origins - _lps(point_ras)) @ np.cross(row, column))))]


def _read_source(study: Study, files: str | Path | Iterable[str | Path]) -> _SourceSeries:
    """Read the headers of the series of a study. files: its slices, or a folder that holds them.

    Raises AnatomicalEmbeddingError, naming the study, where the files hold no slices of the study.
    """
    import pydicom

    series, _damaged = group_series(filter(is_dicom_file, _paths(files)))
    placed = {}
    for uid, (paths, _unfit) in series.items():
        headers = [pydicom.dcmread(path, stop_before_pixels=True) for path in paths]
        if slices := [header for header in headers if all(map(header.get, _GEOMETRY))]:
            placed[uid] = slices
    if not placed:
        raise AnatomicalEmbeddingError(
            f"{study.label}: no DICOM slices of it were given (NIfTI, NRRD and multi-frame files cannot be used);"
            " a structured report refers to the DICOM images of its study: load the DICOM series, or export the table"
            " (CSV), the page (HTML) or the record instead."
        )
    uid = study.series_uid or (next(iter(placed)) if len(placed) == 1 else "")
    if uid not in placed:
        problem = f"hold another series than {uid}" if uid else f"hold {len(placed)} series"
        raise AnatomicalEmbeddingError(f"{study.label}: the DICOM files given {problem}; give the study's own series.")
    slices = placed[uid]
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
    return _SourceSeries(tuple(slices))


def _paths(files: str | Path | Iterable[str | Path]) -> list[Path]:
    if not isinstance(files, str | Path):
        return [Path(file) for file in files]
    path = Path(files)
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def write_sr(
    record: FollowUp,
    study_key: str,
    source_files: str | Path | Iterable[str | Path],
    path: str | Path,
) -> tuple[str, ...]:
    """Write the findings of one study as a structured report.

    A place that no person reviewed is left out. The report is marked as unverified, and as partial unless every lesion
    is reviewed.

    Args:
        source_files: the DICOM slices that the lesions were marked in, or a folder that holds them.

    Returns:
        Sentences on findings that the report leaves out.

    Raises:
        AnatomicalEmbeddingError: highdicom is not installed, the files are not the slices of this study, no lesion can
            be reported, or the file cannot be written.
    """
    require("highdicom.sr", "highdicom", "DICOM structured reports need", "followup")
    hd = sys.modules["highdicom"]
    study = record.study(study_key)
    source = _read_source(study, source_files)
    left_out: list[str] = []
    groups, images = [], {}
    for lesion in record.lesions:
        found = lesion.findings.get(study_key)
        if found is None:
            left_out.append(f"{lesion.id}: it is not assessed in {study.label}, so the report leaves it out.")
        elif not found.reviewed:
            left_out.append(f"{lesion.id}: its place in {study.label} is not confirmed, so the report leaves it out.")
        else:
            group = _LesionGroup(hd, record, lesion, found, source, study)
            groups.append(group.content())
            images.update(group.images)
            left_out += group.left_out
    if not groups:
        raise AnatomicalEmbeddingError(
            f"{study.label}: no lesion was confirmed in it, so there is nothing to report; confirm or mark one first."
        )
    findings = [lesion.findings.get(study_key) for lesion in record.lesions]
    is_complete = all(found is not None and found.reviewed for found in findings)
    evidence = [source.slices[0], *(each for each in images.values() if each is not source.slices[0])]
    try:
        document = _document(hd, groups, evidence, is_complete)
        with atomic_path(path) as temporary:
            document.save_as(temporary)
    except OSError as error:
        raise AnatomicalEmbeddingError(f"{path}: cannot be written; check that the folder is writable.") from error
    except (AttributeError, ValueError) as error:
        raise AnatomicalEmbeddingError(
            f"{study.label}: its DICOM images do not make a report ({error}); repair their headers."
        ) from error
    return tuple(left_out)


class _LesionGroup:
    """The measurement group of one lesion. images: slices that it refers to, by UID. left_out: sentences."""

    def __init__(
        self, hd: Any, record: FollowUp, lesion: Lesion, found: Finding, source: _SourceSeries, study: Study
    ) -> None:
        self.hd, self.record, self.lesion, self.found, self.source = hd, record, lesion, found, source
        self.study = study
        self.images: dict[str, Dataset] = {}
        self.left_out: list[str] = []

    def content(self) -> Any:
        sr, lesion, found = self.hd.sr, self.lesion, self.found
        evaluations = [
            sr.QualitativeEvaluation(self._code(codes.STATE), self._code(codes.STATE_CODES[found.state])),
            sr.QualitativeEvaluation(self._code(codes.ROLE), self._code(codes.ROLE_CODES[lesion.target, lesion.nodal])),
        ]
        source_images = None
        if found.point_ras is not None:
            source_images = [sr.SourceImageForMeasurementGroup(*self._image(found.point_ras))]
        group = sr.MeasurementsAndQualitativeEvaluations(
            tracking_identifier=sr.TrackingIdentifier(uid=lesion.tracking_uid, identifier=lesion.label),
            finding_type=self._code(codes.LESION),
            finding_sites=self._site(),
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
        merged_with = found.into if found.state == MERGED else ""
        for name, other in ((codes.MERGED_WITH, merged_with), (codes.SPLIT_FROM, lesion.split_from)):
            if other:
                uid = self.record.lesion(other).tracking_uid
                items.append(sr.UIDRefContentItem(self._code(name), uid, relationship_type=contains))
        return group

    def _measurements(self) -> list[Any]:
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

    def _axis(self, name: codes.Code, axis: Axis, mm: float) -> Any:
        middle = tuple(np.mean(axis, axis=0))
        ends = self.hd.sr.CoordinatesForMeasurement3D("POLYLINE", _lps(axis), self.source.frame_of_reference)
        image = self.hd.sr.SourceImageForMeasurement(*self._image(middle))
        return self.hd.sr.Measurement(
            self._code(name), round(mm, 3), self._code(codes.MM), referenced_images=[image],
            referenced_coordinates=[ends],
        )  # fmt: skip

    def _site(self) -> list[Any] | None:
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

    def _code(self, code: codes.Code) -> Any:
        return self.hd.sr.CodedConcept(*code)


def _document(hd: Any, groups: list, evidence: list[Dataset], is_complete: bool) -> Any:
    sr = hd.sr
    device = sr.ObserverContext(
        sr.CodedConcept("121007", "DCM", "Device"),
        sr.DeviceObserverIdentifyingAttributes(_DEVICE_UID, _PRODUCT, _PRODUCT, _PRODUCT),
    )
    report = sr.MeasurementReport(
        observation_context=sr.ObservationContext(observer_device_context=device),
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
        is_complete=is_complete,
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
