"""Add and remove subject hierarchy items together with their nodes, as the plug-ins of the application do."""

import slicer
import vtk

_SHOWN = ("vtkMRMLStorableNode", "vtkMRMLPlotChartNode")


def keep_items(scene) -> list[str]:
    """From now on there is an item for each new node that users see, and none for nodes that are gone.

    A scene file brings its own items; nodes without one in the file get none here. Returns the list of what Slicer
    logs as critical: each change of a segmentation that has no item, since the last `clear()`.
    """
    critical: list[str] = []

    def changed(node, _event) -> None:
        if scene.IsImporting():  # a scene file's items are there at its end
            return
        item = hierarchy_of(scene).GetItemByDataNode(node)
        if item:
            _add_segments(scene, item, node.GetSegmentation())
        else:
            critical.append(
                f"Unable to find subject hierarchy item for segmentation node {node.GetName()}"
            )

    def add(_caller, _event, node) -> None:
        if node.IsA("vtkMRMLSegmentationNode"):
            kind = slicer.vtkSegmentation
            for event in (
                kind.SegmentAdded,
                kind.SegmentRemoved,
                kind.SegmentModified,
                node.DisplayModifiedEvent,
            ):
                node.AddObserver(event, changed)
        if scene.IsImporting() or node.GetHideFromEditors() or not any(map(node.IsA, _SHOWN)):
            return
        hierarchy = hierarchy_of(scene)
        if not hierarchy.GetItemByDataNode(node):
            hierarchy.CreateItem(hierarchy.GetSceneItemID(), node)

    def remove(_caller, _event, node) -> None:
        item = 0 if scene.IsClosing() else hierarchy_of(scene).GetItemByDataNode(node)
        if item:
            hierarchy_of(scene).RemoveItem(item, False, False)

    add.CallDataType = remove.CallDataType = vtk.VTK_OBJECT
    scene.AddObserver(scene.NodeAddedEvent, add)
    scene.AddObserver(scene.NodeAboutToBeRemovedEvent, remove)
    scene.AddObserver(scene.EndCloseEvent, lambda *_event: clear_hierarchy(scene))
    return critical


def _add_segments(scene, item: int, segmentation) -> None:
    """An item for each segment, below that of its node."""
    hierarchy = hierarchy_of(scene)
    attribute = slicer.vtkMRMLSegmentationNode.GetSegmentIDAttributeName()
    known = {
        hierarchy.GetItemAttribute(child, attribute) for child in _items_below(hierarchy, item)
    }
    for segment_id in segmentation.GetSegmentIDs():
        if segment_id not in known:
            level = slicer.vtkMRMLSubjectHierarchyConstants.GetSubjectHierarchyVirtualBranchAttributeName()
            child = hierarchy.CreateHierarchyItem(
                item, segmentation.GetSegment(segment_id).GetName(), level
            )
            hierarchy.SetItemAttribute(child, attribute, segment_id)


def _items_below(hierarchy, item: int) -> list[int]:
    found = vtk.vtkIdList()
    hierarchy.GetItemChildren(item, found)
    return [found.GetId(n) for n in range(found.GetNumberOfIds())]


def hierarchy_of(scene):
    """The scene's subject hierarchy."""
    return slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)


def clear_hierarchy(scene) -> None:
    """Closing a scene leaves items of its nodes behind where the application's plug-ins are absent."""
    hierarchy_of(scene).RemoveAllItems(False)
