"""Studies of each patient in the order of their dates.

Patients and dates are read from the subject hierarchy, where DICOM import puts them. A date set by hand, an attribute
of the volume node, wins. Names of volumes, studies and patients mean nothing here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, time

import slicer

from AnatomicalEmbedding.followup.study_inputs import date_of

from ..shared.VolumeNodes import scans

DATE_ATTRIBUTE = "AnatomicalEmbedding.StudyDate"
_HAND_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DICOM_TIME = re.compile(r"(\d{2})(?::?(\d{2}))?(?::?(\d{2}))?(?:\.\d+)?")


@dataclass(frozen=True)
class Study:
    """A volume and when it was taken. date: None where that is not known. byHand: the user gave the date. time: of the
    day; None where not known. note: a sentence where something is to be done about the date, else "".
    """

    volume: object
    date: date | None
    time: time | None
    byHand: bool
    note: str

    @property
    def dateText(self) -> str:
        return "" if self.date is None else self.date.isoformat()


@dataclass(frozen=True)
class Patient:
    """key: differs between patients; "" for volumes that no patient item holds. studies: by date, undated ones last.
    uid: the patient's in DICOM, "" where there is none.
    """

    key: str
    name: str
    studies: tuple[Study, ...]
    uid: str = ""

    @property
    def volumes(self) -> list:
        return [study.volume for study in self.studies]

    def after(self, volumeNode) -> list[Study]:
        """All studies but the one of this volume, in their order."""
        return [study for study in self.studies if study.volume is not volumeNode]

    def lastAfter(self, volumeNode):
        """The volume to compare with: the last that has a date, else the last; None where there is no other."""
        others = self.after(volumeNode)
        dated = [study for study in others if study.date is not None]
        return (dated or others)[-1].volume if others else None

    def inOrder(self, earlier, later) -> bool:
        """Does one volume come before another?"""
        return self.volumes.index(earlier) < self.volumes.index(later)

    @property
    def usualPair(self) -> tuple:
        """Prior and current, until the user chooses others: the first and the last study."""
        return self.studies[0].volume, self.lastAfter(self.studies[0].volume)


def patients(scene) -> list[Patient]:
    """Patients of the scene's CTs, in the order of the scene; volumes without a patient together, last."""
    names: dict[str, tuple[str, str]] = {}
    volumes: dict[str, list] = {}
    for volume in scans(scene):
        key, name, uid = _patientOf(scene, volume)
        names.setdefault(key, (name, uid))
        volumes.setdefault(key, []).append(volume)
    known = sorted(volumes, key=lambda key: not key)
    return [Patient(key, names[key][0], _ordered(scene, volumes[key]), names[key][1]) for key in known]


def studyOf(scene, volumeNode) -> Study:
    """When a volume was taken."""
    hand = volumeNode.GetAttribute(DATE_ATTRIBUTE)
    given = _handDate(hand) if hand else None
    constants = slicer.vtkMRMLSubjectHierarchyConstants
    stored = _ancestorAttribute(scene, volumeNode, constants.GetDICOMStudyDateAttributeName())
    found = date_of(stored)
    clock = _asTime(_ancestorAttribute(scene, volumeNode, constants.GetDICOMStudyTimeAttributeName()))
    note = _note(volumeNode.GetName(), hand, given, stored, found)
    if given is not None:  # the time of day belongs to the date that it was stored with
        return Study(volumeNode, given, clock if given == found else None, True, note)
    return Study(volumeNode, found, clock if found is not None else None, False, note)


def setDate(volumeNode, text: str) -> None:
    """Set a study's date by hand, YYYY-MM-DD; "" goes back to DICOM's. ValueError, a sentence, for what is no date."""
    text = text.strip()
    if not text:
        volumeNode.RemoveAttribute(DATE_ATTRIBUTE)
    elif _handDate(text) is None:
        raise ValueError(f'{volumeNode.GetName()}: "{text}" is no date; write it as YYYY-MM-DD, such as 2024-01-31.')
    else:
        volumeNode.SetAttribute(DATE_ATTRIBUTE, text)


def _ordered(scene, volumes: list) -> tuple[Study, ...]:
    studies = [studyOf(scene, volume) for volume in volumes]
    return tuple(sorted(studies, key=lambda s: (s.date is None, s.date or date.max, s.time or time.min)))


def _note(name: str, hand: str | None, given: date | None, stored: str, found: date | None) -> str:
    if given is not None:
        return ""
    if hand:
        return f'{name}: "{hand}" is no date; write it as YYYY-MM-DD.'
    if found is not None:
        return ""
    if stored:
        return f'{name}: its DICOM study date "{stored}" cannot be read; write the date as YYYY-MM-DD.'
    return f"{name}: has no study date, so it comes last; write the date as YYYY-MM-DD."


def _patientOf(scene, volumeNode) -> tuple[str, str, str]:
    """Key, name and UID of the patient; all "" where the volume has none."""
    hierarchy = _hierarchy(scene)
    level = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMLevelPatient()
    item = hierarchy.GetItemByDataNode(volumeNode)
    patient = hierarchy.GetItemAncestorAtLevel(item, level) if item else hierarchy.GetInvalidItemID()
    if patient == hierarchy.GetInvalidItemID():
        return "", "", ""
    uid = hierarchy.GetItemUID(patient, slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMUIDName())
    return uid or f"item {patient}", hierarchy.GetItemName(patient), uid


def _ancestorAttribute(scene, volumeNode, name: str) -> str:
    """Of the item or the nearest item above it; "" where none has it."""
    hierarchy = _hierarchy(scene)
    item = hierarchy.GetItemByDataNode(volumeNode)
    while item not in (hierarchy.GetInvalidItemID(), hierarchy.GetSceneItemID()):
        if hierarchy.HasItemAttribute(item, name):
            return hierarchy.GetItemAttribute(item, name)
        item = hierarchy.GetItemParent(item)
    return ""


def _hierarchy(scene):
    return slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)


def _handDate(text: str) -> date | None:
    return date_of(text) if _HAND_DATE.fullmatch(text.strip()) else None


def _asTime(text: str) -> time | None:
    found = _DICOM_TIME.fullmatch(text.strip())
    try:
        return time(*(int(group) for group in found.groups() if group)) if found else None
    except ValueError:
        return None
