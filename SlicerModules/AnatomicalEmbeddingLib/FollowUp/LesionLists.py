"""Which prior scan a list of lesions was made in: its points mean nothing in another one."""

from __future__ import annotations

from ..Landmarks.AnswerList import SOURCE_ROLE

PRIOR_ROLE = "AnatomicalEmbedding.Prior"
LABEL_FORMAT = "L%d"
_LIST_CLASS = "vtkMRMLMarkupsFiducialNode"


def priorOf(listNode):
    """The volume that the lesions were marked in, or None where the list belongs to none yet."""
    return listNode.GetNodeReference(PRIOR_ROLE)


def belongTo(listNode, volumeNode) -> None:
    """The list's points lie in this volume from now on."""
    if priorOf(listNode) is not volumeNode:
        listNode.SetNodeReferenceID(PRIOR_ROLE, volumeNode.GetID())


def holdsAnswers(listNode) -> bool:
    """Is the list an outcome of matching, in which no lesions are marked?"""
    return listNode.GetNodeReference(SOURCE_ROLE) is not None


def listOf(scene, volumeNode):
    """The first list of lesions that were marked in a volume, or None."""
    count = scene.GetNumberOfNodesByClass(_LIST_CLASS)
    nodes = (scene.GetNthNodeByClass(n, _LIST_CLASS) for n in range(count))
    return next((node for node in nodes if priorOf(node) is volumeNode), None)
