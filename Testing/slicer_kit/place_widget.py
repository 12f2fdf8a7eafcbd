# ruff: noqa: N801, N802, N815 - the names are those of Slicer and Qt
"""Double of qSlicerMarkupsPlaceWidget, on the real interaction and selection nodes."""

from typing import ClassVar

import slicer
import vtk
from PySide6 import QtCore, QtGui, QtWidgets

from slicer_kit.pythonqt import stored, wrapped
from slicer_kit.scene_observation import SceneObservation

POINT_EVENTS = (
    vtk.vtkCommand.ModifiedEvent,
    slicer.vtkMRMLMarkupsNode.PointAddedEvent,
    slicer.vtkMRMLMarkupsNode.PointRemovedEvent,
    slicer.vtkMRMLMarkupsNode.PointPositionDefinedEvent,
    slicer.vtkMRMLMarkupsNode.PointPositionUndefinedEvent,
    slicer.vtkMRMLDisplayableNode.DisplayModifiedEvent,
)


def _icon(draw) -> QtGui.QIcon:
    pixmap = QtGui.QPixmap(16, 16)
    pixmap.fill(QtCore.Qt.GlobalColor.transparent)
    painter = QtGui.QPainter(pixmap)
    painter.setRenderHint(QtGui.QPainter.RenderHint.Antialiasing)
    draw(painter)
    painter.end()
    return QtGui.QIcon(pixmap)


def _draw_point(painter: QtGui.QPainter) -> None:
    painter.setPen(QtGui.QPen(QtGui.QColor("#c0392b"), 1.6))
    painter.drawEllipse(QtCore.QPointF(8, 8), 3, 3)
    for x0, y0, x1, y1 in ((8, 1, 8, 4), (8, 12, 8, 15), (1, 8, 4, 8), (12, 8, 15, 8)):
        painter.drawLine(x0, y0, x1, y1)


def _draw_bin(painter: QtGui.QPainter) -> None:
    painter.setPen(QtGui.QPen(QtGui.QColor("#505860"), 1.4))
    painter.drawRect(QtCore.QRectF(4, 5, 8, 9))
    painter.drawLine(2, 4, 14, 4)
    painter.drawLine(6, 2, 10, 2)


@wrapped
class qSlicerMarkupsPlaceWidget(QtWidgets.QWidget):
    """Starts and ends place mode for one markups node.

    Place mode is a state of the scene (interaction and selection nodes); the widget only shows and changes it.
    """

    ShowPlaceMultipleMarkupsOption, HidePlaceMultipleMarkupsOption = 0, 1
    ForcePlaceSingleMarkup, ForcePlaceMultipleMarkups = 2, 3

    SIGNALS: ClassVar = {"mrmlSceneChanged(vtkMRMLScene*)": "mrmlSceneChanged"}
    mrmlSceneChanged = QtCore.Signal(object)
    activeMarkupsPlaceModeChanged = QtCore.Signal(bool)
    placeMultipleMarkups, setPlaceMultipleMarkups = stored("placeMultipleMarkups", int, 0)

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self._scene = self._node = self._interaction = self._selection = None
        self._signaled = False
        self._updating = False
        self._scene_observers = SceneObservation(self)
        self._node_observers = SceneObservation(self)
        self._color_button = QtWidgets.QToolButton()
        self._place_button = QtWidgets.QToolButton()
        self._place_button.setIcon(_icon(_draw_point))
        self._place_button.setToolTip("Place a control point")
        self._place_button.setCheckable(True)
        self._delete_button = QtWidgets.QToolButton()
        self._delete_button.setIcon(_icon(_draw_bin))
        self._delete_button.setToolTip("Delete last added control point")
        self._buttons = (self._color_button, self._place_button, self._delete_button)
        layout = QtWidgets.QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for button in self._buttons:
            layout.addWidget(button)
        layout.addStretch(1)
        self._place_button.toggled.connect(self.setPlaceModeEnabled)
        self._delete_button.clicked.connect(self._delete_last)
        self._update()

    def mrmlScene(self):
        return self._scene

    def setMRMLScene(self, scene) -> None:
        self._scene_observers.clear()
        self._scene = scene
        logic_scene = _markups_logic().GetMRMLScene() if scene is not None else None
        self._interaction = logic_scene.GetNodeByID("vtkMRMLInteractionNodeSingleton") if logic_scene else None
        self._selection = logic_scene.GetNodeByID("vtkMRMLSelectionNodeSingleton") if logic_scene else None
        for node in (self._interaction, self._selection):
            if node is not None:
                self._scene_observers.add(node, (vtk.vtkCommand.ModifiedEvent,), self._update)
        if scene is not None:
            self._scene_observers.add(scene, (scene.NodeRemovedEvent, scene.EndCloseEvent), self._on_scene)
        self.mrmlSceneChanged.emit(scene)
        self._update()

    def _on_scene(self, *_event) -> None:
        if self._node is not None and self._node.GetScene() is None:
            self.setCurrentNode(None)

    def currentNode(self):
        return self._node

    def setCurrentNode(self, node) -> None:
        node = slicer.vtkMRMLMarkupsNode.SafeDownCast(node) if node is not None else None
        if node is self._node:
            return
        self._node_observers.clear()
        self._node = node
        if node is not None:
            self._node_observers.add(node, POINT_EVENTS, self._update)
        self._update()

    def _is_active(self) -> bool:
        if self._scene is None or self._node is None or self._selection is None:
            return False
        same_class = self._selection.GetActivePlaceNodeClassName() == self._node.GetClassName()
        return same_class and _markups_logic().GetActiveListID() == self._node.GetID()

    def setCurrentNodeActive(self, active: bool) -> None:
        if self._scene is None or self._is_active() == active:
            return
        _markups_logic().SetActiveList(self._node if active else None)
        if not active:
            self._interaction.SetCurrentInteractionMode(self._interaction.ViewTransform)

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
        if self.placeMultipleMarkups == self.ForcePlaceSingleMarkup:
            self._interaction.SetPlaceModePersistence(0)
        elif self.placeMultipleMarkups == self.ForcePlaceMultipleMarkups:
            self._interaction.SetPlaceModePersistence(1)
        self._interaction.SetCurrentInteractionMode(self._interaction.Place)

    def setPlaceModePersistency(self, persistent: bool) -> None:
        self._interaction.SetPlaceModePersistence(int(persistent))

    def placeButton(self) -> QtWidgets.QToolButton:
        return self._place_button

    def deleteButton(self) -> QtWidgets.QToolButton:
        return self._delete_button

    def _delete_last(self) -> None:
        self._node.RemoveNthControlPoint(self._node.GetNumberOfControlPoints() - 1)

    def _node_color(self) -> QtGui.QColor:
        if self._node is None or self._node.GetDisplayNode() is None:
            return QtGui.QColor(0, 255, 0)
        return QtGui.QColor.fromRgbF(*self._node.GetDisplayNode().GetSelectedColor())

    def _update(self, *_event) -> None:
        if self._updating:
            return
        self._updating = True
        usable = self._scene is not None and self._node is not None
        pixmap = QtGui.QPixmap(12, 12)
        pixmap.fill(self._node_color())
        self._color_button.setIcon(QtGui.QIcon(pixmap))
        self._color_button.setEnabled(usable)
        self._place_button.setEnabled(usable and self._can_take_points())
        self._delete_button.setEnabled(usable and self._node.GetNumberOfControlPoints() > 0)
        placing = self._is_placing()
        self._place_button.blockSignals(True)
        self._place_button.setChecked(placing)
        self._place_button.blockSignals(False)
        self._updating = False
        if placing != self._signaled:
            self._signaled = placing
            self.activeMarkupsPlaceModeChanged.emit(placing)

    def _can_take_points(self) -> bool:
        full = self._node.GetFixedNumberOfControlPoints() and not self._node.GetNumberOfUndefinedControlPoints()
        return not full

    placeModeEnabled = QtCore.Property(bool, _is_placing, setPlaceModeEnabled)
    currentNodeActive = QtCore.Property(bool, _is_active, setCurrentNodeActive)
    placeModePersistency = QtCore.Property(
        bool, lambda self: bool(self._interaction and self._interaction.GetPlaceModePersistence()),
        setPlaceModePersistency,
    )  # fmt: skip


def _markups_logic():
    return slicer.modules.markups.logic()
