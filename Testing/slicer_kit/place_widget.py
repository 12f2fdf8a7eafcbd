# ruff: noqa: N801, N802, N815 - the names are those of Slicer and Qt
"""Double of qSlicerMarkupsPlaceWidget, on the real interaction and selection nodes."""

from typing import ClassVar

import slicer
import vtk
from PySide6 import QtCore, QtGui, QtWidgets

from slicer_kit.pythonqt import wrapped
from slicer_kit.scene_observation import SceneObservation


def _icon() -> QtGui.QIcon:
    """A circle with a cross."""
    pixmap = QtGui.QPixmap(16, 16)
    pixmap.fill(QtCore.Qt.GlobalColor.transparent)
    painter = QtGui.QPainter(pixmap)
    painter.setRenderHint(QtGui.QPainter.RenderHint.Antialiasing)
    painter.setPen(QtGui.QPen(QtGui.QColor("#c0392b"), 1.6))
    painter.drawEllipse(QtCore.QPointF(8, 8), 3, 3)
    for x0, y0, x1, y1 in ((8, 1, 8, 4), (8, 12, 8, 15), (1, 8, 4, 8), (12, 8, 15, 8)):
        painter.drawLine(x0, y0, x1, y1)
    painter.end()
    return QtGui.QIcon(pixmap)


@wrapped
class qSlicerMarkupsPlaceWidget(QtWidgets.QWidget):
    """Starts and ends place mode for one markups node, by one button.

    Place mode is a state of the scene (interaction and selection nodes); the widget only shows and changes it.
    """

    SIGNALS: ClassVar = {"mrmlSceneChanged(vtkMRMLScene*)": "mrmlSceneChanged"}
    mrmlSceneChanged = QtCore.Signal(object)

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self._scene = self._node = self._interaction = self._selection = None
        self._observers = SceneObservation(self)
        self._place_button = QtWidgets.QToolButton()
        self._place_button.setIcon(_icon())
        self._place_button.setToolTip("Place a control point")
        self._place_button.setCheckable(True)
        layout = QtWidgets.QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._place_button)
        layout.addStretch(1)
        self._place_button.toggled.connect(self.setPlaceModeEnabled)
        self._update()

    def mrmlScene(self):
        return self._scene

    def setMRMLScene(self, scene) -> None:
        self._observers.clear()
        self._scene = scene
        self._interaction = scene.GetNodeByID("vtkMRMLInteractionNodeSingleton") if scene is not None else None
        self._selection = scene.GetNodeByID("vtkMRMLSelectionNodeSingleton") if scene is not None else None
        for node in (self._interaction, self._selection):
            if node is not None:
                self._observers.add(node, (vtk.vtkCommand.ModifiedEvent,), self._update)
        if scene is not None:
            self._observers.add(scene, (scene.NodeRemovedEvent, scene.EndCloseEvent), self._on_scene)
        self.mrmlSceneChanged.emit(scene)
        self._update()

    def _on_scene(self, *_event) -> None:
        if self._node is not None and self._node.GetScene() is None:
            self.setCurrentNode(None)

    def currentNode(self):
        return self._node

    def setCurrentNode(self, node) -> None:
        self._node = slicer.vtkMRMLMarkupsNode.SafeDownCast(node) if node is not None else None
        self._update()

    def _is_active(self) -> bool:
        if self._scene is None or self._node is None or self._selection is None:
            return False
        same_class = self._selection.GetActivePlaceNodeClassName() == self._node.GetClassName()
        return same_class and _markups_logic().GetActiveListID() == self._node.GetID()

    def _is_placing(self) -> bool:
        return self._is_active() and self._interaction.GetCurrentInteractionMode() == self._interaction.Place

    def setPlaceModeEnabled(self, enable: bool) -> None:
        """Nothing happens without a scene and a node, like in the original (which logs an error)."""
        if self._scene is None or self._node is None:
            return
        if not enable:
            self._interaction.SetCurrentInteractionMode(self._interaction.ViewTransform)
            return
        if not self._is_active():
            _markups_logic().SetActiveList(self._node)
        self._interaction.SetCurrentInteractionMode(self._interaction.Place)

    def setPlaceModePersistency(self, persistent: bool) -> None:
        self._interaction.SetPlaceModePersistence(int(persistent))

    def placeButton(self) -> QtWidgets.QToolButton:
        return self._place_button

    def _update(self, *_event) -> None:
        self._place_button.setEnabled(self._scene is not None and self._node is not None)
        self._place_button.blockSignals(True)
        self._place_button.setChecked(self._is_placing())
        self._place_button.blockSignals(False)

    placeModeEnabled = QtCore.Property(bool, _is_placing, setPlaceModeEnabled)
    placeModePersistency = QtCore.Property(
        bool, lambda self: bool(self._interaction.GetPlaceModePersistence()), setPlaceModePersistency
    )


def _markups_logic():
    return slicer.modules.markups.logic()
