"""Nodes of a scene: find nodes by class, name nodes, and place their items in the subject hierarchy.

The subject hierarchy is Slicer's tree of all data. Slicer creates an item in this tree for every visible node. Outside
Slicer, for example in the browser viewer, the functions below create these items.
"""

import os
import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b

import slicer
import vtk

from AnatomicalEmbedding.files import free_name

_HIDDEN = "AnatomicalEmbedding.Hidden"  # attribute of an item whose node is hidden from users

PATIENT = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMLevelPatient()
STUDY = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMLevelStudy()
UID = slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMUIDName()

# a new key for each run, so that a code cannot be traced back to a Patient ID
_KEY = os.urandom(16)


def fileNames(names: Sequence[str]) -> list[str]:
    """Return a unique file name for each node name. Characters that are not safe in file names are replaced by "_"."""
    unique: list[str] = []
    for name in names:
        plain = re.sub(r"[^\w-]+", "_", name).strip("_") or "scan"
        unique.append(free_name(plain, {fileName.casefold() for fileName in unique}))
    return unique


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
    hierarchy = hierarchyOf(scene)
    item = hierarchy.GetItemByDataNode(node)
    return item or hierarchy.CreateItem(hierarchy.GetSceneItemID(), node)


def addHiddenItem(scene, node) -> None:
    """Create the item of a hidden node in the subject hierarchy.

    Slicer creates items only for visible nodes, but logs an error each time a segmentation without an item changes.
    The saved scene contains the item even if it does not contain the node; `dropLostItems` later removes such items.
    """
    hierarchyOf(scene).SetItemAttribute(itemOf(scene, node), _HIDDEN, "1")


def showItem(scene, node) -> None:
    """Show a hidden node to users. See `addHiddenItem`."""
    hierarchyOf(scene).RemoveItemAttribute(itemOf(scene, node), _HIDDEN)
    node.SetHideFromEditors(False)


def dropLostItems(scene) -> None:
    """After a scene was loaded, remove the subject hierarchy items of hidden nodes that were not saved.

    Also removes the items of such nodes' segments, which Slicer may have moved to the top of the hierarchy.
    """
    hierarchy = hierarchyOf(scene)
    ofSegment = slicer.vtkMRMLSegmentationNode.GetSegmentIDAttributeName()
    for item in _childrenOf(hierarchy, hierarchy.GetSceneItemID()):
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
    hierarchyOf(scene).SetItemParent(itemOf(scene, node), _parentOf(scene, volumeNode))


def placeInFolder(scene, node, volumeNode, folderName: str) -> None:
    """Put a node into a folder next to a volume. A missing folder is created.

    Args:
        scene: the scene.
        node: the node.
        volumeNode: the volume.
        folderName: name of the folder.
    """
    hierarchy = hierarchyOf(scene)
    parent = _parentOf(scene, volumeNode)
    folders = (
        item
        for item in _childrenOf(hierarchy, parent)
        if hierarchy.GetItemName(item) == folderName and hierarchy.GetItemDataNode(item) is None
    )
    folder = next(folders, 0) or hierarchy.CreateFolderItem(parent, folderName)
    hierarchy.SetItemParent(itemOf(scene, node), folder)


def removeNode(scene, node) -> None:
    """Remove a node and its item in the subject hierarchy. Outside Slicer, removing the node would leave its item."""
    hierarchy = hierarchyOf(scene)
    item = hierarchy.GetItemByDataNode(node)
    if item:
        hierarchy.RemoveItem(item, False)  # must come before the node is removed
    scene.RemoveNode(node)


def freeName(scene, name: str) -> str:
    """Return a name that no node of the scene has: `name` itself, or `name` with a number."""
    return name if scene.GetFirstNodeByName(name) is None else scene.GenerateUniqueName(name)


def patientItem(scene, node) -> int:
    """Return the subject hierarchy item of the node's patient; if the node has no patient, the item of the scene."""
    return ancestorOf(scene, node, PATIENT) or hierarchyOf(scene).GetSceneItemID()


def placeUnderPatient(scene, node, patientId: str) -> None:
    """Put a node under a patient of the subject hierarchy. A missing patient is created.

    The scene, which users may share, then gets a random code instead of the Patient ID.

    Args:
        scene: the scene.
        node: the node.
        patientId: DICOM Patient ID; "" changes nothing.
    """
    if patientId:
        hierarchy = hierarchyOf(scene)
        code = blake2b(patientId.encode(), key=_KEY, digest_size=8).hexdigest()
        item = hierarchy.GetItemByUID(UID, patientId) or hierarchy.GetItemByUID(UID, code)
        if not item:
            item = hierarchy.CreateSubjectItem(hierarchy.GetSceneItemID(), "Patient")
            hierarchy.SetItemUID(item, UID, code)
        hierarchy.SetItemParent(itemOf(scene, node), item)


def haveOnePatient(scene, *nodes) -> bool | None:
    """Return True if all nodes belong to one patient of the subject hierarchy, False if they belong to different
    patients. Return None if this is not known, because a node has no patient."""
    items = {ancestorOf(scene, node, PATIENT) for node in nodes}
    if len(items - {0}) > 1:  # 0: no patient
        return False
    return None if 0 in items else True


def isPatientSaid(scene, node) -> bool:
    """Return True if a user has put the node under its patient; False if the patient came from DICOM."""
    item = ancestorOf(scene, node, PATIENT)
    return bool(item) and not hierarchyOf(scene).GetItemUID(item, UID)


def setOnePatient(scene, nodes: Iterable, isOne: bool) -> None:
    """Put nodes under one patient of the subject hierarchy, or each node under a patient of its own.

    Nodes of a patient with a UID, which came from DICOM, stay where they are. Patients without nodes are removed.

    Args:
        scene: the scene.
        nodes: the nodes.
        isOne: True for one patient, False for a patient for each node.
    """
    hierarchy = hierarchyOf(scene)
    before = {node: ancestorOf(scene, node, PATIENT) for node in nodes}  # 0: no patient
    fixed = [item for item in before.values() if item and hierarchy.GetItemUID(item, UID)]
    movable = [node for node, item in before.items() if item not in fixed]
    patient = fixed[0] if fixed else 0
    for node in movable:
        if not (isOne and patient):
            # the first node without a fixed patient; if there is not one patient, each such node
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
    hierarchy = hierarchyOf(scene)
    item = hierarchy.GetItemByDataNode(node)
    return hierarchy.GetItemAncestorAtLevel(item, level) if item else 0


def hierarchyOf(scene):
    """Return the subject hierarchy of a scene."""
    return slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)


def _childrenOf(hierarchy, item: int) -> list[int]:
    """Return the items directly below an item."""
    children = vtk.vtkIdList()
    hierarchy.GetItemChildren(item, children)
    return [children.GetId(n) for n in range(children.GetNumberOfIds())]


def _parentOf(scene, node) -> int:
    return hierarchyOf(scene).GetItemParent(itemOf(scene, node))
