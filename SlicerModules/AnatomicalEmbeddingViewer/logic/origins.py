"""Where a scan comes from: patient and study by its DICOM headers, kept in the scene as Slicer keeps them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import slicer

from AnatomicalEmbeddingLib.followup.StudyOrder import setDate
from AnatomicalEmbeddingLib.shared.SceneNodes import itemOf

if TYPE_CHECKING:
    from pydicom import Dataset


@dataclass(frozen=True)
class Origin:
    """What is not known is "". date, time: of the study, as DICOM writes them. files: slices of the series, or their
    headers alone. kept: a folder of ours that holds them, to be removed with the scan.
    """

    patient_id: str = ""
    patient_name: str = ""
    study_uid: str = ""
    series_uid: str = ""
    date: str = ""
    time: str = ""
    given_date: str = ""  # YYYY-MM-DD, for scans that are no DICOM
    files: tuple[Path, ...] = ()
    kept: Path | None = None


UNKNOWN = Origin()


def origin_in(folder: Path, series_uid: str, keep_below: Path | None = None) -> Origin:
    """Of a series whose slices lie in a folder. keep_below: copy their headers into a new folder there, for slices that
    are about to go; structured reports need no pixels.
    """
    found = list(_slices(folder, series_uid))
    if not found:
        return UNKNOWN
    header = _header(found[0])
    kept = None
    if keep_below is not None:
        kept = Path(tempfile.mkdtemp(prefix="headers-", dir=keep_below))
        found = [path for n, source in enumerate(found) if (path := _copied(source, kept / f"{n:05d}.dcm"))]
    return Origin(
        str(header.get("PatientID", "")).strip(),
        str(header.get("PatientName", "")).replace("^", " ").strip(),
        str(header.get("StudyInstanceUID", "")),
        series_uid,
        str(header.get("StudyDate", "")),
        str(header.get("StudyTime", "")),
        files=tuple(found),
        kept=kept,
    )


def place(scene, node, origin: Origin) -> None:
    """Put a volume below its patient and study in the subject hierarchy, where all that asks for dates finds them. A
    patient without an ID has no item: it would be one with others that have none.
    """
    if origin.given_date:
        setDate(node, origin.given_date)
    if not origin.study_uid:
        return
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    constants = slicer.vtkMRMLSubjectHierarchyConstants
    uid_name, parent = constants.GetDICOMUIDName(), hierarchy.GetSceneItemID()
    if origin.patient_id:
        patient = hierarchy.GetItemByUID(uid_name, origin.patient_id)
        if not patient:
            patient = hierarchy.CreateSubjectItem(parent, origin.patient_name or origin.patient_id)
            hierarchy.SetItemUID(patient, uid_name, origin.patient_id)
        parent = patient
    study = hierarchy.GetItemByUID(uid_name, origin.study_uid)
    if not study or hierarchy.GetItemParent(study) != parent:
        study = hierarchy.CreateStudyItem(parent, f"Study {origin.date}".strip())
        hierarchy.SetItemUID(study, uid_name, origin.study_uid)
        hierarchy.SetItemAttribute(study, constants.GetDICOMStudyDateAttributeName(), origin.date)
        hierarchy.SetItemAttribute(study, constants.GetDICOMStudyTimeAttributeName(), origin.time)
    item = itemOf(scene, node)
    hierarchy.SetItemParent(item, study)
    hierarchy.SetItemUID(item, uid_name, origin.series_uid)


def _slices(folder: Path, series_uid: str) -> Iterator[Path]:
    for path in sorted(folder.rglob("*") if folder.is_dir() else folder.parent.iterdir()):
        header = _header(path) if path.is_file() else None
        if header is not None and header.get("SeriesInstanceUID") == series_uid:
            yield path


def _header(path: Path) -> Dataset | None:
    import pydicom

    try:
        return pydicom.dcmread(path, stop_before_pixels=True)
    except Exception:  # what a damaged file makes pydicom raise has no bounds; the engine's reader has judged it
        return None


def _copied(source: Path, target: Path) -> Path | None:
    try:
        _header(source).save_as(target)
    except Exception:  # as above: a report of the study then says what it lacks
        return None
    return target
