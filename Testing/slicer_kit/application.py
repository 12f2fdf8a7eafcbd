# ruff: noqa: N802, N815 - the names are those of Slicer and Qt
"""`slicer.app` and `slicer.modules` without the application."""

import tempfile
from typing import ClassVar

import qt
import slicer
from PySide6 import QtCore, QtWidgets

from slicer_kit.layout import LayoutManager
from slicer_kit.pythonqt import wrapped
from slicer_kit.scene import SlicerCore


@wrapped
class ModuleManager(QtCore.QObject):
    """Knows the loaded modules."""

    SIGNALS: ClassVar = {
        "moduleAboutToBeUnloaded(QString)": "moduleAboutToBeUnloaded",
    }
    moduleAboutToBeUnloaded = QtCore.Signal(str)

    def module(self, name: str):
        return getattr(slicer.modules, name.lower(), None)


@wrapped
class Application(QtCore.QObject):
    """`slicer.app`: a session of a user (testingEnabled() is false) without a main window."""

    SIGNALS: ClassVar = {
        "startupCompleted()": "startupCompleted",
        "mrmlSceneChanged(vtkMRMLScene*)": "mrmlSceneChanged",
    }
    startupCompleted = QtCore.Signal()
    mrmlSceneChanged = QtCore.Signal(object)

    applicationName = QtCore.Property(str, lambda self: "Slicer")
    applicationVersion = QtCore.Property(str, lambda self: "5.12.4-0")
    documentationBaseUrl = QtCore.Property(str, lambda self: "https://slicer.readthedocs.io/en/latest/")
    temporaryPath = QtCore.Property(str, lambda self: tempfile.gettempdir())

    def __init__(self, core: SlicerCore, qt_application: QtWidgets.QApplication) -> None:
        super().__init__()
        self._core, self._qt = core, qt_application
        self._module_manager = ModuleManager()
        self._layout_manager: LayoutManager | None = None

    def mrmlScene(self):
        return self._core.scene

    def moduleManager(self) -> ModuleManager:
        return self._module_manager

    def layoutManager(self) -> LayoutManager | None:
        """None while there is no main window; see `Kit.open_window`."""
        return self._layout_manager

    def testingEnabled(self) -> bool:
        return False

    def settings(self):
        return qt.QSettings()

    userSettings = settings

    def processEvents(self, *_arguments) -> None:
        self._qt.processEvents()

    def topLevelWidgets(self) -> list:
        return self._qt.topLevelWidgets()

    def setOverrideCursor(self, cursor) -> None:
        self._qt.setOverrideCursor(cursor)

    def restoreOverrideCursor(self) -> None:
        self._qt.restoreOverrideCursor()

    def pauseRender(self) -> None:
        """Nothing renders here."""

    resumeRender = pauseRender
