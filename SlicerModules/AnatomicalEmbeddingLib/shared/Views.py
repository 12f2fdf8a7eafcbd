"""Slice views as MRML nodes: finds the views of a volume, moves views to a point, draws nodes only in some views."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import slicer.util
from slicer.util import NodeModify

from .SceneNodes import nodesOf
from .VolumeNodes import bodyBounds, hasPixelSize, isFilm, toWorld

# in Slicer's colours
ORIENTATIONS = (("Axial", "#F34A33"), ("Sagittal", "#EDD54C"), ("Coronal", "#6EB04B"))
FIRST_VIEW_GROUP = 520  # views in one group move together; each scan has its own group
_COMPOSITE = "vtkMRMLSliceCompositeNode"
# attributes of display nodes
_HIDDEN = "AnatomicalEmbedding.Hidden"  # visibility in 2-D and 3-D before hiding; set while no view shows the volume
_OWNED = "AnatomicalEmbedding.Owned"  # the node is drawn only in views of its owner, the volume of _OWNER_ROLE
_OWNER_ROLE = "AnatomicalEmbedding.Owner"  # reference role
# roles of the references from answers, found boxes, outlines and examples to the volume to which they belong
_MARKS_OF = (
    "AnatomicalEmbedding.Volume",
    "AnatomicalEmbedding.OutlinedVolume",
    "AnatomicalEmbedding.ExampleVolume",
)
_CLICKS = "AnatomicalEmbedding.Clicks"  # the display node draws nothing; it only lets clicks in its views place points


def sliceNodes(scene) -> list:
    return nodesOf(scene, "vtkMRMLSliceNode")


def compositeOf(scene, sliceNode):
    """Return the node that states which volumes a slice view shows; None if the application has no such view yet."""
    name = sliceNode.GetLayoutName()
    return next((node for node in nodesOf(scene, _COMPOSITE) if node.GetLayoutName() == name), None)


def volumeIn(scene, sliceNode):
    """Return the volume in the background of a slice view, or None."""
    composite = compositeOf(scene, sliceNode)
    volumeId = None if composite is None else composite.GetBackgroundVolumeID()
    return scene.GetNodeByID(volumeId) if volumeId else None


def viewsOf(scene, volumeNode) -> list:
    """Return the slice nodes of the views that show this volume in the background."""
    volumeIds = dict(backgrounds(scene))
    return [
        node
        for node in sliceNodes(scene)
        if volumeIds.get(node.GetLayoutName()) == volumeNode.GetID()
    ]


def backgrounds(scene) -> list[tuple]:
    """Return (layout name, ID of the background volume) for each slice view."""
    return [
        (node.GetLayoutName(), node.GetBackgroundVolumeID()) for node in nodesOf(scene, _COMPOSITE)
    ]


def showInstead(scene, exchanges: Iterable[tuple]) -> None:
    """Show the volume `after` in each view that shows `before`. exchanges: pairs (before, after) of volume nodes."""
    # all views are found before a view is changed, because two volumes may be swapped
    changes = []
    for before, after in exchanges:
        if before is not after:
            changes += [(compositeOf(scene, view), after) for view in viewsOf(scene, before)]
    for composite, after in changes:
        composite.SetBackgroundVolumeID(after.GetID())


def jump(
    scene,
    volumeNode,
    pointWorld: Sequence[float],
    centre: bool = True,
    without=None,
    atMostMm: float | None = None,
) -> None:
    """Move the volume's views to a world point. A view of a film that shows the point does not move.

    Args:
        scene: the scene.
        volumeNode: the volume.
        pointWorld: (3,) world mm.
        centre: True to centre the views on the point, False to change only their slice.
        without: a slice node that is not moved, or None.
        atMostMm: largest length that the shorter side of a view may show, mm; a view that shows more is zoomed in.
            None for any length.
    """
    for node in viewsOf(scene, volumeNode):
        if node is without:
            continue
        node.JumpSliceByOffsetting(*pointWorld)
        if centre and not (isFilm(volumeNode) and _isInside(node, pointWorld)):
            node.JumpSliceByCentering(*pointWorld)
        width, height, depth = node.GetFieldOfView()
        if atMostMm is not None and min(width, height) > atMostMm:
            factor = atMostMm / min(width, height)
            node.SetFieldOfView(width * factor, height * factor, depth)


def _isInside(sliceNode, pointWorld: Sequence[float]) -> bool:
    """Return whether the projection of a point onto a slice lies in the part that its view shows."""
    toPixel = np.linalg.inv(slicer.util.arrayFromVTKMatrix(sliceNode.GetXYToRAS()))
    x, y = (toPixel @ [*pointWorld, 1.0])[:2]
    width, height = sliceNode.GetDimensions()[:2]
    return 0 <= x <= width and 0 <= y <= height


def pointInSlices(sliceNodes: Iterable) -> np.ndarray | None:
    """Return a point (3,), world mm, that lies in the slices of all these views. None without a view.

    The middle of the first view is moved into the slice of each next view, along the normal of this slice. So of two
    parallel slices, the last one counts.
    """
    point = None
    for node in sliceNodes:
        matrix = slicer.util.arrayFromVTKMatrix(node.GetSliceToRAS())
        normal = matrix[:3, 2]
        middle = matrix[:3, 3]
        if point is None:
            point = middle
        else:
            distanceMm = normal @ (middle - point)
            point = point + distanceMm * normal
    return point


def fit(scene, volumeNode, embedding=None) -> None:
    """Centre the views of a volume and zoom to show all of it, at the position given by its parent transform.

    Args:
        scene: the scene.
        volumeNode: the volume.
        embedding: the map of the volume, to zoom to the body. None to show the air around the body, too.
    """
    low, high = bodyBounds(volumeNode, embedding)
    if not (low < high).all():  # no image yet
        return
    for node in viewsOf(scene, volumeNode):
        # columns: directions to the right and up in the view
        axes = slicer.util.arrayFromVTKMatrix(node.GetSliceToRAS())[:3, :2]
        # size of the box around the volume, seen along the normal of the view: mm to the right, mm up
        sizeMm = (abs(axes) * (high - low)[:, None]).sum(axis=0)
        pixels = np.array(node.GetDimensions()[:2])
        mmPerPixel = (sizeMm / np.maximum(pixels, 1)).max()
        with NodeModify(node):
            node.SetXYZOrigin(0, 0, 0)
            node.SetFieldOfView(*(mmPerPixel * pixels), node.GetFieldOfView()[2])
            node.JumpSliceByCentering(*((low + high) / 2))


def setRuler(sliceNode, volumeNode) -> None:
    """Show a ruler in the view of a volume, or none if the volume is a film without a pixel size."""
    sliceNode.SetRulerType(
        sliceNode.RulerTypeThin if hasPixelSize(volumeNode) else sliceNode.RulerTypeNone
    )


def show(scene, volumeNode, insteadOf=None) -> None:
    """Show a volume, and zoom to show all of it.

    Args:
        scene: the scene.
        volumeNode: the volume.
        insteadOf: the volume whose views are used. If there are none, all views are used.
    """
    views = [] if insteadOf is None else viewsOf(scene, insteadOf)
    for node in views or sliceNodes(scene):
        composite = compositeOf(scene, node)
        if composite is not None:
            composite.SetBackgroundVolumeID(volumeNode.GetID())
    fit(scene, volumeNode)


def showBox(scene, volumeNode, box: np.ndarray) -> None:
    """Centre the views of a volume on a box. If no view shows the volume, all views show it first.

    Args:
        scene: the scene.
        volumeNode: the volume.
        box: (2, 3) in the volume's own RAS mm.
    """
    if not viewsOf(scene, volumeNode):
        show(scene, volumeNode)
    jump(scene, volumeNode, toWorld(volumeNode, [box.mean(axis=0)])[0])


def showOnlyIn(displayNode, scene, volumeNode) -> None:
    """Draw a display node only in the slice views of a volume.

    The display node is hidden while no slice view shows the volume. 3-D views draw the node only if the first slice
    view shows the volume. `OwnViews` updates the display node when views change.

    Args:
        displayNode: the display node; nothing is done for None.
        scene: the scene.
        volumeNode: the volume.
    """
    if displayNode is None:
        return
    if displayNode.GetAttribute(_OWNED) is None:
        displayNode.SetAttribute(_OWNED, "1")
    if displayNode.GetNodeReferenceID(_OWNER_ROLE) != volumeNode.GetID():
        displayNode.SetNodeReferenceID(_OWNER_ROLE, volumeNode.GetID())
    _restrict(displayNode, scene, volumeNode)


class OwnViews:
    """Draws display nodes only in the views of their volume, also after the views have changed.

    These are the display nodes that were given to `showOnlyIn`, also in an earlier session, and the display nodes of
    marks. A mark is a node of this extension that refers to its volume by one of the roles in `_MARKS_OF`.
    """

    def __init__(self, scene) -> None:
        self.scene = scene
        self._backgrounds: list[tuple] | None = None

    def follow(self) -> bool:
        """If a view shows another volume than at the last call, update all display nodes. Returns True if updated."""
        now = backgrounds(self.scene)
        if now == self._backgrounds:
            return False
        self._backgrounds = now
        for node in nodesOf(self.scene, "vtkMRMLDisplayableNode"):
            # the first reference to a volume that the node has, or None
            volume = next(filter(None, map(node.GetNodeReference, _MARKS_OF)), None)
            if volume is not None:
                showOnlyIn(node.GetDisplayNode(), self.scene, volume)
        for display in nodesOf(self.scene, "vtkMRMLDisplayNode"):
            if display.GetAttribute(_OWNED) is not None:
                _restrict(display, self.scene, display.GetNodeReference(_OWNER_ROLE))
        return True


def takeClicksIn(scene, listNode, volumeNodes: Iterable) -> None:
    """Let clicks in the views of volumes also place points of a list, without drawing the list in these views.

    A view places points of a list if a display node of the list names this view. So a second display node, which
    draws nothing, names these views.

    Args:
        scene: the scene.
        listNode: the list of points.
        volumeNodes: the volumes; empty to accept clicks only in the views that draw the list.
    """
    views = [node.GetID() for volume in volumeNodes for node in viewsOf(scene, volume)]
    drawing = listNode.GetDisplayNode()
    for n in range(listNode.GetNumberOfDisplayNodes()):
        display = listNode.GetNthDisplayNode(n)
        if display and display.GetAttribute(_CLICKS):
            if not views:
                scene.RemoveNode(display)
            elif list(display.GetViewNodeIDs()) != views:
                display.SetViewNodeIDs(views)
            return
    if views and drawing is not None:
        display = scene.CreateNodeByClass(drawing.GetClassName())
        display.UnRegister(None)
        display.SetAttribute(_CLICKS, "1")
        display.SetSaveWithScene(listNode.GetSaveWithScene())
        display.SetVisibility2D(False)
        display.SetVisibility3D(False)
        display.SetViewNodeIDs(views)  # before the node is added to the scene, where views use it
        scene.AddNode(display)
        listNode.AddAndObserveDisplayNodeID(display.GetID())


def _restrict(displayNode, scene, volumeNode) -> None:
    """Draw a display node only in the views that show a volume now. volumeNode: None for no view."""
    viewIds = [] if volumeNode is None else [node.GetID() for node in viewsOf(scene, volumeNode)]
    volumes = filter(None, (volumeIn(scene, view) for view in sliceNodes(scene)))
    # 3-D views draw only nodes of the volume that the first slice view with a volume shows
    if viewIds and next(volumes) is volumeNode:
        viewIds += [node.GetID() for node in nodesOf(scene, "vtkMRMLViewNode")]
    if list(displayNode.GetViewNodeIDs()) != viewIds:
        displayNode.SetViewNodeIDs(viewIds)
    _hide(displayNode, not viewIds)  # an empty list of views would mean all views


def _hide(displayNode, hidden: bool) -> None:
    """Hide a display node, or show it as before it was hidden. The user's own switch `Visibility` does not change."""
    # two digits, 0 or 1: visibility in 2-D and in 3-D views; None if not hidden
    before = displayNode.GetAttribute(_HIDDEN)
    if hidden and before is None:
        digits = f"{int(displayNode.GetVisibility2D())}{int(displayNode.GetVisibility3D())}"
        displayNode.SetVisibility2D(False)
        displayNode.SetVisibility3D(False)
        displayNode.SetAttribute(_HIDDEN, digits)
    elif before is not None and not hidden:
        displayNode.SetVisibility2D(int(before[0]))
        displayNode.SetVisibility3D(int(before[1]))
        displayNode.SetAttribute(_HIDDEN, None)


def isPlacing(scene) -> bool:
    """True if a click would place a point now."""
    mouse = scene.GetNodeByID("vtkMRMLInteractionNodeSingleton")
    return mouse is not None and mouse.GetCurrentInteractionMode() == mouse.Place


@contextmanager
def keepingPlaceNode(scene) -> Iterator[None]:
    """After the `with` block, clicks place points in the same list as before, even if the block creates markups."""
    selection = scene.GetNodeByID("vtkMRMLSelectionNodeSingleton")
    if selection is None:
        yield
        return
    className = selection.GetActivePlaceNodeClassName()
    nodeId = selection.GetActivePlaceNodeID()
    try:
        yield
    finally:
        if selection.GetActivePlaceNodeID() != nodeId:
            selection.SetReferenceActivePlaceNodeClassName(className)
            selection.SetReferenceActivePlaceNodeID(nodeId)
