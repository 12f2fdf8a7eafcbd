"""Nodes of a scene: find nodes by class, name nodes, and place their items in the subject hierarchy.

The subject hierarchy is Slicer's tree of all data. Slicer creates an item in this tree for every visible node. Outside
Slicer, for example in the browser viewer, the functions below create these items.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import blake2b

import slicer
import vtk

_HIDDEN = "AnatomicalEmbedding.Hidden"  # attribute of an item whose node is hidden from users

_PATIENT = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMLevelPatient()

# a new key for each run, so that a code cannot be traced back to a Patient ID
_KEY = os.urandom(16)


def nodesOf(scene, className: str) -> list:
    """Return the nodes of a class and its derived classes, in the scene's order.

    `slicer.util.getNodesByClass` cannot be used: it always searches `slicer.mrmlScene`, not the given scene.
    """
    collection = scene.GetNodesByClass(className)
    # releases the reference to the collection that Python does not release itself
    collection.UnRegister(None)
    return list(collection)


def itemOf(scene, node) -> int:
    """Return the node's item in the subject hierarchy. A missing item is created at the top of the hierarchy."""
    hierarchy = _hierarchy(scene)
    item = hierarchy.GetItemByDataNode(node)
    return item if item else hierarchy.CreateItem(hierarchy.GetSceneItemID(), node)


def addHiddenItem(scene, node) -> None:
    """Create the item of a hidden node in the subject hierarchy.

    Slicer creates items only for visible nodes, but logs an error each time a segmentation without an item changes.
    The saved scene contains the item even if it does not contain the node; `dropLostItems` later removes such items.
    """
    _hierarchy(scene).SetItemAttribute(itemOf(scene, node), _HIDDEN, "1")


def showItem(scene, node) -> None:
    """Show a hidden node to users. See `addHiddenItem`."""
    _hierarchy(scene).RemoveItemAttribute(itemOf(scene, node), _HIDDEN)
    node.SetHideFromEditors(False)


def dropLostItems(scene) -> None:
    """After a scene was loaded, remove the subject hierarchy items of hidden nodes that were not saved.

    Also removes the items of such nodes' segments, which Slicer may have moved to the top of the hierarchy.
    """
    hierarchy = _hierarchy(scene)
    children = vtk.vtkIdList()
    hierarchy.GetItemChildren(hierarchy.GetSceneItemID(), children)
    ofSegment = slicer.vtkMRMLSegmentationNode.GetSegmentIDAttributeName()
    for item in (children.GetId(n) for n in range(children.GetNumberOfIds())):
        isLost = (
            hierarchy.HasItemAttribute(item, _HIDDEN) and hierarchy.GetItemDataNode(item) is None
        )
        if isLost or hierarchy.HasItemAttribute(item, ofSegment):
            hierarchy.RemoveItem(item, False, True)


def placeNextTo(scene, node, volumeNode) -> None:
    """In the subject hierarchy, put a node under the parent of a volume: a study, a folder, or the scene.

    Args:
        scene: the scene.
        node: the node.
        volumeNode: the volume.
    """
    _hierarchy(scene).SetItemParent(itemOf(scene, node), _parentOf(scene, volumeNode))


def placeInFolder(scene, node, volumeNode, folderName: str) -> None:
    """Put a node into a folder next to a volume. A missing folder is created.

    Args:
        scene: the scene.
        node: the node.
        volumeNode: the volume.
        folderName: name of the folder.
    """
    hierarchy = _hierarchy(scene)
    parent = _parentOf(scene, volumeNode)
    children = vtk.vtkIdList()
    hierarchy.GetItemChildren(parent, children)
    items = [children.GetId(n) for n in range(children.GetNumberOfIds())]
    named = (item for item in items if hierarchy.GetItemName(item) == folderName)
    folder = next((item for item in named if hierarchy.GetItemDataNode(item) is None), 0)
    hierarchy.SetItemParent(
        itemOf(scene, node), folder or hierarchy.CreateFolderItem(parent, folderName)
    )


def removeNode(scene, node) -> None:
    """Remove a node and its item in the subject hierarchy. Outside Slicer, removing the node would leave its item."""
    hierarchy = _hierarchy(scene)
    item = hierarchy.GetItemByDataNode(node)
    if item:
        hierarchy.RemoveItem(item, False)  # must come before the node is removed
    scene.RemoveNode(node)


def freeName(scene, name: str) -> str:
    """Return a name that no node of the scene has: `name` itself, or `name` with a number."""
    return name if scene.GetFirstNodeByName(name) is None else scene.GenerateUniqueName(name)


def naming(node, sentence: str) -> str:
    """Return the sentence. If it does not contain the name of the node, put this name before the sentence."""
    return sentence if node.GetName() in sentence else f"{node.GetName()}: {sentence}"


def patientItem(scene, node) -> int:
    """Return the subject hierarchy item of the node's patient; if the node has no patient, the item of the scene."""
    return ancestorOf(scene, node, _PATIENT) or _hierarchy(scene).GetSceneItemID()


def placeUnderPatient(scene, node, patientId: str) -> None:
    """Put a node under a patient of the subject hierarchy. A missing patient is created.

    The scene, which users may share, then gets a random code instead of the Patient ID.

    Args:
        scene: the scene.
        node: the node.
        patientId: DICOM Patient ID; "" changes nothing.
    """
    if patientId:
        hierarchy = _hierarchy(scene)
        uid = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMUIDName()
        code = blake2b(patientId.encode(), key=_KEY, digest_size=8).hexdigest()
        item = hierarchy.GetItemByUID(uid, patientId) or hierarchy.GetItemByUID(uid, code)
        if not item:
            item = hierarchy.CreateSubjectItem(hierarchy.GetSceneItemID(), "Patient")
            hierarchy.SetItemUID(item, uid, code)
        hierarchy.SetItemParent(itemOf(scene, node), item)


def haveOnePatient(scene, *nodes) -> bool | None:
    """Return True if all nodes belong to one patient of the subject hierarchy, False if they belong to different
    patients. Return None if this is not known, because a node has no patient."""
    items = {ancestorOf(scene, node, _PATIENT) for node in nodes}
    return False if len(items - {0}) > 1 else None if 0 in items else True


def isPatientSaid(scene, node) -> bool:
    """Return True if a user has put the node under its patient; False if the patient came from DICOM."""
    item = ancestorOf(scene, node, _PATIENT)
    uid = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMUIDName()
    return bool(item) and not _hierarchy(scene).GetItemUID(item, uid)


def setOnePatient(scene, nodes: Iterable, isOne: bool) -> None:
    """Put nodes under one patient of the subject hierarchy, or each node under a patient of its own.

    Nodes of a patient with a UID, which came from DICOM, stay where they are. Patients without nodes are removed.

    Args:
        scene: the scene.
        nodes: the nodes.
        isOne: True for one patient, False for a patient for each node.
    """
    hierarchy = _hierarchy(scene)
    uid = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMUIDName()
    before = {node: ancestorOf(scene, node, _PATIENT) for node in nodes}
    fixed = [item for item in before.values() if item and hierarchy.GetItemUID(item, uid)]
    movable = [node for node, item in before.items() if item not in fixed]
    patient = fixed[0] if fixed else 0
    for node in movable:
        if not (isOne and patient):
            name = hierarchy.GenerateUniqueItemName("Patient")
            patient = hierarchy.CreateSubjectItem(hierarchy.GetSceneItemID(), name)
        hierarchy.SetItemParent(itemOf(scene, node), patient)
    for item in {before[node] for node in movable} - {0}:
        if hierarchy.GetNumberOfItemChildren(item) == 0:
            hierarchy.RemoveItem(item, False)


def ancestorOf(scene, node, level: str) -> int:
    """Return the item of a node's patient or study; 0 if there is no such item.

    Args:
        scene: the scene.
        node: the node.
        level: "Patient" or "Study".
    """
    hierarchy = _hierarchy(scene)
    item = hierarchy.GetItemByDataNode(node)
    return hierarchy.GetItemAncestorAtLevel(item, level) if item else 0


def _hierarchy(scene):
    return slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)


def _parentOf(scene, node) -> int:
    return _hierarchy(scene).GetItemParent(itemOf(scene, node))
