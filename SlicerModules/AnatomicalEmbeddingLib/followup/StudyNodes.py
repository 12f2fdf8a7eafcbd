"""Nodes of a follow-up in the scene: volumes with their study keys, markups nodes, and the text node with the record.

The text node stores the record as JSON. Therefore the record is saved and loaded with the scene.
"""

import json
from collections.abc import Iterable
from uuid import uuid4

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.lesions import Study as RecordStudy
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.record_file import from_json, to_json
from AnatomicalEmbedding.followup.study_inputs import in_order

from ..shared.SceneNodes import (
    PATIENT,
    STUDY,
    UID,
    ancestorOf,
    hierarchyOf,
    itemOf,
    nodesOf,
    placeInFolder,
)
from ..shared.Views import keepingPlaceNode
from ..shared.VolumeNodes import scans
from .StudyOrder import Patient

VOLUME_ROLE = "AnatomicalEmbedding.Volume"
_KEY_ATTRIBUTE = "AnatomicalEmbedding.StudyKey"
_FOLDER = "Lesions"
_RECORD_CLASS = "vtkMRMLTextNode"
_RECORD_ATTRIBUTE = "AnatomicalEmbedding.FollowUp"  # node attribute: UID of the patient, or _NOBODY
_NOBODY = "-"


# -- studies -----------------------------------------------------------------------------------------------------------


def keyedVolumes(scene) -> dict[str, object]:
    """Give each CT volume a unique key. Returns key -> volume node for all CT volumes.

    The key is the UID of the DICOM series. A volume without a UID gets a random key. The key is an attribute of the
    node, so a saved scene contains it. If a volume was copied, the copy gets a new key.
    """
    volumes: dict[str, object] = {}
    for volume in scans(scene):
        key = volume.GetAttribute(_KEY_ATTRIBUTE) or _seriesUid(scene, volume)
        if not key or key in volumes:
            key = uuid4().hex
        volume.SetAttribute(_KEY_ATTRIBUTE, key)
        volumes[key] = volume
    return volumes


def studiesOf(scene, patient: Patient) -> list[RecordStudy]:
    """Return a patient's studies for the record, in order of date. Call `keyedVolumes` first, to set the keys."""
    hierarchy = hierarchyOf(scene)
    studies = []
    for study in patient.studies:
        key = study.volume.GetAttribute(_KEY_ATTRIBUTE)
        item = ancestorOf(scene, study.volume, STUDY)
        studyUid = hierarchy.GetItemUID(item, UID) if item else ""
        studies.append(
            RecordStudy(key, study.name, study.date, studyUid, _seriesUid(scene, study.volume))
        )
    return studies


def inStudies(
    record: FollowUp, loaded: Iterable[RecordStudy], stored: Iterable[RecordStudy]
) -> FollowUp:
    """Return the record with the studies of the scene, and with other studies whose findings a person reviewed.

    Args:
        record: the record.
        loaded: the studies of the scene.
        stored: studies that are kept if they have a reviewed finding.
    """
    loaded = list(loaded)
    keys = {study.key for study in loaded}
    reviewed = {key for lesion in record.lesions for key in lesion.reviewed}
    absent = [study for study in stored if study.key in reviewed - keys]
    return record.with_studies(in_order(loaded, absent)[0])


def _seriesUid(scene, volumeNode) -> str:
    """Return the UID of the DICOM series of a volume; "" if it does not come from DICOM."""
    hierarchy = hierarchyOf(scene)
    item = hierarchy.GetItemByDataNode(volumeNode)
    return hierarchy.GetItemUID(item, UID) if item else ""


# -- markups -----------------------------------------------------------------------------------------------------------


def addStudyNode(scene, className: str, name: str, volumeNode):
    """Add a markups node for a volume, in the folder "Lesions". Mouse clicks place no points in the new node.

    Args:
        scene: the scene.
        className: MRML class of the node.
        name: name of the node.
        volumeNode: the volume.
    """
    with keepingPlaceNode(scene):
        node = scene.AddNewNodeByClass(className, name)
    node.CreateDefaultDisplayNodes()
    node.SetNodeReferenceID(VOLUME_ROLE, volumeNode.GetID())
    placeInFolder(scene, node, volumeNode, _FOLDER)
    return node


# -- the record --------------------------------------------------------------------------------------------------------


def findRecord(
    scene, patient: Patient, keys: Iterable[str]
) -> tuple[object | None, FollowUp, list[str]]:
    """Find the text node with the follow-up of a patient.

    If a node has the patient's UID, this node is returned. If not, the node is returned whose record contains the
    largest number of the study keys.

    Args:
        scene: the scene.
        patient: the patient.
        keys: keys of the patient's studies.

    Returns:
        The node, its record, and a sentence for each follow-up node that cannot be read. If no node is found, the node
        is None and the record is empty.
    """
    most = 0
    best = (None, FollowUp())
    problems = []
    for node in nodesOf(scene, _RECORD_CLASS):
        owner = node.GetAttribute(_RECORD_ATTRIBUTE)
        if owner is None:
            continue
        try:
            record = from_json(json.loads(node.GetText() or "null"))
        except (AnatomicalEmbeddingError, ValueError) as error:  # ValueError: the text is not JSON
            problems.append(
                f"{node.GetName()}: {error} The node is kept, and a new follow-up is started."
            )
            continue
        studies = {study.key for study in record.studies}
        studies.update(key for lesion in record.lesions for key in lesion.findings)
        shared = len(studies.intersection(keys))
        if patient.uid and owner == patient.uid:
            shared = 10**6  # more than any record of another owner can have
        if shared > most:
            most = shared
            best = (node, record)
    return *best, problems


def createRecord(scene, patient: Patient):
    """Add a text node for the record of a patient, as a child of the patient in the subject hierarchy."""
    node = scene.AddNewNodeByClass(
        _RECORD_CLASS, f"Follow-up of {patient.name}" if patient.name else "Follow-up"
    )
    node.SetAttribute(_RECORD_ATTRIBUTE, patient.uid or _NOBODY)
    hierarchy = hierarchyOf(scene)
    person = ancestorOf(scene, patient.volumes[0], PATIENT) if patient.volumes else 0
    hierarchy.SetItemParent(itemOf(scene, node), person or hierarchy.GetSceneItemID())
    return node


def writeRecord(node, record: FollowUp) -> None:
    node.SetText(json.dumps(to_json(record), ensure_ascii=False, allow_nan=False))
