"""Studies of a follow-up and their nodes: the key of each volume, and the markups that belong to it."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import uuid4

import slicer

from AnatomicalEmbedding.followup.lesions import Study as RecordStudy
from AnatomicalEmbedding.followup.record import FollowUp

from ..shared.SceneNodes import placeInFolder
from ..shared.Views import keepingPlaceNode
from ..shared.VolumeNodes import scans
from .StudyOrder import Patient

KEY_ATTRIBUTE = "AnatomicalEmbedding.StudyKey"


def keyedVolumes(scene) -> dict[str, object]:
    """Key -> volume node of all CTs.

    The key is the UID of the DICOM series, or random. It is an attribute of the node, so that a saved scene keeps it;
    of a node and its copy, the first keeps it.
    """
    found: dict[str, object] = {}
    for volume in scans(scene):
        key = volume.GetAttribute(KEY_ATTRIBUTE) or seriesUid(scene, volume)
        if not key or key in found:
            key = uuid4().hex
        if volume.GetAttribute(KEY_ATTRIBUTE) != key:
            volume.SetAttribute(KEY_ATTRIBUTE, key)
        found[key] = volume
    return found


def studiesOf(scene, patient: Patient, keyed: dict[str, object]) -> list[RecordStudy]:
    """The studies of a patient for the record, in order. keyed: see `keyedVolumes`."""
    keys = {volume.GetID(): key for key, volume in keyed.items()}
    return [
        RecordStudy(
            keys[study.volume.GetID()],
            study.volume.GetName(),
            study.date,
            studyUid(scene, study.volume),
            seriesUid(scene, study.volume),
        )
        for study in patient.studies
    ]


def inStudies(record: FollowUp, loaded: Iterable[RecordStudy], others: Iterable[RecordStudy]) -> FollowUp:
    """The record with the loaded studies, and those of the others that hold a reviewed finding."""
    loaded = list(loaded)
    keys = {study.key for study in loaded}
    absent = {each.key: each for each in others if each.key not in keys and _isReviewed(record, each.key)}
    return record.with_studies(_withAbsent(loaded, absent.values()))


def _isReviewed(record: FollowUp, study: str) -> bool:
    found = [lesion.findings.get(study) for lesion in record.lesions]
    return any(each is not None and each.reviewed for each in found)


def _withAbsent(loaded: Iterable[RecordStudy], absent: Iterable[RecordStudy]) -> list[RecordStudy]:
    """Loaded and absent studies in order of time."""
    studies = list(loaded)
    for each in absent:
        later = (n for n, study in enumerate(studies) if each.date and (study.date is None or study.date > each.date))
        studies.insert(next(later, len(studies)), each)
    return studies


def seriesUid(scene, volumeNode) -> str:
    """DICOM series instance UID of a volume; "" where it has none."""
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    item = hierarchy.GetItemByDataNode(volumeNode)
    return hierarchy.GetItemUID(item, _dicom()) if item else ""


def studyUid(scene, volumeNode) -> str:
    """DICOM study instance UID of a volume; "" where it has none."""
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    item = hierarchy.GetItemByDataNode(volumeNode)
    level = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMLevelStudy()
    study = hierarchy.GetItemAncestorAtLevel(item, level) if item else 0
    return hierarchy.GetItemUID(study, _dicom()) if study else ""


def _dicom() -> str:
    return slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMUIDName()


VOLUME_ROLE = "AnatomicalEmbedding.Volume"
FOLDER = "Lesions"


def addStudyNode(scene, className: str, name: str, volumeNode):
    """Add a markups node in the folder of lesions next to its volume. The mouse does not place points in it."""
    with keepingPlaceNode(scene):
        node = scene.AddNewNodeByClass(className, name)
    node.CreateDefaultDisplayNodes()
    node.SetNodeReferenceID(VOLUME_ROLE, volumeNode.GetID())
    placeInFolder(scene, node, volumeNode, FOLDER)
    return node


def followVolume(node, volumeNode) -> None:
    """Put a node below the transform of the volume, so that its coordinates are the RAS mm of the volume."""
    wanted = volumeNode.GetTransformNodeID()
    if node.GetTransformNodeID() != wanted:
        node.SetAndObserveTransformNodeID(wanted)
