"""The follow-up of a patient kept in the scene: a text node of JSON, saved and restored with it."""

from __future__ import annotations

import json
from collections.abc import Iterable

import slicer

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.record_file import from_json, to_json

from ..shared.SceneNodes import itemOf, nodesOf
from .StudyOrder import Patient

_CLASS = "vtkMRMLTextNode"
_ATTRIBUTE = "AnatomicalEmbedding.FollowUp"  # of the node: the UID of the patient, or
_NOBODY = "-"


def findRecord(scene, patient: Patient, keys: Iterable[str]) -> tuple[object | None, FollowUp, list[str]]:
    """Find the node with the follow-up of a patient.

    The node has the UID of the patient, or else shares the most studies with `keys`.

    Returns:
        The node, its record, and sentences on nodes that cannot be read; (None, empty record, ...) without such a node.
    """
    keys, best, problems = set(keys), (0, None, FollowUp()), []
    for node in nodesOf(scene, _CLASS):
        owner = node.GetAttribute(_ATTRIBUTE)
        if owner is None:
            continue
        try:
            record = readRecord(node)
        except AnatomicalEmbeddingError as error:
            problems.append(f"{error} It stays in the scene, and a new follow-up begins.")
            continue
        shared = 10**6 if patient.uid and owner == patient.uid else len(keys & _studiesIn(record))
        if shared > best[0]:
            best = (shared, node, record)
    return best[1], best[2], problems


def createRecord(scene, patient: Patient):
    """Add a node for the follow-up of a patient, below the patient in the subject hierarchy."""
    node = scene.AddNewNodeByClass(_CLASS, f"Follow-up of {patient.name}" if patient.name else "Follow-up")
    node.SetAttribute(_ATTRIBUTE, patient.uid or _NOBODY)
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    level = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMLevelPatient()
    scans = [itemOf(scene, volume) for volume in patient.volumes[:1]]
    person = hierarchy.GetItemAncestorAtLevel(scans[0], level) if scans else 0
    hierarchy.SetItemParent(itemOf(scene, node), person or hierarchy.GetSceneItemID())
    return node


def readRecord(node) -> FollowUp:
    """Read the record of a node. Raises AnatomicalEmbeddingError, naming the node, for any other text."""
    try:
        return from_json(json.loads(node.GetText() or "null"))
    except ValueError as error:
        raise AnatomicalEmbeddingError(f"{node.GetName()}: its text is not JSON ({error}).") from error
    except AnatomicalEmbeddingError as error:
        raise AnatomicalEmbeddingError(f"{node.GetName()}: {error}") from error


def writeRecord(node, record: FollowUp) -> None:
    """Write a record into its node."""
    text = json.dumps(to_json(record), ensure_ascii=False, allow_nan=False)
    if text != node.GetText():
        node.SetText(text)


def _studiesIn(record: FollowUp) -> set[str]:
    return {study.key for study in record.studies} | {key for lesion in record.lesions for key in lesion.findings}
