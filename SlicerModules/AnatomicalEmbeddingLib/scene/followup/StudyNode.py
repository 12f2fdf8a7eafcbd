"""What the nodes that show a follow-up have in common: each belongs to a volume, and lies where that does."""

from __future__ import annotations

from ..Hierarchy import placeInFolder
from ..Views import keepingPlaceNode

VOLUME_ROLE = "AnatomicalEmbedding.Volume"
FOLDER = "Lesions"


def addStudyNode(scene, className: str, name: str, volumeNode):
    """A markups node in the folder of lesions beside its volume; not the one that the mouse places in."""
    with keepingPlaceNode(scene):
        node = scene.AddNewNodeByClass(className, name)
    node.CreateDefaultDisplayNodes()
    node.SetNodeReferenceID(VOLUME_ROLE, volumeNode.GetID())
    placeInFolder(scene, node, volumeNode, FOLDER)
    return node


def followVolume(node, volumeNode) -> None:
    """Below the same parent transform, so that the node's own coordinates are the volume's RAS mm."""
    wanted = volumeNode.GetTransformNodeID()
    if node.GetTransformNodeID() != wanted:
        node.SetAndObserveTransformNodeID(wanted)
