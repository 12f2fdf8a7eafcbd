# ruff: noqa: N801, N802, N815 - the names are those of Slicer and Qt
"""Doubles of Slicer's own widgets, put on the `slicer` module and made known to .ui files."""

from typing import ClassVar

import slicer
from PySide6 import QtCore, QtWidgets

from slicer_kit import ctk_double
from slicer_kit.node_selectors import qMRMLCheckableNodeComboBox, qMRMLNodeComboBox
from slicer_kit.place_widget import qSlicerMarkupsPlaceWidget
from slicer_kit.pythonqt import stored, wrapped
from slicer_kit.segment_selector import qMRMLSegmentSelectorWidget
from slicer_kit.simple_markups_widget import qSlicerSimpleMarkupsWidget
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


@wrapped
class qMRMLCollapsibleButton(ctk_double.ctkCollapsibleButton):
    """A collapsible button that hands the scene on."""

    SIGNALS: ClassVar = _SCENE_SIGNAL
    mrmlSceneChanged = QtCore.Signal(object)

    def setMRMLScene(self, scene) -> None:
        self.mrmlSceneChanged.emit(scene)


class _TakesScene:
    """Shows the units of the scene in the application; here the scene is only kept."""

    _scene = None

    def setMRMLScene(self, scene) -> None:
        self._scene = scene

    def mrmlScene(self):
        return self._scene


@wrapped
class qMRMLSliderWidget(_TakesScene, ctk_double.ctkSliderWidget):
    """A slider with the unit of a quantity."""

    quantity, setQuantity = stored("quantity", str, "")
    unitAwareProperties, setUnitAwareProperties = stored("unitAwareProperties", int, 0)


@wrapped
class qMRMLSpinBox(_TakesScene, ctk_double.ctkDoubleSpinBox):
    """A spin box with the unit of a quantity."""

    quantity, setQuantity = stored("quantity", str, "")
    unitAwareProperties, setUnitAwareProperties = stored("unitAwareProperties", int, 0)


@wrapped
class qMRMLRangeWidget(_TakesScene, ctk_double.ctkRangeWidget):
    """A range with the unit of a quantity."""

    quantity, setQuantity = stored("quantity", str, "")


def build() -> None:
    """Put the classes on `slicer` and make them known to .ui files."""
    classes = (
        qMRMLWidget,
        qSlicerWidget,
        qSlicerScriptedLoadableModuleWidget,
        qMRMLNodeComboBox,
        qMRMLCheckableNodeComboBox,
        qMRMLSegmentSelectorWidget,
        qSlicerMarkupsPlaceWidget,
        qSlicerSimpleMarkupsWidget,
        qMRMLCollapsibleButton,
        qMRMLSliderWidget,
        qMRMLSpinBox,
        qMRMLRangeWidget,
    )
    register(*classes)
    for cls in classes:
        setattr(slicer, cls.__name__, cls)
