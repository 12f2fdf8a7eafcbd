"""Nodes of a follow-up in the scene: the key of each volume, markups in its studies, and the text node of the record.

A text node keeps the record as JSON, so that the scene saves and restores it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from uuid import uuid4

import slicer

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.lesions import Study as RecordStudy
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.record_file import from_json, to_json
from AnatomicalEmbedding.followup.study_inputs import in_order

from ..shared.SceneNodes import itemOf, nodesOf, placeInFolder
from ..shared.Views import keepingPlaceNode
from ..shared.VolumeNodes import scans
from .StudyOrder import PATIENT, STUDY, UID, Patient, ancestorOf

VOLUME_ROLE = "AnatomicalEmbedding.Volume"
_KEY_ATTRIBUTE = "AnatomicalEmbedding.StudyKey"
_FOLDER = "Lesions"
_RECORD_CLASS = "vtkMRMLTextNode"
_RECORD_ATTRIBUTE = "AnatomicalEmbedding.FollowUp"  # of the text node: the UID of the patient, or
_NOBODY = "-"


# -- studies -----------------------------------------------------------------------------------------------------------


def keyedVolumes(scene) -> dict[str, object]:
    """Key -> volume node of all CTs.

    The key is the UID of the DICOM series, or random. It is an attribute of the node, so that a saved scene keeps it;
    of a node and its copy, the first keeps it.
    """
    found: dict[str, object] = {}
    for volume in scans(scene):
        key = volume.GetAttribute(_KEY_ATTRIBUTE) or _seriesUid(scene, volume)
        if not key or key in found:
            key = uuid4().hex
        volume.SetAttribute(_KEY_ATTRIBUTE, key)
        found[key] = volume
    return found


def studiesOf(scene, patient: Patient) -> list[RecordStudy]:
    """The studies of a patient for the record, in order. The volumes must have keys: see `keyedVolumes`."""
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    studies = []
    for study in patient.studies:
        key, name = study.volume.GetAttribute(_KEY_ATTRIBUTE), study.volume.GetName()
        item = ancestorOf(scene, study.volume, STUDY)
        studyUid = hierarchy.GetItemUID(item, UID) if item else ""
        studies.append(RecordStudy(key, name, study.date, studyUid, _seriesUid(scene, study.volume)))
    return studies


def inStudies(record: FollowUp, loaded: Iterable[RecordStudy], others: Iterable[RecordStudy]) -> FollowUp:
    """The record with the loaded studies, and with each other study that holds a reviewed finding."""
    loaded = list(loaded)
    keys = {study.key for study in loaded}
    reviewed = {key for lesion in record.lesions for key in lesion.reviewed}
    absent = [each for each in others if each.key in reviewed - keys]
    return record.with_studies(in_order(loaded, absent)[0])


def _seriesUid(scene, volumeNode) -> str:
    """DICOM series instance UID of a volume; "" without one."""
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    item = hierarchy.GetItemByDataNode(volumeNode)
    return hierarchy.GetItemUID(item, UID) if item else ""


# -- markups -----------------------------------------------------------------------------------------------------------


def addStudyNode(scene, className: str, name: str, volumeNode):
    """Add a markups node in the folder of lesions next to its volume. The mouse does not place points in it."""
    with keepingPlaceNode(scene):
        node = scene.AddNewNodeByClass(className, name)
    node.CreateDefaultDisplayNodes()
    node.SetNodeReferenceID(VOLUME_ROLE, volumeNode.GetID())
    placeInFolder(scene, node, volumeNode, _FOLDER)
    return node


def followVolume(node, volumeNode) -> None:
    """Put a node below the transform of the volume, so that its coordinates are the RAS mm of the volume."""
    if node.GetTransformNodeID() != volumeNode.GetTransformNodeID():
        node.SetAndObserveTransformNodeID(volumeNode.GetTransformNodeID())


# -- the record --------------------------------------------------------------------------------------------------------


def findRecord(scene, patient: Patient, keys: Iterable[str]) -> tuple[object | None, FollowUp, list[str]]:
    """Find the node with the follow-up of a patient.

    The node has the UID of the patient, or else shares the most studies with `keys`.

    Returns:
        The node, its record, and sentences on nodes that cannot be read; (None, empty record, ...) without such a node.
    """
    most, best, problems = 0, (None, FollowUp()), []
    for node in nodesOf(scene, _RECORD_CLASS):
        owner = node.GetAttribute(_RECORD_ATTRIBUTE)
        if owner is None:
            continue
        try:
            record = from_json(json.loads(node.GetText() or "null"))
        except (AnatomicalEmbeddingError, ValueError) as error:  # ValueError: no JSON
            problems.append(f"{node.GetName()}: {error} It stays in the scene, and a new follow-up begins.")
            continue
        studies = {study.key for study in record.studies} | {key for each in record.lesions for key in each.findings}
        shared = 10**6 if patient.uid and owner == patient.uid else len(studies.intersection(keys))
        if shared > most:
            most, best = shared, (node, record)
    return *best, problems


def createRecord(scene, patient: Patient):
    """Add a node for the follow-up of a patient, below the patient in the subject hierarchy."""
    node = scene.AddNewNodeByClass(_RECORD_CLASS, f"Follow-up of {patient.name}" if patient.name else "Follow-up")
    node.SetAttribute(_RECORD_ATTRIBUTE, patient.uid or _NOBODY)
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    person = ancestorOf(scene, patient.volumes[0], PATIENT) if patient.volumes else 0
    hierarchy.SetItemParent(itemOf(scene, node), person or hierarchy.GetSceneItemID())
    return node


def writeRecord(node, record: FollowUp) -> None:
    """Write a record into its node."""
    node.SetText(json.dumps(to_json(record), ensure_ascii=False, allow_nan=False))
