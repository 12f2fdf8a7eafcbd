"""Nodes of a scene: found by their class; named and placed in the subject hierarchy, next to a volume or in a folder.

In the application every node has an item of its own; elsewhere, as in the browser viewer, items are made here.
"""

from __future__ import annotations

import slicer
import vtk

_HIDDEN = "AnatomicalEmbedding.Hidden"  # of an item: its node is not for users


def nodesOf(scene, className: str) -> list:
    """Nodes of a class and its derived classes, in the scene's order.

    `slicer.util.getNodesByClass` searches `slicer.mrmlScene`, whatever scene it is given.
    """
    found = scene.GetNodesByClass(className)
    found.UnRegister(None)  # the collection comes with a reference that Python does not know of
    return list(found)


def itemOf(scene, node) -> int:
    """The node's item, which is made at the top of the hierarchy if it has none."""
    hierarchy = _hierarchy(scene)
    item = hierarchy.GetItemByDataNode(node)
    return item if item else hierarchy.CreateItem(hierarchy.GetSceneItemID(), node)


def addHiddenItem(scene, node) -> None:
    """Give a hidden node an item, which Slicer makes for other nodes alone: it logs an error at each change of a
    segmentation without an item. The item is saved even where its node is not; see `dropLostItems`.
    """
    _hierarchy(scene).SetItemAttribute(itemOf(scene, node), _HIDDEN, "1")


def dropLostItems(scene) -> None:
    """Remove items that a loaded scene has kept of hidden nodes, which were not saved: items of the nodes, and of their
    segments, which Slicer may have moved to the top.
    """
    hierarchy, children = _hierarchy(scene), vtk.vtkIdList()
    hierarchy.GetItemChildren(hierarchy.GetSceneItemID(), children)
    ofSegment = slicer.vtkMRMLSegmentationNode.GetSegmentIDAttributeName()
    for item in (children.GetId(n) for n in range(children.GetNumberOfIds())):
        isLost = hierarchy.HasItemAttribute(item, _HIDDEN) and hierarchy.GetItemDataNode(item) is None
        if isLost or hierarchy.HasItemAttribute(item, ofSegment):
            hierarchy.RemoveItem(item, False, True)


def placeNextTo(scene, node, volumeNode) -> None:
    """Give the node the parent that the volume has: its study, folder, or the scene."""
    _hierarchy(scene).SetItemParent(itemOf(scene, node), _parentOf(scene, volumeNode))


def placeInFolder(scene, node, volumeNode, folderName: str) -> None:
    """Put the node into the folder of this name next to the volume; the folder is made if need be."""
    hierarchy = _hierarchy(scene)
    hierarchy.SetItemParent(itemOf(scene, node), _folder(hierarchy, _parentOf(scene, volumeNode), folderName))


def removeNode(scene, node) -> None:
    """Remove a node and its item, which outside the application would stay."""
    hierarchy = _hierarchy(scene)
    item = hierarchy.GetItemByDataNode(node)
    if item:
        hierarchy.RemoveItem(item, False)  # before the node: its item cannot be forgotten cleanly afterwards
    scene.RemoveNode(node)


def freeName(scene, name: str) -> str:
    """The name, with a number behind it only where a node of the scene has it already."""
    return name if scene.GetFirstNodeByName(name) is None else scene.GenerateUniqueName(name)


def naming(node, sentence: str) -> str:
    """The sentence, with the node's name before it unless the sentence has it."""
    return sentence if node.GetName() in sentence else f"{node.GetName()}: {sentence}"


def patientItem(scene, node) -> int:
    """The item of the patient that holds the node; that of the scene for all nodes without a patient."""
    hierarchy = _hierarchy(scene)
    level = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMLevelPatient()
    return hierarchy.GetItemAncestorAtLevel(itemOf(scene, node), level) or hierarchy.GetSceneItemID()


def _hierarchy(scene):
    return slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)


def _parentOf(scene, node) -> int:
    return _hierarchy(scene).GetItemParent(itemOf(scene, node))


def _folder(hierarchy, parent: int, name: str) -> int:
    children = vtk.vtkIdList()
    hierarchy.GetItemChildren(parent, children)
    for child in (children.GetId(n) for n in range(children.GetNumberOfIds())):
        if hierarchy.GetItemName(child) == name and hierarchy.GetItemDataNode(child) is None:
            return child
    return hierarchy.CreateFolderItem(parent, name)
