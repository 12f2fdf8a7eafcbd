# ruff: noqa: N802, N815 - the names are those of Slicer and Qt
"""`slicer.app` and `slicer.modules` without the application."""

import os
import tempfile
import types
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
        "moduleLoaded(QString)": "moduleLoaded",
        "moduleAboutToBeUnloaded(QString)": "moduleAboutToBeUnloaded",
    }
    moduleLoaded = QtCore.Signal(str)
    moduleAboutToBeUnloaded = QtCore.Signal(str)

    def module(self, name: str):
        return getattr(slicer.modules, name.lower(), None)

    def modulesNames(self) -> list[str]:
        return sorted(
            module.name for module in vars(slicer.modules).values() if hasattr(module, "widgetRepresentation")
        )


@wrapped
class Application(QtCore.QObject):
    """`slicer.app`: a session of a user (testingEnabled() is false) without a main window."""

    SIGNALS: ClassVar = {
        "startupCompleted()": "startupCompleted",
        "mrmlSceneChanged(vtkMRMLScene*)": "mrmlSceneChanged",
    }
    startupCompleted = QtCore.Signal()
    mrmlSceneChanged = QtCore.Signal(object)
    aboutToQuit = QtCore.Signal()
    lastWindowClosed = QtCore.Signal()

    applicationName = QtCore.Property(str, lambda self: "Slicer")
    applicationVersion = QtCore.Property(str, lambda self: "5.12.4-0")
    majorVersion = QtCore.Property(int, lambda self: 5)
    minorVersion = QtCore.Property(int, lambda self: 12)
    documentationBaseUrl = QtCore.Property(str, lambda self: "https://slicer.readthedocs.io/en/latest/")
    temporaryPath = QtCore.Property(str, lambda self: tempfile.gettempdir())
    slicerHome = QtCore.Property(str, lambda self: tempfile.gettempdir())
    slicerUserSettingsFilePath = QtCore.Property(str, lambda self: qt.QSettings().fileName())
    os = QtCore.Property(str, lambda self: "linux")
    arch = QtCore.Property(str, lambda self: "amd64")

    def __init__(self, core: SlicerCore, qt_application: QtWidgets.QApplication) -> None:
        super().__init__()
        self._core, self._qt = core, qt_application
        self._module_manager = ModuleManager()
        self._testing = False
        self._layout_manager: LayoutManager | None = None

    def mrmlScene(self):
        return self._core.scene

    def applicationLogic(self):
        return self._core.application_logic

    def moduleManager(self) -> ModuleManager:
        return self._module_manager

    def moduleLogic(self, name: str):
        module = self._module_manager.module(name)
        return module.logic() if module is not None else None

    def layoutManager(self) -> LayoutManager | None:
        """None while there is no main window; see `Kit.open_window`."""
        return self._layout_manager

    def testingEnabled(self) -> bool:
        return self._testing

    def commandOptions(self):
        return types.SimpleNamespace(testingEnabled=self._testing, noMainWindow=True)

    def settings(self):
        return qt.QSettings()

    userSettings = revisionUserSettings = settings

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

    def startupEnvironment(self):
        environment = QtCore.QProcessEnvironment()
        for name, value in os.environ.items():
            environment.insert(name, value)
        return environment
