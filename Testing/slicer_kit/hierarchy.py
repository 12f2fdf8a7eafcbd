"""Subject hierarchy items come and go with their nodes, as the application's plug-ins make them."""

import slicer
import vtk

_SHOWN = ("vtkMRMLStorableNode", "vtkMRMLPlotChartNode")


class HierarchyItems:
    """Observes a scene: an item for each new node that users see, none for nodes that are gone.

    A scene file brings its own items; nodes without one in the file get none here.
    """

    def __init__(self, scene) -> None:
        self._scene = scene
        # plain functions: VTK keeps them alive, and bound methods take no CallDataType
        on_added, on_removed = _with_node(self._add), _with_node(self._remove)
        scene.AddObserver(scene.NodeAddedEvent, on_added)
        scene.AddObserver(scene.NodeAboutToBeRemovedEvent, on_removed)
        scene.AddObserver(scene.EndCloseEvent, lambda *_event: clear_hierarchy(scene))

    def _hierarchy(self):
        return slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(self._scene)

    def _add(self, node) -> None:
        if self._scene.IsImporting() or node.GetHideFromEditors() or not any(node.IsA(kind) for kind in _SHOWN):
            return
        hierarchy = self._hierarchy()
        if not hierarchy.GetItemByDataNode(node):
            hierarchy.CreateItem(hierarchy.GetSceneItemID(), node)

    def _remove(self, node) -> None:
        if self._scene.IsClosing() or not any(node.IsA(kind) for kind in _SHOWN):
            return
        item = self._hierarchy().GetItemByDataNode(node)
        if item:
            self._hierarchy().RemoveItem(item, False, False)


def clear_hierarchy(scene) -> None:
    """Closing a scene leaves items of its nodes behind where the application's plug-ins are absent."""
    slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene).RemoveAllItems(False)


def _with_node(function):
    def observer(_caller, _event, node):
        function(node)

    observer.CallDataType = vtk.VTK_OBJECT
    return observer
