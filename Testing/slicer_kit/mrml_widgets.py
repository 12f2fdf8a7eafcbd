# ruff: noqa: N801, N802, N815 - the names are those of Slicer and Qt
"""Doubles of Slicer's own widgets. They are added to the module `slicer`, and .ui files can use them."""

from typing import ClassVar

import slicer
import vtk
from PySide6 import QtCore, QtWidgets

from slicer_kit.node_selectors import qMRMLCheckableNodeComboBox, qMRMLNodeComboBox
from slicer_kit.pythonqt import stored, wrapped
from slicer_kit.scene_observation import SceneObservation
from slicer_kit.ui_loader import register


@wrapped
class qMRMLWidget(QtWidgets.QWidget):
    """A widget that hands the scene on to those connected to it."""

    SIGNALS: ClassVar = {"mrmlSceneChanged(vtkMRMLScene*)": "mrmlSceneChanged"}
    mrmlSceneChanged = QtCore.Signal(object)

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self._scene = None

    def mrmlScene(self):
        return self._scene

    def setMRMLScene(self, scene) -> None:
        if scene is not self._scene:
            self._scene = scene
            self.mrmlSceneChanged.emit(scene)


@wrapped
class qSlicerScriptedLoadableModuleWidget(qMRMLWidget):
    """The panel that a module's widget class builds itself into; `isEntered` while the module is selected."""

    isEntered, setEntered = stored("isEntered", bool, False)
    moduleName, setModuleName = stored("moduleName", str, "")


@wrapped
class qSlicerMarkupsPlaceWidget(qMRMLWidget):
    """Starts and ends place mode for one markups node, by one button.

    Place mode is a state of the scene (interaction and selection nodes); the widget only shows and changes it.
    """

    ShowPlaceMultipleMarkupsOption, HidePlaceMultipleMarkupsOption = range(2)
    ForcePlaceSingleMarkup, ForcePlaceMultipleMarkups = range(2, 4)

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self._node = self._interaction = self._selection = None
        self._multiple = self.ShowPlaceMultipleMarkupsOption
        self._observers = SceneObservation(self)
        self._place_button = QtWidgets.QToolButton()
        self._place_button.setText("\u2295")
        self._place_button.setToolTip("Place a control point")
        self._place_button.setCheckable(True)
        layout = QtWidgets.QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._place_button)
        layout.addStretch(1)
        self._place_button.toggled.connect(self.setPlaceModeEnabled)
        self._update()

    def setMRMLScene(self, scene) -> None:
        self._observers.clear()
        self._interaction = scene.GetNodeByID("vtkMRMLInteractionNodeSingleton")
        self._selection = scene.GetNodeByID("vtkMRMLSelectionNodeSingleton")
        for node in (self._interaction, self._selection):
            self._observers.add(node, (vtk.vtkCommand.ModifiedEvent,), self._update)
        self._observers.add(scene, (scene.NodeRemovedEvent, scene.EndCloseEvent), self._on_scene)
        super().setMRMLScene(scene)
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
        if self._scene is None or self._node is None:
            return False
        same_class = self._selection.GetActivePlaceNodeClassName() == self._node.GetClassName()
        return same_class and slicer.modules.markups.logic().GetActiveListID() == self._node.GetID()

    def _is_placing(self) -> bool:
        return (
            self._is_active()
            and self._interaction.GetCurrentInteractionMode() == self._interaction.Place
        )

    def setPlaceModeEnabled(self, enable: bool) -> None:
        """Nothing happens without a scene and a node, like in the original (which logs an error)."""
        if self._scene is None or self._node is None:
            return
        if enable and not self._is_active():
            slicer.modules.markups.logic().SetActiveList(self._node)
        if enable and self._multiple in (
            self.ForcePlaceSingleMarkup,
            self.ForcePlaceMultipleMarkups,
        ):
            self.setPlaceModePersistency(self._multiple == self.ForcePlaceMultipleMarkups)
        mouse = self._interaction
        mouse.SetCurrentInteractionMode(mouse.Place if enable else mouse.ViewTransform)

    def setPlaceModePersistency(self, persistent: bool) -> None:
        self._interaction.SetPlaceModePersistence(int(persistent))

    def setPlaceMultipleMarkups(self, kind: int) -> None:
        self._multiple = kind

    def placeButton(self) -> QtWidgets.QToolButton:
        return self._place_button

    def _update(self, *_event) -> None:
        self._place_button.setEnabled(self._scene is not None and self._node is not None)
        blocked = self._place_button.blockSignals(True)
        self._place_button.setChecked(self._is_placing())
        self._place_button.blockSignals(blocked)

    placeModeEnabled = QtCore.Property(bool, _is_placing, setPlaceModeEnabled)
    placeMultipleMarkups = QtCore.Property(
        int, lambda self: self._multiple, setPlaceMultipleMarkups
    )
    placeModePersistency = QtCore.Property(
        bool,
        lambda self: bool(self._interaction.GetPlaceModePersistence()),
        setPlaceModePersistency,
    )


def build() -> None:
    """Put the classes on `slicer` and make them known to .ui files."""
    selectors = (qMRMLNodeComboBox, qMRMLCheckableNodeComboBox)
    for cls in (
        qMRMLWidget,
        qSlicerScriptedLoadableModuleWidget,
        qSlicerMarkupsPlaceWidget,
        *selectors,
    ):
        register(cls)
        setattr(slicer, cls.__name__, cls)
