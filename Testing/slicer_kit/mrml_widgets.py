# ruff: noqa: N801, N802, N815 - the names are those of Slicer and Qt
"""Doubles of Slicer's own widgets, put on the `slicer` module and made known to .ui files."""

from typing import ClassVar

import slicer
from PySide6 import QtCore, QtWidgets

from slicer_kit.node_selectors import qMRMLCheckableNodeComboBox, qMRMLNodeComboBox
from slicer_kit.place_widget import qSlicerMarkupsPlaceWidget
from slicer_kit.pythonqt import stored, wrapped
from slicer_kit.ui_loader import register

_SCENE_SIGNAL = {"mrmlSceneChanged(vtkMRMLScene*)": "mrmlSceneChanged"}


@wrapped
class qMRMLWidget(QtWidgets.QWidget):
    """A widget that hands the scene on to those connected to it."""

    SIGNALS: ClassVar = _SCENE_SIGNAL
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
class qSlicerWidget(qMRMLWidget):
    """Base of widgets that need the application."""


@wrapped
class qSlicerScriptedLoadableModuleWidget(qSlicerWidget):
    """The panel that a module's widget class builds itself into; `isEntered` while the module is selected."""

    isEntered, setEntered = stored("isEntered", bool, False)
    moduleName, setModuleName = stored("moduleName", str, "")

    def self(self):
        """The Python widget of the module."""
        return getattr(slicer.modules, f"{self.moduleName}Widget")


def build() -> None:
    """Put the classes on `slicer` and make them known to .ui files."""
    classes = (
        qMRMLWidget,
        qSlicerWidget,
        qSlicerScriptedLoadableModuleWidget,
        qMRMLNodeComboBox,
        qMRMLCheckableNodeComboBox,
        qSlicerMarkupsPlaceWidget,
    )
    register(*classes)
    for cls in classes:
        setattr(slicer, cls.__name__, cls)
