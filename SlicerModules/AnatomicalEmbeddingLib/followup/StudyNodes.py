"""Studies of a follow-up and their nodes: the key of each volume, and the markups that belong to it."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import uuid4

import slicer

from AnatomicalEmbedding.followup.lesions import Study as RecordStudy
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.study_inputs import in_order

from ..shared.SceneNodes import placeInFolder
from ..shared.Views import keepingPlaceNode
from ..shared.VolumeNodes import scans
from .StudyOrder import Patient

KEY_ATTRIBUTE = "AnatomicalEmbedding.StudyKey"
VOLUME_ROLE = "AnatomicalEmbedding.Volume"
FOLDER = "Lesions"
_UID = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMUIDName()


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
    """The record with the loaded studies, and with each other study that holds a reviewed finding."""
    loaded = list(loaded)
    keys = {study.key for study in loaded}
    reviewed = {key for lesion in record.lesions for key, found in lesion.findings.items() if found.reviewed}
    absent = [each for each in others if each.key in reviewed - keys]
    return record.with_studies(in_order(loaded, absent).studies)


def seriesUid(scene, volumeNode) -> str:
    """DICOM series instance UID of a volume; "" without one."""
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    item = hierarchy.GetItemByDataNode(volumeNode)
    return hierarchy.GetItemUID(item, _UID) if item else ""


def studyUid(scene, volumeNode) -> str:
    """DICOM study instance UID of a volume; "" without one."""
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    item = hierarchy.GetItemByDataNode(volumeNode)
    level = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMLevelStudy()
    study = hierarchy.GetItemAncestorAtLevel(item, level) if item else 0
    return hierarchy.GetItemUID(study, _UID) if study else ""


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
