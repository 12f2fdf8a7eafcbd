"""Subject hierarchy items come and go with their nodes, as the application's plug-ins make them."""

import slicer
import vtk

_SHOWN = ("vtkMRMLStorableNode", "vtkMRMLPlotChartNode")


def keep_items(scene) -> None:
    """From now on there is an item for each new node that users see, and none for nodes that are gone.

    A scene file brings its own items; nodes without one in the file get none here.
    """

    def add(_caller, _event, node) -> None:
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


def hierarchy_of(scene):
    """The scene's subject hierarchy."""
    return slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)


def clear_hierarchy(scene) -> None:
    """Closing a scene leaves items of its nodes behind where the application's plug-ins are absent."""
    hierarchy_of(scene).RemoveAllItems(False)
