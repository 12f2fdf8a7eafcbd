"""Write the findings of one study as a DICOM structured report: Comprehensive 3D SR, template TID 1500.

Each lesion is a measurement group (TID 1501). A lesion has the same Tracking Unique Identifier in the reports of all
studies. Places and ends of axes are 3-D coordinates in the frame of reference of the images.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..anatomy.codes import site_codes
from ..dicom.source import SourceSeries, load_highdicom, read_source
from ..dicom.sr import make_group, make_report
from ..dicom.sr_items import MM
from ..errors import AnatomicalEmbeddingError
from ..scan.geometry import LPS_FROM_RAS, transform_points
from . import sr_codes as codes
from .lesions import Axis, Finding, Lesion, Study
from .record import FollowUp

if TYPE_CHECKING:
    from pydicom import Dataset

_TITLE = "Lesion follow-up"
_INSTEAD = "export the table (CSV), the page (HTML) or the record instead"


def write_sr(
    record: FollowUp,
    study_key: str,
    source_files: str | Path | Iterable[str | Path],
    path: str | Path,
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
    hd = load_highdicom("followup")
    study = record.study(study_key)
    source = read_source(study.label, source_files, study.series_uid, _INSTEAD)
    report = _Report(hd, record, study, source)
    groups = []
    for lesion in record.lesions:
        finding = lesion.reviewed.get(study_key)
        if finding is not None:
            groups.append(report.group(lesion, finding))
        else:
            report.left_out.append(
                f"{lesion.id}: was not reviewed in {study.label}, so it is not in the report."
            )
    if not groups:
        raise AnatomicalEmbeddingError(
            f"{study.label}: no lesion was reviewed in this study; mark or confirm lesions."
        )
    with source.writing(path) as temporary:
        images = list(report.images.values())
        is_complete = len(groups) == len(record.lesions)
        make_report(hd, images, groups, _TITLE, is_complete).save_as(temporary)
    return tuple(report.left_out)


@dataclass
class _Report:
    """Makes the parts of a structured report about one study.

    images: the slices to which the report refers, by SOP instance UID. left_out: a sentence for each entry that the
    report leaves out.
    """

    hd: Any
    record: FollowUp
    study: Study
    source: SourceSeries
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        header = self.source.slices[0]
        self.images: dict[str, Dataset] = {header.SOPInstanceUID: header}

    def group(self, lesion: Lesion, finding: Finding) -> Any:
        """Make the measurement group of a lesion. finding: of this lesion in the study of the report."""
        site = site_codes(lesion.site)
        if lesion.site and site is None:
            self.left_out.append(
                f"{lesion.id}: its site {lesion.site!r} has no code and is not in the report."
            )
        place = image = None
        if finding.point_ras is not None:
            place = np.array(finding.point_ras)
            image = self._image(place)
        group = make_group(
            self.hd,
            lesion.label,
            lesion.tracking_uid,
            codes.LESION,
            site,
            place,
            image,
            measurements=self._measurements(lesion, finding),
            qualitative_evaluations=[
                self._evaluation(codes.STATE, codes.STATE_CODES[finding.state]),
                self._evaluation(codes.ROLE, codes.ROLE_CODES[lesion.target, lesion.nodal]),
            ],
        )
        if finding.into:
            self._refer(group, codes.MERGED_WITH, finding.into)
        if lesion.split_from:
            self._refer(group, codes.SPLIT_FROM, lesion.split_from)
        return group

    def _evaluation(self, name: codes.Code, value: codes.Code) -> Any:
        return self.hd.sr.QualitativeEvaluation(self._code(name), self._code(value))

    def _refer(self, group: Any, name: codes.Code, lesion_id: str) -> None:
        """Add a reference to another lesion, by its Tracking UID, to a measurement group."""
        sr = self.hd.sr
        uid = self.record.lesion(lesion_id).tracking_uid
        contains = sr.RelationshipTypeValues.CONTAINS
        group[0].ContentSequence.append(
            sr.UIDRefContentItem(self._code(name), uid, relationship_type=contains)
        )

    def _measurements(self, lesion: Lesion, finding: Finding) -> list[Any]:
        """Return the lengths of confirmed axes, with their ends. Axes that are not confirmed are noted as left out."""
        size = finding.size
        if not finding.visible:
            return []
        if size.confirmed:
            return [self._length(codes.AXES[kind], axis) for kind, axis in size.axes.items()]
        if size.axes:
            self.left_out.append(
                f"{lesion.id}: its axes in {self.study.label} are not confirmed,"
                " so the report does not contain these axes."
            )
        return []

    def _length(self, name: codes.Code, axis: Axis) -> Any:
        """Return the length of an axis, mm, with its ends and the slice nearest to its middle."""
        sr = self.hd.sr
        image = self._image(np.mean(axis, axis=0))
        ends_lps = transform_points(LPS_FROM_RAS, np.array(axis))
        return sr.Measurement(
            self._code(name),
            round(math.dist(*axis), 3),
            self._code(MM),
            referenced_images=[
                sr.SourceImageForMeasurement(image.SOPClassUID, image.SOPInstanceUID)
            ],
            referenced_coordinates=[
                sr.CoordinatesForMeasurement3D("POLYLINE", ends_lps, self.source.frame)
            ],
        )

    def _image(self, point_ras: np.ndarray) -> Dataset:
        """Return the header of the slice nearest to a point, (3,) RAS mm."""
        header = self.source.nearest(point_ras)
        self.images[header.SOPInstanceUID] = header
        return header

    def _code(self, code: codes.Code) -> Any:
        """Return a code as an object of highdicom."""
        return self.hd.sr.CodedConcept(*code)
