"""Temporary nodes, for example marks of places. They are not saved with the scene and not shown in node selectors."""

from collections.abc import Sequence

import vtk

from . import Views
from .SceneNodes import removeNode

_SIZE = 6.0  # size of a mark, per cent of the view


class PassingNodes:
    """Temporary nodes, at most one for each scan or view. This scan or view is called the owner of the node."""

    def __init__(self, scene) -> None:
        self.scene = scene
        self._nodes: dict[str, object] = {}  # by the ID of the owner
        self._ownViews = Views.OwnViews(scene)

    def of(self, owner):
        node = self._nodes.get(owner.GetID())
        return node if node is not None and node.GetScene() is self.scene else None

    def add(self, owner, className: str, name: str):
        """Add a node that is neither listed nor saved. Returns the node.

        Args:
            owner: the object that uses the node.
            className: MRML class of the node.
            name: name of the node.
        """
        node = self.scene.CreateNodeByClass(className)
        node.UnRegister(None)
        node.SetName(name)
        node.SetHideFromEditors(True)
        node.SetSaveWithScene(False)
        with Views.keepingPlaceNode(self.scene):
            self.scene.AddNode(node)
        self._nodes[owner.GetID()] = node
        return node

    def follow(self) -> None:
        """If a view now shows another scan, update which views draw each node. Call this a few times a second."""
        if self._nodes:
            self._ownViews.follow()

    def drop(self, ownerId: str) -> None:
        """Remove the node of an owner, given the owner's ID."""
        node = self._nodes.pop(ownerId, None)
        if node is not None and node.GetScene() is self.scene:
            display = node.GetDisplayNode()
            removeNode(self.scene, node)
            if display is not None and display.GetScene() is self.scene:
                # after its node, because Slicer crashes in the other order
                self.scene.RemoveNode(display)

    def clear(self) -> None:
        for ownerId in list(self._nodes):
            self.drop(ownerId)


class Markers(PassingNodes):
    """Marks with the same name and colour, at most one for each scan. A mark is drawn only in the views of its scan."""

    def __init__(self, scene, name: str, colour: Sequence[float]) -> None:
        super().__init__(scene)
        self._name = name
        self._colour = colour

    def put(self, volumeNode, world: Sequence[float]) -> None:
        """Move the mark of a scan to a point and show the mark. world: (3,) world mm."""
        node = self.of(volumeNode) or self._make(volumeNode)
        Views.showOnlyIn(node.GetDisplayNode(), self.scene, volumeNode)
        node.GetDisplayNode().SetVisibility(True)
        node.SetNthControlPointPositionWorld(0, *world)

    def hide(self, volumeNode) -> None:
        node = self.of(volumeNode)
        if node is not None:
            node.GetDisplayNode().SetVisibility(False)

    def _make(self, volumeNode):
        """Add the mark of a scan, at the origin."""
        node = self.add(volumeNode, "vtkMRMLMarkupsFiducialNode", self._name)
        node.CreateDefaultDisplayNodes()
        display = node.GetDisplayNode()
        display.SetSaveWithScene(False)
        display.SetSelectedColor(*self._colour)
        display.SetPointLabelsVisibility(False)
        display.SetGlyphTypeFromString("CrossDot2D")
        display.SetGlyphScale(_SIZE)
        node.AddControlPoint(vtk.vtkVector3d(0, 0, 0))
        node.SetNthControlPointLocked(0, True)
        return node
