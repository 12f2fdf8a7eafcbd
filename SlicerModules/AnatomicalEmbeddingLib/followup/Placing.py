"""Clicks in the slice views that are taken for one thing: a lesion, its place, or an axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..shared import Views
from ..shared.SceneNodes import removeNode
from ..shared.Signal import Signal

POINT, LINE = "vtkMRMLMarkupsFiducialNode", "vtkMRMLMarkupsLineNode"
_CLICKS = {POINT: 1, LINE: 2}
_INTERACTION, _SELECTION = "vtkMRMLInteractionNodeSingleton", "vtkMRMLSelectionNodeSingleton"


class Placing:
    """While it is active the mouse places points in a node of its own, which is gone afterwards.

    changed(): it has begun or ended.
    """

    def __init__(self, scene) -> None:
        self.scene = scene
        self.changed = Signal()
        self.what = ""
        self._node = self._then = None
        self._tags: list[int] = []
        self._before: tuple = (None, None, 0)
        self._used: list = []

    @property
    def active(self) -> bool:
        """Does a click count now?"""
        return self._node is not None

    def start(self, className: str, what: str, then: Callable[[np.ndarray, object], None]) -> None:
        """Take one click (POINT) or two (LINE); then(places, volumeNode) gets (n, 3) world mm and the volume that was
        clicked, None where that is unknown. what: shown next to the mouse, and kept in `what`.
        """
        self.stop()
        mouse, selection = (self.scene.GetNodeByID(nodeId) for nodeId in (_INTERACTION, _SELECTION))
        persistence = mouse.GetPlaceModePersistence()
        self._before = (selection.GetActivePlaceNodeClassName(), selection.GetActivePlaceNodeID(), persistence)
        node = self.scene.CreateNodeByClass(className)
        node.UnRegister(None)
        node.SetHideFromEditors(True)
        node.SetSaveWithScene(False)
        node.SetName(what)
        node.SetControlPointLabelFormat(what)
        self.scene.AddNode(node)
        node.CreateDefaultDisplayNodes()
        self._node, self._then, self.what = node, then, what
        shown = {id: volume for _, id in Views.backgrounds(self.scene) if (volume := self.scene.GetNodeByID(id or ""))}
        Views.takeClicksIn(self.scene, node, shown.values())
        self._tags = [
            node.AddObserver(node.PointPositionDefinedEvent, self._onPlaced),
            node.AddObserver(node.PointAddedEvent, self._showWhereItIs),
            node.AddObserver(node.PointModifiedEvent, self._showWhereItIs),
        ]
        selection.SetReferenceActivePlaceNodeClassName(className)
        selection.SetReferenceActivePlaceNodeID(node.GetID())
        mouse.SetPlaceModePersistence(0)
        mouse.SetCurrentInteractionMode(mouse.Place)
        self.changed.emit()

    def stop(self) -> None:
        """Give the mouse back; what was half placed is forgotten."""
        if self._node is None:
            return
        node, self._node, self._then, self.what = self._node, None, None, ""
        for tag in self._tags:
            node.RemoveObserver(tag)
        self._used.append(node)
        if node.GetDisplayNode() is not None:
            node.GetDisplayNode().SetVisibility(False)
        mouse, selection = (self.scene.GetNodeByID(nodeId) for nodeId in (_INTERACTION, _SELECTION))
        if selection.GetActivePlaceNodeID() == node.GetID():  # else another tool has the mouse by now
            mouse.SetPlaceModePersistence(self._before[2])
            selection.SetReferenceActivePlaceNodeClassName(self._before[0])
            selection.SetReferenceActivePlaceNodeID(self._before[1])
            mouse.SetCurrentInteractionMode(mouse.ViewTransform)
        self.changed.emit()

    def poll(self) -> None:
        """To be called a few times a second: ends when the user has left place mode, and tidies up. Nodes go here, not
        at once, because the view whose click has placed the last point still works on them.
        """
        used, self._used = self._used, []
        for node in used:
            if node.GetScene() is self.scene:
                Views.takeClicksIn(self.scene, node, ())
                removeNode(self.scene, node)
        if self._node is not None and not self._isOurs():
            self.stop()

    def _isOurs(self) -> bool:
        mouse, selection = (self.scene.GetNodeByID(nodeId) for nodeId in (_INTERACTION, _SELECTION))
        placing = mouse.GetCurrentInteractionMode() == mouse.Place
        return placing and selection.GetActivePlaceNodeID() == self._node.GetID()

    def _showWhereItIs(self, caller, event: str) -> None:
        """What follows the mouse is drawn over the scan under it alone; so is an axis of which one end is placed."""
        over = self.scene.GetNodeByID(self._node.GetNthControlPointAssociatedNodeID(0) or "")
        if over is not None:
            Views.showOnlyIn(self._node.GetDisplayNode(), self.scene, over)
            if self._node.GetNumberOfDefinedControlPoints():
                Views.takeClicksIn(self.scene, self._node, [over])

    def _onPlaced(self, caller, event: str) -> None:
        node, then = self._node, self._then
        if node.GetNumberOfDefinedControlPoints() < _CLICKS[node.GetClassName()]:
            return
        count = range(node.GetNumberOfControlPoints())
        defined = [n for n in count if node.GetNthControlPointPositionStatus(n) == node.PositionDefined]
        places = np.array([node.GetNthControlPointPositionWorld(n) for n in defined])
        volume = self.scene.GetNodeByID(node.GetNthControlPointAssociatedNodeID(defined[0]) or "")
        self.stop()
        then(places, volume)
