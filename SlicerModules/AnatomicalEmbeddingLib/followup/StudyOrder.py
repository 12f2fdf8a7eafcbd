"""The patients of a scene, each with studies in order of date.

Patients and dates are read from the subject hierarchy, into which the DICOM import writes them. A date that the user
sets is stored as an attribute of the volume node, and replaces the date from DICOM.
"""

import re
from dataclasses import dataclass
from datetime import date

import slicer

from AnatomicalEmbedding.followup.study_inputs import date_of

from ..shared.SceneNodes import PATIENT, UID, ancestorOf, hierarchyOf
from ..shared.VolumeNodes import scans

DATE_ATTRIBUTE = "AnatomicalEmbedding.StudyDate"
_HAND_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Study:
    """A volume with its name and date. date: None if it is not known. byHand: True if the user set the date. note: a
    sentence for the user if a date must be entered, otherwise "".
    """

    volume: object
    name: str
    date: date | None
    byHand: bool
    note: str

    @property
    def dateText(self) -> str:
        return "" if self.date is None else self.date.isoformat()


@dataclass(frozen=True)
class Patient:
    """A patient with all studies. One Patient with the key "" holds all volumes without a patient. studies: sorted by
    date; studies without a date are last. uid: UID of the patient in DICOM; "" if there is no UID.
    """

    key: str
    name: str
    studies: tuple[Study, ...]
    uid: str = ""

    @property
    def volumes(self) -> list:
        return [study.volume for study in self.studies]

    def after(self, volumeNode) -> list[Study]:
        """Return all studies except the study of `volumeNode`, in order of date."""
        return [study for study in self.studies if study.volume is not volumeNode]

    def lastAfter(self, volumeNode):
        """Return the volume of the last study that is not the study of `volumeNode`; None if there is no other study.

        Studies without a date are used only if no other study has a date.
        """
        studies = self.after(volumeNode)
        dated = [study for study in studies if study.date is not None]
        return (dated or studies)[-1].volume if studies else None

    def inOrder(self, earlier, later) -> bool:
        """Return True if the study of `earlier` comes before the study of `later`."""
        return self.volumes.index(earlier) < self.volumes.index(later)

    @property
    def defaultPair(self) -> tuple:
        """The default (prior, current): volumes of the first and last study. With only one study, current is None."""
        return self.volumes[0], self.lastAfter(self.volumes[0])


def patients(scene) -> list[Patient]:
    """Return the patients of all CT volumes, in the scene's order, and last a Patient for all other volumes."""
    hierarchy = hierarchyOf(scene)
    volumes: dict[int, list] = {}
    for volume in scans(scene):
        volumes.setdefault(ancestorOf(scene, volume, PATIENT), []).append(volume)
    patientList = []
    # last the volumes without a patient, whose item is 0 or None
    for item in sorted(volumes, key=lambda item: not item):
        name = uid = key = ""
        if item:
            name = hierarchy.GetItemName(item)
            uid = hierarchy.GetItemUID(item, UID)
            key = uid or f"item {item}"
        studies = sorted(
            (studyOf(scene, volume) for volume in volumes[item]),
            key=lambda study: study.date or date.max,
        )
        patientList.append(Patient(key, name, tuple(studies), uid))
    return patientList


def studyOf(scene, volumeNode) -> Study:
    """Return the study of a volume. If the volume has no date, the study has a note about this."""
    name = volumeNode.GetName()
    userDate = date_of(volumeNode.GetAttribute(DATE_ATTRIBUTE) or "")
    day = userDate or date_of(_storedDate(scene, volumeNode))
    note = ""
    if day is None:
        note = f"{name}: has no study date and is sorted last; enter the date as YYYY-MM-DD."
    return Study(volumeNode, name, day, userDate is not None, note)


def setDate(volumeNode, text: str) -> None:
    """Set the date of a study. text: YYYY-MM-DD; "" restores the date from DICOM. Raises ValueError for other texts."""
    text = text.strip()
    if not text:
        volumeNode.RemoveAttribute(DATE_ATTRIBUTE)
    elif date_of(text) is None or not _HAND_DATE.fullmatch(text):
        raise ValueError(
            f'{volumeNode.GetName()}: "{text}" is not a date; write it as YYYY-MM-DD, such as 2024-01-31.'
        )
    else:
        volumeNode.SetAttribute(DATE_ATTRIBUTE, text)


def _storedDate(scene, volumeNode) -> str:
    """Return the date of the volume's item in the subject hierarchy, or of a parent item; "" if no item has a date."""
    hierarchy = hierarchyOf(scene)
    name = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMStudyDateAttributeName()
    item = hierarchy.GetItemByDataNode(volumeNode)
    while item not in (hierarchy.GetInvalidItemID(), hierarchy.GetSceneItemID()):
        if hierarchy.HasItemAttribute(item, name):
            return hierarchy.GetItemAttribute(item, name)
        item = hierarchy.GetItemParent(item)
    return ""
