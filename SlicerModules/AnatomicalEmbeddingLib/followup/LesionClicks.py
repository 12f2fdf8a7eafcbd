"""Read mouse clicks in slice views: one click for the place of a lesion, or two clicks for the ends of an axis."""

import numpy as np

from ..landmarks.ControlPoints import definedIds, worldOf
from ..shared import Views
from ..shared.SceneNodes import removeNode
from ..shared.Signal import Signal

_POINT = "vtkMRMLMarkupsFiducialNode"
_LINE = "vtkMRMLMarkupsLineNode"
_INTERACTION = "vtkMRMLInteractionNodeSingleton"
_SELECTION = "vtkMRMLSelectionNodeSingleton"


class LesionClicks:
    """Waits for mouse clicks in slice views. Each click places a point in a temporary node, which is removed
    afterwards.

    lesion: id of the lesion to place or to measure; None for a new lesion. kind: LONG or SHORT if the clicks set the
    ends of an axis; "" if the click sets the place of the lesion. label: the text that the views show at the mouse.

    Signal changed(): waiting has begun or ended. Signal completed(lesion, kind, volumeNode, places): the last click was
    made. places: (n, 3) world RAS mm. volumeNode: the clicked volume, or None if it is not known.
    """

    def __init__(self, scene) -> None:
        self.scene = scene
        self.changed = Signal()
        self.completed = Signal()
        self.lesion: str | None = None
        self.kind = self.label = ""
        self._node = None
        self._tags: list[int] = []
        # class and ID of the node in which clicks placed points before, and whether the place mode persisted
        self._before: tuple = (None, None, 0)
        self._used: list = []  # nodes that `poll` removes

    @property
    def active(self) -> bool:
        """True while this object waits for clicks."""
        return self._node is not None

    def start(self, lesion: str | None, kind: str, label: str) -> None:
        """Wait for one click (a point) or for two clicks (a line).

        Args:
            lesion: ID of the lesion; None for a new lesion.
            kind: "" for a point, else the axis that the line becomes.
            label: label of the point or line.
        """
        self.stop()
        mouse, selection = self._mouseAndSelection()
        self._before = (
            selection.GetActivePlaceNodeClassName(),
            selection.GetActivePlaceNodeID(),
            mouse.GetPlaceModePersistence(),
        )
        className = _LINE if kind else _POINT
        node = self.scene.CreateNodeByClass(className)
        node.UnRegister(None)
        node.SetHideFromEditors(True)
        node.SetSaveWithScene(False)
        node.SetName(label)
        node.SetControlPointLabelFormat(label)
        self.scene.AddNode(node)
        node.CreateDefaultDisplayNodes()
        self._node = node
        self.lesion = lesion
        self.kind = kind
        self.label = label
        inViews = (Views.volumeIn(self.scene, view) for view in Views.sliceNodes(self.scene))
        volumes = dict.fromkeys(filter(None, inViews))  # each volume once
        Views.takeClicksIn(self.scene, node, volumes)
        self._tags = [
            node.AddObserver(node.PointPositionDefinedEvent, self._onPlaced),
            node.AddObserver(node.PointAddedEvent, self._showOverItsScan),
            node.AddObserver(node.PointModifiedEvent, self._showOverItsScan),
        ]
        selection.SetReferenceActivePlaceNodeClassName(className)
        selection.SetReferenceActivePlaceNodeID(node.GetID())
        mouse.SetPlaceModePersistence(0)
        mouse.SetCurrentInteractionMode(mouse.Place)
        self.changed.emit()

    def stop(self) -> None:
        """Stop waiting, and give the mouse back to the views.

        The node of the clicks, also an axis with only one end, is hidden, and removed by the next `poll`.
        """
        if self._node is None:
            return
        node = self._node
        self._node = None
        self.label = ""
        for tag in self._tags:
            node.RemoveObserver(tag)
        self._used.append(node)
        if node.GetDisplayNode() is not None:
            node.GetDisplayNode().SetVisibility(False)
        mouse, selection = self._mouseAndSelection()
        # otherwise another tool uses the mouse now
        if selection.GetActivePlaceNodeID() == node.GetID():
            className, nodeId, persistence = self._before
            selection.SetReferenceActivePlaceNodeClassName(className)
            selection.SetReferenceActivePlaceNodeID(nodeId)
            mouse.SetPlaceModePersistence(persistence)
            mouse.SetCurrentInteractionMode(mouse.ViewTransform)
        self.changed.emit()

    def poll(self) -> None:
        """Stop waiting if the user has left the place mode, and remove used nodes. Call `poll` a few times a second.

        A node is not removed right after the last click, because the clicked view still uses the node at that moment.
        """
        used = self._used
        self._used = []
        for node in used:
            if node.GetScene() is self.scene:
                Views.takeClicksIn(self.scene, node, ())
                removeNode(self.scene, node)
        mouse, selection = self._mouseAndSelection()
        isPlacing = mouse.GetCurrentInteractionMode() == mouse.Place
        if self._node is not None and not (
            isPlacing and selection.GetActivePlaceNodeID() == self._node.GetID()
        ):
            self.stop()

    def _mouseAndSelection(self) -> tuple:
        """Return the node with the mode of the mouse, and the node that says in which node clicks place points."""
        return self.scene.GetNodeByID(_INTERACTION), self.scene.GetNodeByID(_SELECTION)

    def _showOverItsScan(self, caller, event: str) -> None:
        """Show the point at the mouse, or the unfinished axis, only in views of the scan under the mouse."""
        over = self.scene.GetNodeByID(self._node.GetNthControlPointAssociatedNodeID(0) or "")
        if over is not None:
            Views.showOnlyIn(self._node.GetDisplayNode(), self.scene, over)
            if self._node.GetNumberOfDefinedControlPoints():
                Views.takeClicksIn(self.scene, self._node, [over])

    def _onPlaced(self, caller, event: str) -> None:
        """After the last click, stop waiting and emit `completed`."""
        node = self._node
        lesion = self.lesion
        kind = self.kind
        defined = definedIds(node)
        if len(defined) < (2 if kind else 1):
            return
        places = np.array([worldOf(node, pointId) for pointId in defined])
        first = node.GetControlPointIndexByID(defined[0])
        volume = self.scene.GetNodeByID(node.GetNthControlPointAssociatedNodeID(first) or "")
        self.stop()
        self.completed.emit(lesion, kind, volume, places)
