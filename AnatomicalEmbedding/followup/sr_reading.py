"""Read the DICOM structured reports of a patient into a record. Lesions are identified by Tracking Unique Identifier.

This module reads the files of `dicom_sr.write_sr`, and measurement groups (TID 1410, 1411, 1501) of other programs, if
a group has a Tracking Unique Identifier and coordinates in the patient (SCOORD3D). It uses pydicom, because highdicom
refuses a whole report if one item breaks a rule of DICOM.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AnatomicalEmbeddingError, require
from . import sr_codes as codes
from .importing import add_record, renamed
from .lesions import MARKED, MERGED, NO_SIZE, VISIBLE, WITH_PLACE, Axis, Finding, Lesion, Measurement, Point, Study
from .record import FollowUp
from .study_inputs import date_of

if TYPE_CHECKING:
    from pydicom import Dataset

_GROUP: codes.Code = ("125007", "DCM", "Measurement Group")
_IDENTIFIER: codes.Code = ("112039", "DCM", "Tracking Identifier")
_TRACKING_UID: codes.Code = ("112040", "DCM", "Tracking Unique Identifier")
_FINDING_SITE: codes.Code = ("363698007", "SCT", "Finding Site")
_LATERALITY: codes.Code = ("272741003", "SCT", "Laterality")
_ML = {"mL": 1.0, "ml": 1.0, "cm3": 1.0, "mm3": 0.001}
_STATES = {code[0]: state for state, code in codes.STATE_CODES.items()}
_ROLES = {code[0]: role for role, code in codes.ROLE_CODES.items()}
# This program writes identifiers such as "L1 dome": id and name. Names of other programs ("Lesion 1") contain no id.
_ID_AND_NAME = re.compile(r"(?:([A-Za-z]{1,2}\d+)(?:\s+|$))?(.*)", re.DOTALL)


def read_srs(paths: Iterable[str | Path]) -> FollowUp:
    """Read the studies and lesions of the reports of one patient. Returns a record; its places and axes are RAS mm.

    If two reports differ, the later report is used. All measurements are entered as confirmed. The key of a study is
    the UID of the image series that the report refers to.

    Raises:
        AnatomicalEmbeddingError: a file is missing, damaged or not a structured report; a report contains no lesion
            with a Tracking Unique Identifier and a place; or the reports are of several patients.
    """
    patients: dict[str, Path] = {}
    reports: list[tuple[str, FollowUp]] = []
    for path in map(Path, paths):
        document = _open(path)
        reports.append((f"{document.get('ContentDate', '')}{document.get('ContentTime', '')}", _read(document, path)))
        patients.setdefault(str(document.get("PatientID", "")), path)
    patients.pop("", None)
    if len(patients) > 1:
        names = " and ".join(str(path) for path in list(patients.values())[:2])
        raise AnatomicalEmbeddingError(f"{names}: are reports of different patients; give reports of one patient.")
    records = [record for _, record in sorted(reports, key=lambda report: report[0])]
    together = reduce(lambda later, earlier: add_record(later, earlier)[0], reversed(records), FollowUp())
    first = dict.fromkeys(lesion.id for record in records for lesion in record.lesions)
    return _with_short_ids(replace(together, lesions=tuple(together.lesion(uid) for uid in first)))


def _with_short_ids(record: FollowUp) -> FollowUp:
    """Split identifiers such as "L1 dome" into the ids and names of lesions.

    A lesion without an id, or with an id that is already used, gets an id such as R1. If a lesion has split from, or
    merged into, a lesion that no report contains, the entry of this split or merge is removed.
    """
    parts = [_ID_AND_NAME.fullmatch(lesion.name).groups(default="") for lesion in record.lesions]
    ids: dict[str, str] = {}
    for number, (lesion, (short, _)) in enumerate(zip(record.lesions, parts, strict=True), start=1):
        if not short or short in ids.values():
            used = {*ids.values(), *(each for each, _ in parts)}
            short = next(name for n in count(number) if (name := f"R{n}") not in used)
        ids[lesion.id] = short
    lesions = []
    for lesion, (_, name) in zip(record.lesions, parts, strict=True):
        findings = {key: found for key, found in lesion.findings.items() if not found.into or found.into in ids}
        split_from = lesion.split_from if lesion.split_from in ids else ""
        lesions.append(renamed(replace(lesion, name=name, findings=findings, split_from=split_from), {}, ids))
    return replace(record, lesions=tuple(lesions))


def _open(path: Path) -> Dataset:
    pydicom = require("pydicom", "pydicom", "DICOM structured reports need", "followup")
    try:
        document = pydicom.dcmread(_WholeFile(path.read_bytes()))
        for _ in document.iterall():  # read every value now: pydicom reads a value only at its first use
            pass
    except FileNotFoundError as error:
        raise AnatomicalEmbeddingError(f"{path}: no such file; check the path.") from error
    except Exception as error:  # pydicom raises exceptions of many classes for damaged files
        raise AnatomicalEmbeddingError(f"{path}: is not DICOM or is truncated; give a structured report.") from error
    if document.get("Modality") != "SR" or "ContentSequence" not in document:
        raise AnatomicalEmbeddingError(f"{path}: is DICOM, but not a structured report; give a file of modality SR.")
    return document


class _WholeFile(io.BytesIO):
    """A file in memory that raises OSError if a read ends early; pydicom alone would ignore the missing bytes."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if size is not None and 0 < len(data) < size:
            raise OSError("the file ends early")
        return data


def _read(document: Dataset, path: Path) -> FollowUp:
    """Return the record of one report. Tracking UIDs are the lesions' ids; Tracking Identifiers are their names."""
    lesions: dict[str, Lesion] = {}
    try:
        study = _study(document)
        for lesion in filter(None, (_lesion(group, study.key) for group in _groups(document))):
            lesions.setdefault(lesion.id, lesion)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise AnatomicalEmbeddingError(
            f"{path}: is a damaged structured report ({error}); export the report again."
        ) from error
    if not lesions:
        raise AnatomicalEmbeddingError(
            f"{path}: contains no lesion with a Tracking Unique Identifier and a place in the patient;"
            " give a report of lesions (TID 1500 with 3-D coordinates)."
        )
    return FollowUp((study,), tuple(lesions.values()))


def _study(document: Dataset) -> Study:
    """Return the study of the images that a report refers to, or the report's own study if no image is named."""
    evidence = [
        (str(study.StudyInstanceUID), str(series.SeriesInstanceUID))
        for study in document.get("CurrentRequestedProcedureEvidenceSequence") or ()
        for series in study.get("ReferencedSeriesSequence") or ()
    ]
    study_uid, series_uid = evidence[0] if evidence else (str(document.StudyInstanceUID), "")
    return Study(
        key=series_uid or study_uid,
        name=str(document.get("StudyDescription") or "") or "DICOM study",
        date=date_of(str(document.get("StudyDate") or "")),
        study_uid=study_uid,
        series_uid=series_uid,
    )


# -- one measurement group ---------------------------------------------------------------------------------------------


def _lesion(group: Dataset, study_key: str) -> Lesion | None:
    """Return the lesion of a measurement group. Return None if the Tracking UID is missing, or if the place is missing
    and the lesion's state requires a place."""
    items = list(_children(group))
    uid = _uid(items, _TRACKING_UID)
    state = _STATES.get(_answer(items, codes.STATE))
    size = _size(items)
    place = _place(items, size)
    if not uid or (place is None and (state is None or state in WITH_PLACE)):
        return None
    state = state or MARKED
    into = _uid(items, codes.MERGED_WITH) if state == MERGED else ""
    finding = Finding(
        state, place if state in WITH_PLACE else None, size=size if state in VISIBLE else NO_SIZE, into=into
    )
    target, nodal = _ROLES.get(_answer(items, codes.ROLE), (True, False))
    identifier = next((str(item.TextValue) for item in _named(items, _IDENTIFIER)), "")
    split_from = _uid(items, codes.SPLIT_FROM)
    return Lesion(uid, {study_key: finding}, identifier.strip(), _site(items), target, nodal, split_from, uid)


def _size(items: list[Dataset]) -> Measurement:
    long_axis, short_axis = (_axis(items, code) for code in codes.AXES.values())
    volume_ml = None
    for item in _named(items, codes.VOLUME):
        value = item.MeasuredValueSequence[0]
        factor = _ML.get(str(value.MeasurementUnitsCodeSequence[0].CodeValue))
        volume_ml = None if factor is None else float(value.NumericValue) * factor
    size = Measurement(long_axis, short_axis, volume_ml)
    return replace(size, confirmed=size != NO_SIZE)


def _axis(items: list[Dataset], code: codes.Code) -> Axis | None:
    for number in _named(items, code):
        for item in _children(number):
            if item.ValueType == "SCOORD3D" and len(ends := _points(item)) == 2:
                return ends[0], ends[1]
    return None


def _place(items: list[Dataset], size: Measurement) -> Point | None:
    """Return the place of a lesion, RAS mm: the center that `items` state, otherwise the mean point of the outline in
    `items`, otherwise the mean point of an axis in `size`; None if `items` and `size` have no 3-D coordinates."""
    placed = [item for item in items if item.ValueType == "SCOORD3D"]
    chosen = next(iter([*_named(placed, codes.CENTER), *placed]), None)
    points = _points(chosen) if chosen is not None else list(size.long_axis or size.short_axis or ())
    if len(points) > 2 and points[0] == points[-1]:  # a closed outline repeats its first point
        points = points[1:]
    return tuple(sum(values) / len(points) for values in zip(*points, strict=True)) if points else None


def _points(item: Dataset) -> list[Point]:
    """Return the points, RAS mm, of a DICOM item. Raises ValueError if a point does not have three finite numbers."""
    values = [float(value) for value in item.GraphicData]
    if not all(map(math.isfinite, values)):
        raise ValueError("a coordinate is not finite")
    return [(-x, -y, z) for x, y, z in zip(values[::3], values[1::3], values[2::3], strict=True)]


def _site(items: list[Dataset]) -> str:
    for item in _named(items, _FINDING_SITE):
        sides = [_code(each.ConceptCodeSequence[0]) for each in _named(_children(item), _LATERALITY)]
        return codes.site_words(_code(item.ConceptCodeSequence[0]), next(iter(sides), None))
    return ""


# -- the content tree --------------------------------------------------------------------------------------------------


def _groups(item: Dataset) -> Iterator[Dataset]:
    for child in _children(item):
        if child.ValueType == "CONTAINER" and _named([child], _GROUP):
            yield child
        else:
            yield from _groups(child)


def _children(item: Dataset) -> Iterator[Dataset]:
    for child in item.get("ContentSequence") or ():
        if "ValueType" in child:  # an item without ValueType only refers to another item
            yield child


def _named(items: Iterable[Dataset], name: codes.Code) -> list[Dataset]:
    """Return the items whose concept name has the meaning of `name`, as an SCT code or as an older SRT code."""
    from pydicom.sr.coding import Code

    named = [(item, item.get("ConceptNameCodeSequence")) for item in items]
    return [item for item, concept in named if concept and Code(*_code(concept[0])) == Code(*name)]


def _code(item: Dataset) -> codes.Code:
    return str(item.get("CodeValue", "")), str(item.get("CodingSchemeDesignator", "")), str(item.get("CodeMeaning", ""))


def _answer(items: list[Dataset], name: codes.Code) -> str:
    """Return the code value of the first item with this concept name; "" if there is no such item."""
    return next((_code(item.ConceptCodeSequence[0])[0] for item in _named(items, name)), "")


def _uid(items: list[Dataset], name: codes.Code) -> str:
    return next((str(item.UID) for item in _named(items, name)), "")
