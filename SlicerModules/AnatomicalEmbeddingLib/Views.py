"""Slice views on MRML nodes alone: which show a volume, moving them to a point, and a layout with one row a volume."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape

from .SceneNodes import nodesOf

GRID_LAYOUT = 5201  # number of our layout description; Slicer's own stay below 1000
_ROWS = "AnatomicalEmbedding.Rows"  # of the layout node, saved with it: the names of the rows
_VIEW_PREFIX = "AE"
_ORIENTATIONS = (("Axial", "#F34A33"), ("Sagittal", "#EDD54C"), ("Coronal", "#6EB04B"))
_FIRST_GROUP = 520  # view groups of our rows: views of one row move together, rows do not


def sliceNodes(scene) -> list:
    """All slice nodes of the scene."""
    return nodesOf(scene, "vtkMRMLSliceNode")


def compositeOf(scene, sliceNode):
    """What a slice view shows, or None before the application has made the view."""
    name = sliceNode.GetLayoutName()
    return next((node for node in _compositeNodes(scene) if node.GetLayoutName() == name), None)


def volumeIn(scene, sliceNode):
    """The volume in the background of a slice view, or None."""
    composite = compositeOf(scene, sliceNode)
    volumeId = None if composite is None else composite.GetBackgroundVolumeID()
    return scene.GetNodeByID(volumeId) if volumeId else None


def viewsOf(scene, volumeNode) -> list:
    """Slice nodes of the views with this volume in the background."""
    shown = dict(backgrounds(scene))
    return [node for node in sliceNodes(scene) if shown.get(node.GetLayoutName()) == volumeNode.GetID()]


def backgrounds(scene) -> list[tuple]:
    """(layout name, volume ID) of what each slice view has in its background: tells whether that has changed."""
    return [(node.GetLayoutName(), node.GetBackgroundVolumeID()) for node in _compositeNodes(scene)]


def showInstead(scene, exchanges: Iterable[tuple]) -> None:
    """(before, after): the views that show one volume show the other; what no view shows is in none afterwards."""
    found = [(view, after) for before, after in exchanges if before is not after for view in viewsOf(scene, before)]
    for view, after in found:  # looked up before: two volumes may change places
        compositeOf(scene, view).SetBackgroundVolumeID(after.GetID())


def jump(scene, volumeNode, pointWorld: Sequence[float], centre: bool = True, besides=None) -> None:
    """Move the volume's views to a world point; `besides` stays where it is, the view under the mouse."""
    for node in viewsOf(scene, volumeNode):
        if node is besides:
            continue
        if centre:
            node.JumpSliceByCentering(*pointWorld)
        else:
            node.JumpSliceByOffsetting(*pointWorld)


def showOnlyIn(displayNode, scene, volumeNode) -> None:
    """Restrict a display node to the views of a volume; shown everywhere while no view shows the volume."""
    wanted = [node.GetID() for node in viewsOf(scene, volumeNode)]
    if list(displayNode.GetViewNodeIDs()) != wanted:
        displayNode.SetViewNodeIDs(wanted)


def isPlacing(scene) -> bool:
    """Does a click place a point now?"""
    mouse = scene.GetNodeByID("vtkMRMLInteractionNodeSingleton")
    return mouse is not None and mouse.GetCurrentInteractionMode() == mouse.Place


def gridLayout(names: Sequence[str]) -> str:
    """Layout description with a row of axial, sagittal and coronal views for each volume of these names."""
    rows = []
    for row, name in enumerate(names):
        views = "".join(
            f'<item><view class="vtkMRMLSliceNode" singletontag="{viewTag(row, orientation)}">'
            f'<property name="orientation" action="default">{orientation}</property>'
            f'<property name="viewlabel" action="default">{row + 1}{orientation[0]}</property>'
            f'<property name="viewcolor" action="default">{colour}</property>'
            f'<property name="viewgroup" action="default">{_FIRST_GROUP + row}</property></view></item>'
            for orientation, colour in _ORIENTATIONS
        )
        rows.append(f'<item name="{escape(name)}"><layout type="horizontal">{views}</layout></item>')
    return f'<layout type="vertical" split="true">{"".join(rows)}</layout>'


def viewTag(row: int, orientation: str) -> str:
    """Singleton tag, and layout name, of a view of our layout."""
    return f"{_VIEW_PREFIX}{row + 1}{orientation}"


@contextmanager
def keepingPlaceNode(scene) -> Iterator[None]:
    """What is made inside does not become the list that the mouse places in, as every new markups node does."""
    selection = scene.GetNodeByID("vtkMRMLSelectionNodeSingleton")
    before = None if selection is None else (selection.GetActivePlaceNodeClassName(), selection.GetActivePlaceNodeID())
    try:
        yield
    finally:
        if selection is not None and selection.GetActivePlaceNodeID() != before[1]:
            selection.SetReferenceActivePlaceNodeClassName(before[0])
            selection.SetReferenceActivePlaceNodeID(before[1])


def offerGrid(scene) -> None:
    """Make our layout known, with two rows, before it is used: a scene saved in it would open without views. One that
    was saved with more gets them once it is loaded.
    """
    layoutNode = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    if layoutNode is not None and not layoutNode.IsLayoutDescription(GRID_LAYOUT):
        layoutNode.AddLayoutDescription(GRID_LAYOUT, gridLayout(["", ""]))
        scene.AddObserver(scene.EndImportEvent, lambda *_: _restoreGrid(scene))


def _restoreGrid(scene) -> None:
    layoutNode = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    names = None if layoutNode is None else layoutNode.GetAttribute(_ROWS)
    if names and layoutNode.GetViewArrangement() == GRID_LAYOUT:
        layoutNode.SetLayoutDescription(GRID_LAYOUT, gridLayout(json.loads(names)))


def showGrid(scene, volumeNodes: Sequence) -> bool:
    """Show each volume in a row of its own; False where the scene has no layout (no main window)."""
    layoutNode = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    if layoutNode is None or not volumeNodes:
        return False
    names = [volume.GetName() for volume in volumeNodes]
    description = gridLayout(names)
    if layoutNode.IsLayoutDescription(GRID_LAYOUT):
        layoutNode.SetLayoutDescription(GRID_LAYOUT, description)
    else:
        layoutNode.AddLayoutDescription(GRID_LAYOUT, description)
    layoutNode.SetAttribute(_ROWS, json.dumps(names))
    layoutNode.RemoveAllMaximizedViewNodes()  # a view that fills the window would go on doing so
    layoutNode.SetViewArrangement(GRID_LAYOUT)
    for row, volume in enumerate(volumeNodes):
        tags = {viewTag(row, orientation) for orientation, _ in _ORIENTATIONS}
        for node in sliceNodes(scene):
            if node.GetLayoutName() in tags:
                node.SetViewGroup(_FIRST_GROUP + row)
                composite = compositeOf(scene, node)
                if composite is not None:
                    composite.SetLinkedControl(True)
                    composite.SetBackgroundVolumeID(volume.GetID())
                    composite.SetForegroundVolumeID(None)
                    composite.SetLabelVolumeID(None)
    return True


def _compositeNodes(scene) -> list:
    return nodesOf(scene, "vtkMRMLSliceCompositeNode")
