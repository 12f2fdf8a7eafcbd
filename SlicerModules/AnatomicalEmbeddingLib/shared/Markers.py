"""A mark at one place of each scan: drawn in the scan's views alone, never saved, listed nowhere."""

from __future__ import annotations

from collections.abc import Sequence

import vtk

from . import Views

_SIZE = 6.0  # per cent of the view; points are half as large


class Markers:
    """At most one mark for each scan, of one name and colour."""

    def __init__(self, scene, name: str, colour: Sequence[float]) -> None:
        self.scene = scene
        self._name, self._colour = name, colour
        self._nodes: dict[str, str] = {}  # by volume ID
        self._ownViews = Views.OwnViews(scene)

    def of(self, volumeNode):
        """The mark's node in a scan, or None."""
        return self.scene.GetNodeByID(self._nodes.get(volumeNode.GetID(), ""))

    def put(self, volumeNode, world: Sequence[float]) -> None:
        """Show the mark of a scan at a place (3,), world mm."""
        node = self.of(volumeNode)
        if node is None:
            node = self._made()
            self._nodes[volumeNode.GetID()] = node.GetID()
        Views.showOnlyIn(node.GetDisplayNode(), self.scene, volumeNode)
        node.GetDisplayNode().SetVisibility(True)
        node.SetNthControlPointPositionWorld(0, *world)

    def hide(self, volumeNode) -> None:
        """Do not draw the mark of a scan."""
        node = self.of(volumeNode)
        if node is not None:
            node.GetDisplayNode().SetVisibility(False)

    def follow(self) -> None:
        """Let marks follow their scans into other views; to be called a few times a second."""
        if self._nodes:
            self._ownViews.follow()

    def clear(self) -> None:
        """Remove all marks."""
        nodes = [self.scene.GetNodeByID(nodeId) for nodeId in self._nodes.values()]
        self._nodes = {}
        for node in nodes:
            if node is not None:
                self.scene.RemoveNode(node)

    def _made(self):
        """A point list with one locked point, without a label."""
        node = self.scene.CreateNodeByClass("vtkMRMLMarkupsFiducialNode")
        node.UnRegister(None)
        node.SetName(self._name)
        node.SetHideFromEditors(True)
        node.SetSaveWithScene(False)
        with Views.keepingPlaceNode(self.scene):
            self.scene.AddNode(node)
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
