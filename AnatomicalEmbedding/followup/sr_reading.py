"""Read the DICOM structured reports of a patient into a record. Lesions are identified by Tracking Unique Identifier.

This module reads the files of `dicom_sr.write_sr`, and measurement groups (TID 1410, 1411, 1501) of other programs, if
a group has a Tracking Unique Identifier and coordinates in the patient (SCOORD3D).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from ..dicom import sr_items as tree
from ..errors import AnatomicalEmbeddingError
from . import sr_codes as codes
from .importing import add_record, renamed
from .lesions import MARKED, MERGED, NO_SIZE, VISIBLE, WITH_PLACE, Axis, Finding, Lesion, Measurement, Point, Study
from .record import FollowUp
from .study_inputs import date_of

if TYPE_CHECKING:
    from pydicom import Dataset

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
        document = tree.open_report(path)
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


def _read(document: Dataset, path: Path) -> FollowUp:
    """Return the record of one report. Tracking UIDs are the lesions' ids; Tracking Identifiers are their names."""
    lesions: dict[str, Lesion] = {}
    try:
        study = _study(document)
        for lesion in filter(None, (_lesion(group, study.key) for group in tree.measurement_groups(document))):
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
    items = list(tree.children(group))
    uid = tree.uid_in(items, tree.TRACKING_UID)
    state = _STATES.get(tree.answer(items, codes.STATE))
    size = _size(items)
    place = _place(items, size)
    if not uid or (place is None and (state is None or state in WITH_PLACE)):
        return None
    state = state or MARKED
    into = tree.uid_in(items, codes.MERGED_WITH) if state == MERGED else ""
    finding = Finding(
        state, place if state in WITH_PLACE else None, size=size if state in VISIBLE else NO_SIZE, into=into
    )
    target, nodal = _ROLES.get(tree.answer(items, codes.ROLE), (True, False))
    identifier = next((str(item.TextValue) for item in tree.named(items, tree.IDENTIFIER)), "")
    split_from = tree.uid_in(items, codes.SPLIT_FROM)
    return Lesion(uid, {study_key: finding}, identifier.strip(), tree.site_in(items), target, nodal, split_from, uid)


def _size(items: list[Dataset]) -> Measurement:
    long_axis, short_axis = (_axis(items, code) for code in codes.AXES.values())
    volume_ml = None
    for item in tree.named(items, codes.VOLUME):
        value = item.MeasuredValueSequence[0]
        factor = _ML.get(str(value.MeasurementUnitsCodeSequence[0].CodeValue))
        volume_ml = None if factor is None else float(value.NumericValue) * factor
    size = Measurement(long_axis, short_axis, volume_ml)
    return replace(size, confirmed=size != NO_SIZE)


def _axis(items: list[Dataset], code: codes.Code) -> Axis | None:
    for number in tree.named(items, code):
        for item in tree.children(number):
            if item.ValueType == "SCOORD3D" and len(ends := tree.points_in(item)) == 2:
                return ends[0], ends[1]
    return None


def _place(items: list[Dataset], size: Measurement) -> Point | None:
    """Return the place of a lesion, RAS mm: the center or outline that `items` state, otherwise the mean point of an
    axis in `size`; None if `items` and `size` have no 3-D coordinates."""
    return tree.center_in(items) or tree.mean_point(list(size.long_axis or size.short_axis or ()))
