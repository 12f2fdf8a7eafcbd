"""Reading structured reports: the lesions of all reports of a patient, identified by Tracking Unique Identifier.

Reads files of `dicom_sr.write_sr`, and measurement groups (TID 1410, 1411, 1501) of other programs that have a
tracking identifier and coordinates in the patient (SCOORD3D).
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AnatomicalEmbeddingError, require
from . import sr_codes as codes
from .lesions import (
    CONFIRMED,
    MARKED,
    MERGED,
    MOVED,
    NO_SIZE,
    WITH_PLACE,
    Axis,
    Finding,
    Lesion,
    Measurement,
    Point,
    Study,
)
from .merge_records import joined
from .record import FollowUp
from .study_inputs import date_of

if TYPE_CHECKING:
    from pydicom import Dataset

_Name = tuple[str, str]
_GROUP: _Name = ("125007", "DCM")
_IDENTIFIER: _Name = ("112039", "DCM")
_TRACKING_UID: _Name = ("112040", "DCM")
_FINDING_SITE: _Name = ("363698007", "SCT")
_LATERALITY: _Name = ("272741003", "SCT")
_OLD_SCHEME = {  # SNOMED RT, as older programs name it
    ("G-C0E3", "SRT"): _FINDING_SITE, ("G-C171", "SRT"): _LATERALITY,
    ("G-A185", "SRT"): codes.LONG_AXIS[:2], ("G-A186", "SRT"): codes.SHORT_AXIS[:2],
}  # fmt: skip
_ML = {"mL": 1.0, "ml": 1.0, "cm3": 1.0, "mm3": 0.001}
_STATES = {code[0]: state for state, code in codes.STATE_CODES.items()}
_ROLES = {code[0]: role for role, code in codes.ROLE_CODES.items()}
# "L1 dome" is ours; in "Lesion 1" the first word identifies nothing.
_ID_AND_NAME = re.compile(r"(?:([A-Za-z]{1,2}\d+)(?:\s+|$))?(.*)", re.DOTALL)


@dataclass(frozen=True)
class _Report:
    """One file. record: its lesions; merged and split ones refer to others by Tracking UID."""

    path: Path
    patient: str
    written: str
    record: FollowUp


def read_srs(paths: Iterable[str | Path]) -> FollowUp:
    """The studies and lesions of one patient's reports. Of two reports on one study the later counts.

    Places and axes are RAS mm; measurements count as confirmed. A study's key is the UID of the images' series. Raises
    AnatomicalEmbeddingError, naming the file, when it is missing, no structured report, holds no lesion with a tracking
    identifier, or the reports are of several patients.
    """
    reports = sorted((_read(Path(path)) for path in paths), key=lambda report: report.written)
    patients = {report.patient: report.path for report in reports if report.patient}
    if len(patients) > 1:
        names = " and ".join(str(path) for path in list(patients.values())[:2])
        raise AnatomicalEmbeddingError(f"{names}: are reports of different patients; give those of one.")
    return _with_ids(reduce(joined, (report.record for report in reports), FollowUp()))


def _read(path: Path) -> _Report:
    document = _opened(path)
    try:
        study = _study(document)
        lesions = [_lesion(group, study.key) for group in _groups(document)]
        found = FollowUp((study,), tuple(_numbered(lesion for lesion in lesions if lesion is not None)))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise AnatomicalEmbeddingError(f"{path}: is a damaged structured report ({error}); export it again.") from error
    if not found.lesions:
        raise AnatomicalEmbeddingError(
            f"{path}: holds no lesion with a tracking identifier and a place in the patient;"
            " give a report of lesions (TID 1500 with 3-D coordinates)."
        )
    written = f"{document.get('ContentDate', '')}{document.get('ContentTime', '')}"
    return _Report(path, str(document.get("PatientID", "")), written, found)


def _opened(path: Path) -> Dataset:
    pydicom = require("pydicom", "pydicom", "DICOM structured reports need", "followup")
    try:
        document = pydicom.dcmread(_Whole(path.read_bytes()))
        for _ in document.iterall():  # pydicom reads values at first use
            pass
    except FileNotFoundError as error:
        raise AnatomicalEmbeddingError(f"{path}: no such file; check the path.") from error
    except Exception as error:  # pydicom raises many kinds for damaged files
        raise AnatomicalEmbeddingError(
            f"{path}: cannot be read as DICOM, or is cut short; give a structured report."
        ) from error
    if document.get("Modality") != "SR" or "ContentSequence" not in document:
        raise AnatomicalEmbeddingError(f"{path}: is DICOM but no structured report; give a file of modality SR.")
    return document


class _Whole(io.BytesIO):
    """A file that must not end within a value, for which pydicom would only warn and return some of the lesions."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if size is not None and 0 < len(data) < size:
            raise OSError("the file ends early")
        return data


def _study(document: Dataset) -> Study:
    """The study of the images that the report refers to; the report's own where it names none."""
    evidence = [
        (str(study.StudyInstanceUID), str(series.SeriesInstanceUID))
        for study in document.get("CurrentRequestedProcedureEvidenceSequence") or ()
        for series in study.get("ReferencedSeriesSequence") or ()
    ]
    study_uid, series_uid = evidence[0] if evidence else (str(document.StudyInstanceUID), "")
    day = str(document.get("StudyDate") or "")
    return Study(
        key=series_uid or study_uid,
        name=str(document.get("StudyDescription") or "") or "DICOM study",
        date=date_of(day),
        study_uid=study_uid,
        series_uid=series_uid,
    )


# -- one measurement group ---------------------------------------------------------------------------------------------


def _lesion(group: Dataset, study_key: str) -> Lesion | None:
    """None for a group without tracking identifier or place."""
    items = list(_children(group))
    uid = next((str(item.UID) for item in items if _name(item) == _TRACKING_UID), "")
    state = _STATES.get(_code_of(items, codes.STATE))
    size = _size(items)
    place = _place(items, size)
    if not uid or (state is None and place is None) or (state in WITH_PLACE and place is None):
        return None
    state = state or MARKED
    into = _uid_of(items, codes.MERGED_WITH) if state == MERGED else ""
    seen = state in (MARKED, CONFIRMED, MOVED)
    finding = Finding(state, place if state in WITH_PLACE else None, size=size if seen else NO_SIZE, into=into)
    target, nodal = _ROLES.get(_code_of(items, codes.ROLE), (True, False))
    identifier = next((str(item.TextValue) for item in items if _name(item) == _IDENTIFIER), "")
    identifier = identifier.removesuffix(codes.UNCONFIRMED).strip()
    lesion_id, name = _ID_AND_NAME.fullmatch(identifier).groups(default="")
    return Lesion(
        lesion_id, {study_key: finding}, name, _site(items), target, nodal, _uid_of(items, codes.SPLIT_FROM), uid
    )


def _numbered(lesions: Iterable[Lesion]) -> Iterator[Lesion]:
    """Lesions with unique ids; of two groups of a lesion the first counts."""
    once: dict[str, Lesion] = {}
    for lesion in lesions:
        once.setdefault(lesion.tracking_uid, lesion)
    used, taken = {lesion.id for lesion in once.values()}, set()
    for number, lesion in enumerate(once.values(), start=1):
        free = lesion.id
        if not free or free in taken:
            free = next(name for n in count(number) if (name := f"R{n}") not in used | taken)
        taken.add(free)
        yield replace(lesion, id=free)


def _size(items: list[Dataset]) -> Measurement:
    """The measurements of a group; NO_SIZE where none is usable."""
    long_axis, short_axis = (_axis(_number(items, code)) for code in (codes.LONG_AXIS, codes.SHORT_AXIS))
    volume = _number(items, codes.VOLUME)
    volume_ml = None
    if volume is not None:
        value = volume.MeasuredValueSequence[0]
        factor = _ML.get(str(value.MeasurementUnitsCodeSequence[0].CodeValue))
        volume_ml = None if factor is None else float(value.NumericValue) * factor
    if long_axis is None and short_axis is None and volume_ml is None:
        return NO_SIZE
    return Measurement(long_axis, short_axis, volume_ml, confirmed=True)


def _number(items: list[Dataset], code: codes.Code) -> Dataset | None:
    return next((item for item in items if item.ValueType == "NUM" and _name(item) == code[:2]), None)


def _axis(number: Dataset | None) -> Axis | None:
    """The two ends of a diameter; None where they have no coordinates in the patient."""
    if number is None:
        return None
    ends = next((_points(item) for item in _children(number) if item.ValueType == "SCOORD3D"), [])
    return (ends[0], ends[1]) if len(ends) == 2 else None


def _place(items: list[Dataset], size: Measurement) -> Point | None:
    """The point, or the middle of the region, else of the long axis."""
    placed = [item for item in items if item.ValueType == "SCOORD3D"]
    chosen = next((item for item in placed if _name(item) == codes.CENTER[:2]), placed[0] if placed else None)
    points = _points(chosen) if chosen is not None else list(size.long_axis or size.short_axis or ())
    if len(points) > 2 and points[0] == points[-1]:  # closed outline
        points = points[1:]
    return tuple(sum(values) / len(points) for values in zip(*points, strict=True)) if points else None


def _points(item: Dataset) -> list[Point]:
    """RAS mm. Raises ValueError for what is no place."""
    values = [float(value) for value in item.GraphicData]
    if not all(map(math.isfinite, values)):
        raise ValueError("a coordinate is not finite")
    return [(-x, -y, z) for x, y, z in zip(values[::3], values[1::3], values[2::3], strict=True)]


def _site(items: list[Dataset]) -> str:
    for item in items:
        if _name(item) == _FINDING_SITE:
            organ = item.ConceptCodeSequence[0]
            side = next((each for each in _children(item) if _name(each) == _LATERALITY), None)
            return codes.site_words(_code(organ), None if side is None else _code(side.ConceptCodeSequence[0]))
    return ""


# -- the content tree --------------------------------------------------------------------------------------------------


def _groups(item: Dataset) -> Iterator[Dataset]:
    for child in _children(item):
        if child.ValueType == "CONTAINER" and _name(child) == _GROUP:
            yield child
        else:
            yield from _groups(child)


def _children(item: Dataset) -> Iterator[Dataset]:
    for child in item.get("ContentSequence") or ():
        if "ValueType" in child:  # else a reference to another item
            yield child


def _name(item: Dataset) -> _Name | None:
    named = item.get("ConceptNameCodeSequence")
    if not named:
        return None
    name = _code(named[0])[:2]
    return _OLD_SCHEME.get(name, name)


def _code(item: Dataset) -> codes.Code:
    return str(item.get("CodeValue", "")), str(item.get("CodingSchemeDesignator", "")), str(item.get("CodeMeaning", ""))


def _code_of(items: list[Dataset], name: codes.Code) -> str:
    """The value of a coded answer of our own scheme, or ""."""
    return next((_code(item.ConceptCodeSequence[0])[0] for item in items if _name(item) == name[:2]), "")


def _uid_of(items: list[Dataset], name: codes.Code) -> str:
    return next((str(item.UID) for item in items if _name(item) == name[:2]), "")


def _with_ids(record: FollowUp) -> FollowUp:
    """The record with merged and split lesions referred to by id. Mergers with unknown lesions are dropped."""
    ids = {lesion.tracking_uid: lesion.id for lesion in record.lesions}
    lesions = []
    for lesion in record.lesions:
        findings = {
            key: replace(found, into=ids.get(found.into, ""))
            for key, found in lesion.findings.items()
            if found.state != MERGED or found.into in ids
        }
        lesions.append(replace(lesion, findings=findings, split_from=ids.get(lesion.split_from, "")))
    return replace(record, lesions=tuple(lesions))
