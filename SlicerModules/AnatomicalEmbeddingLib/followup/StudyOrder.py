"""Studies of each patient in the order of their dates.

Patients and dates are read from the subject hierarchy, where DICOM import puts them. A date set by hand, an attribute
of the volume node, counts before the date in DICOM.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

import slicer

from AnatomicalEmbedding.followup.study_inputs import date_of

from ..shared.VolumeNodes import scans

DATE_ATTRIBUTE = "AnatomicalEmbedding.StudyDate"
PATIENT = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMLevelPatient()
STUDY = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMLevelStudy()
UID = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMUIDName()
_HAND_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Study:
    """A volume and its date; None where the date is unknown. byHand: the user gave the date. note: a sentence where
    the user should correct the date, else "".
    """

    volume: object
    date: date | None
    byHand: bool
    note: str

    @property
    def dateText(self) -> str:
        return "" if self.date is None else self.date.isoformat()


@dataclass(frozen=True)
class Patient:
    """key: unique; "" for the volumes without a patient. studies: by date, undated ones last. uid: the patient's UID in
    DICOM, "" without one.
    """

    key: str
    name: str
    studies: tuple[Study, ...]
    uid: str = ""

    @property
    def volumes(self) -> list:
        return [study.volume for study in self.studies]

    def after(self, volumeNode) -> list[Study]:
        """All studies but the one of this volume, in order."""
        return [study for study in self.studies if study.volume is not volumeNode]

    def lastAfter(self, volumeNode):
        """The volume to compare with: the last dated one, else the last; None where there is no other."""
        others = self.after(volumeNode)
        dated = [study for study in others if study.date is not None]
        return (dated or others)[-1].volume if others else None

    def inOrder(self, earlier, later) -> bool:
        """Whether one volume comes before another."""
        return self.volumes.index(earlier) < self.volumes.index(later)

    @property
    def usualPair(self) -> tuple:
        """Prior and current until the user chooses: the first and the last study."""
        return self.volumes[0], self.lastAfter(self.volumes[0])


def patients(scene) -> list[Patient]:
    """The patients of all CTs, in the order of the scene; the volumes without a patient come last, together."""
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    volumes: dict[int, list] = {}
    for volume in scans(scene):
        volumes.setdefault(ancestorOf(scene, volume, PATIENT), []).append(volume)
    found = []
    for item in sorted(volumes, key=lambda item: not item):
        name, uid = (hierarchy.GetItemName(item), hierarchy.GetItemUID(item, UID)) if item else ("", "")
        studies = sorted((studyOf(scene, volume) for volume in volumes[item]), key=lambda each: each.date or date.max)
        found.append(Patient(uid or (f"item {item}" if item else ""), name, tuple(studies), uid))
    return found


def ancestorOf(scene, volumeNode, level: str) -> int:
    """The item of PATIENT or STUDY that a volume belongs to; 0 without one."""
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    item = hierarchy.GetItemByDataNode(volumeNode)
    return hierarchy.GetItemAncestorAtLevel(item, level) if item else 0


def studyOf(scene, volumeNode) -> Study:
    """The study of a volume."""
    given = date_of(volumeNode.GetAttribute(DATE_ATTRIBUTE) or "")
    if given is not None:
        return Study(volumeNode, given, True, "")
    stored = _storedDate(scene, volumeNode)
    name, found, note = volumeNode.GetName(), date_of(stored), ""
    if found is None and stored:
        note = f'{name}: its DICOM study date "{stored}" cannot be read; write the date as YYYY-MM-DD.'
    elif found is None:
        note = f"{name}: has no study date, so it comes last; write the date as YYYY-MM-DD."
    return Study(volumeNode, found, False, note)


def setDate(volumeNode, text: str) -> None:
    """Set the date of a study, YYYY-MM-DD; "" restores the date of DICOM. Raises ValueError, a sentence, otherwise."""
    text = text.strip()
    if not text:
        volumeNode.RemoveAttribute(DATE_ATTRIBUTE)
    elif date_of(text) is None or not _HAND_DATE.fullmatch(text):
        raise ValueError(f'{volumeNode.GetName()}: "{text}" is no date; write it as YYYY-MM-DD, such as 2024-01-31.')
    else:
        volumeNode.SetAttribute(DATE_ATTRIBUTE, text)


def _storedDate(scene, volumeNode) -> str:
    """The study date of the nearest item at or above a volume that has one, else ""."""
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    name = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMStudyDateAttributeName()
    item = hierarchy.GetItemByDataNode(volumeNode)
    while item not in (hierarchy.GetInvalidItemID(), hierarchy.GetSceneItemID()):
        if hierarchy.HasItemAttribute(item, name):
            return hierarchy.GetItemAttribute(item, name)
        item = hierarchy.GetItemParent(item)
    return ""
