"""Write the findings of one study as a DICOM structured report: Comprehensive 3D SR, template TID 1500.

Each lesion is a measurement group (TID 1501). A lesion has the same Tracking Unique Identifier in the reports of all
studies. Places and ends of axes are 3-D coordinates in the frame of reference of the images. The function
`sr_reading.read_srs` reads such reports.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import __version__
from ..errors import AnatomicalEmbeddingError, require
from ..files import atomic_path
from ..scan.dicom import group_series, is_dicom_file
from . import sr_codes as codes
from .lesions import Finding, Lesion, Study
from .record import FollowUp

if TYPE_CHECKING:
    from pydicom import Dataset

_PRODUCT = "AnatomicalEmbedding"
_DEVICE_UID = "2.25.61474311286713206218837262349214873021"  # identifies this program; the same on every machine
_SERIES_NUMBER = 990
_GEOMETRY = ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing")
# Attributes that a report copies from the images. They must exist, but may be empty (DICOM type 2).
_MAY_BE_EMPTY = (
    "PatientID", "PatientName", "PatientBirthDate", "PatientSex", "AccessionNumber", "StudyID", "StudyDate",
    "StudyTime", "ReferringPhysicianName",
)  # fmt: skip


def _read_source(study: Study, files: str | Path | Iterable[str | Path]) -> list[Dataset]:
    """Return the headers of the slices of a study, read without pixels. files: the slices, or folders with the slices.

    Raises AnatomicalEmbeddingError, which names the study, if the files contain no slices of this study, or if the
    headers do not state where the slices lie in the patient.
    """
    import pydicom

    paths = [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]
    every = chain.from_iterable(sorted(path.rglob("*")) if path.is_dir() else [path] for path in paths)
    series, _damaged = group_series(path for path in every if path.is_file() and is_dicom_file(path))
    placed: dict[str, list[Dataset]] = {}
    for uid, (slice_paths, _unfit) in series.items():
        headers: list[Dataset] = [pydicom.dcmread(path, stop_before_pixels=True) for path in slice_paths]
        if slices := [header for header in headers if all(map(header.get, _GEOMETRY))]:
            placed[uid] = slices
    if not placed:
        raise AnatomicalEmbeddingError(
            f"{study.label}: no DICOM slices of this study were given (NIfTI, NRRD, multi-frame files cannot be used)."
            " A structured report refers to the DICOM images of its study; load the DICOM series, or export the table"
            " (CSV), the page (HTML) or the record instead."
        )
    uid = study.series_uid or (next(iter(placed)) if len(placed) == 1 else "")
    if uid not in placed:
        problem = f"are not of the series {uid}" if uid else f"are of {len(placed)} series"
        raise AnatomicalEmbeddingError(f"{study.label}: the DICOM files {problem}; give the slices of this study.")
    slices = placed[uid]
    if "FrameOfReferenceUID" not in slices[0]:
        raise AnatomicalEmbeddingError(
            f"{study.label}: its DICOM images have no Frame of Reference UID, so a report cannot refer to places in"
            " these images; export the table (CSV) or the page (HTML) instead."
        )
    for keyword in _MAY_BE_EMPTY:
        if keyword not in slices[0]:
            setattr(slices[0], keyword, "")
    return slices


def write_sr(
    record: FollowUp, study_key: str, source_files: str | Path | Iterable[str | Path], path: str | Path
) -> tuple[str, ...]:
    """Write the findings of one study as a structured report.

    Findings that no person has reviewed are left out. The report is marked as unverified. It is marked as complete only
    if it contains all lesions of the record.

    Args:
        study_key: key of the study.
        source_files: the DICOM slices in which the lesions were marked, or a folder that contains the slices.

    Returns:
        Sentences about entries that the report leaves out.

    Raises:
        AnatomicalEmbeddingError: highdicom is not installed, the files are not the slices of this study, no lesion can
            be reported, or the file cannot be written.
    """
    require("highdicom.sr", "highdicom", "DICOM structured reports need", "followup")
    study = record.study(study_key)
    source = _read_source(study, source_files)
    report = _Report(sys.modules["highdicom"], record, study, source)
    groups = []
    for lesion in record.lesions:
        found = lesion.findings.get(study_key)
        if found is not None and found.reviewed:
            groups.append(report.group(lesion, found))
        else:
            report.left_out.append(f"{lesion.id}: was not reviewed in {study.label}, so it is not in the report.")
    if not groups:
        raise AnatomicalEmbeddingError(f"{study.label}: no lesion was reviewed in this study; mark or confirm lesions.")
    try:
        document = report.document(groups, is_complete=len(groups) == len(record.lesions))
        with atomic_path(path) as temporary:
            document.save_as(temporary)
    except OSError as error:
        raise AnatomicalEmbeddingError(f"{path}: cannot be written; check that the folder is writable.") from error
    except (AttributeError, ValueError) as error:
        raise AnatomicalEmbeddingError(
            f"{study.label}: the headers of its DICOM images are not valid ({error}); repair the headers."
        ) from error
    return tuple(report.left_out)


class _Report:
    """Makes the parts of a structured report about one study.

    frame: UID of the slices' frame of reference. images: the slices to which the report refers, by SOP instance UID.
    left_out: a sentence for each entry that the report leaves out.
    """

    def __init__(self, hd: Any, record: FollowUp, study: Study, source: list[Dataset]) -> None:
        self.hd, self.record, self.study, self.source = hd, record, study, source
        self.frame = str(source[0].FrameOfReferenceUID)
        self.images: dict[str, Dataset] = {source[0].SOPInstanceUID: source[0]}
        self.left_out: list[str] = []

    def group(self, lesion: Lesion, found: Finding) -> Any:
        """Make the measurement group of a lesion. found: the finding of this lesion in the study of the report."""
        sr, code, place = self.hd.sr, self._code, found.point_ras
        group = sr.MeasurementsAndQualitativeEvaluations(
            tracking_identifier=sr.TrackingIdentifier(uid=lesion.tracking_uid, identifier=lesion.label),
            finding_type=code(codes.LESION),
            finding_sites=self._site(lesion),
            measurements=self._measurements(lesion, found),
            qualitative_evaluations=[
                sr.QualitativeEvaluation(code(codes.STATE), code(codes.STATE_CODES[found.state])),
                sr.QualitativeEvaluation(code(codes.ROLE), code(codes.ROLE_CODES[lesion.target, lesion.nodal])),
            ],
            source_images=None if place is None else [sr.SourceImageForMeasurementGroup(*self._image(place))],
        )
        items, below = group[0].ContentSequence, {"relationship_type": sr.RelationshipTypeValues.CONTAINS}
        if place is not None:
            items.append(sr.Scoord3DContentItem(code(codes.CENTER), "POINT", _lps([place]), self.frame, **below))
        for name, other in ((codes.MERGED_WITH, found.into), (codes.SPLIT_FROM, lesion.split_from)):
            if other:
                items.append(sr.UIDRefContentItem(code(name), self.record.lesion(other).tracking_uid, **below))
        return group

    def _measurements(self, lesion: Lesion, found: Finding) -> list[Any]:
        sr, code, size = self.hd.sr, self._code, found.size
        if not (found.visible and size.confirmed):
            if found.visible and size.axes:
                axes = f"its axes in {self.study.label} are not confirmed"
                self.left_out.append(f"{lesion.id}: {axes}, so the report does not contain these axes.")
            return []
        written = []
        for kind, axis in size.axes.items():
            image = [sr.SourceImageForMeasurement(*self._image(np.mean(axis, axis=0)))]
            ends = [sr.CoordinatesForMeasurement3D("POLYLINE", _lps(axis), self.frame)]
            name, length_mm = code(codes.AXES[kind]), round(math.dist(*axis), 3)
            written.append(
                sr.Measurement(name, length_mm, code(codes.MM), referenced_images=image, referenced_coordinates=ends)
            )
        if size.volume_ml is not None:
            written.append(sr.Measurement(code(codes.VOLUME), round(size.volume_ml, 4), code(codes.ML)))
        return written

    def _site(self, lesion: Lesion) -> list[Any] | None:
        found = codes.site_codes(lesion.site)
        if found is None:
            if lesion.site:
                self.left_out.append(f"{lesion.id}: its site {lesion.site!r} has no code and is not in the report.")
            return None
        organ, side = found
        return [self.hd.sr.FindingSite(self._code(organ), None if side is None else self._code(side))]

    def _image(self, point_ras: Iterable[float]) -> tuple[str, str]:
        """Return the SOP class UID and the SOP instance UID of the slice nearest to a point, (3,) RAS mm."""
        row, column = np.array(self.source[0].ImageOrientationPatient, dtype=np.float64).reshape(2, 3)
        origins = np.array([each.ImagePositionPatient for each in self.source], dtype=np.float64)
        header = self.source[int(np.argmin(np.abs((origins - _lps(point_ras)) @ np.cross(row, column))))]
        self.images[header.SOPInstanceUID] = header
        return header.SOPClassUID, header.SOPInstanceUID

    def _code(self, code: codes.Code) -> Any:
        return self.hd.sr.CodedConcept(*code)

    def document(self, groups: list, is_complete: bool) -> Any:
        """Make the whole report from its measurement groups."""
        sr, uid = self.hd.sr, self.hd.UID
        device = sr.DeviceObserverIdentifyingAttributes(_DEVICE_UID, _PRODUCT, _PRODUCT, _PRODUCT)
        observer = sr.ObserverContext(self._code(("121007", "DCM", "Device")), device)
        report = sr.MeasurementReport(
            observation_context=sr.ObservationContext(observer_device_context=observer),
            procedure_reported=self._code(("25045-6", "LN", "CT unspecified body region")),
            imaging_measurements=groups,
            title=self._code(("126000", "DCM", "Imaging Measurement Report")),
        )
        scheme = self.hd.coding_schemes.CodingSchemeIdentificationItem(
            codes.SCHEME, name=_PRODUCT, responsible_organization=_PRODUCT
        )
        document = sr.Comprehensive3DSR(
            evidence=list(self.images.values()), content=report[0], series_instance_uid=uid(),
            series_number=_SERIES_NUMBER, sop_instance_uid=uid(), instance_number=1, manufacturer=_PRODUCT,
            manufacturer_model_name=_PRODUCT, software_versions=__version__, device_serial_number="1",
            series_description="Lesion follow-up", coding_schemes=[scheme], is_complete=is_complete,
        )  # fmt: skip
        document.SpecificCharacterSet = "ISO_IR 192"  # UTF-8: names of lesions may be in any language
        return document


def _lps(ras: Iterable) -> np.ndarray:
    return np.array(list(ras), dtype=np.float64) * (-1, -1, 1)
