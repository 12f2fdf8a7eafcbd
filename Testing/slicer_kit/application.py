# ruff: noqa: N802, N815 - the names are those of Slicer and Qt
"""`slicer.app` and `slicer.modules` without the application."""

import os
import tempfile
import types
from pathlib import Path
from typing import ClassVar

import qt
import slicer
from PySide6 import QtCore, QtWidgets

from slicer_kit.layout import LayoutManager
from slicer_kit.pythonqt import wrapped
from slicer_kit.scene import SlicerCore, write_mrb

_READERS = {
    ".nii": "VolumeFile",
    ".nii.gz": "VolumeFile",
    ".nrrd": "VolumeFile",
    ".mha": "VolumeFile",
    ".mrk.json": "MarkupsFile",
    ".fcsv": "MarkupsFile",
    ".json": "MarkupsFile",
    ".seg.nrrd": "SegmentationFile",
    ".h5": "TransformFile",
    ".tfm": "TransformFile",
    ".csv": "TableFile",
    ".tsv": "TableFile",
    ".txt": "TextFile",
    ".mrb": "SceneFile",
    ".mrml": "SceneFile",
}


class CoreIOManager:
    """Loads and saves through the logics and storage nodes, as far as they need no application."""

    def __init__(self, core: SlicerCore) -> None:
        self._core = core

    def fileType(self, path: str) -> str:
        name = Path(path).name.lower()
        matching = [ending for ending in _READERS if name.endswith(ending)]
        return _READERS[max(matching, key=len)] if matching else "NoFile"

    def fileWriterFileType(self, _node) -> str:
        return "NodeFile"

    def loadNodes(self, file_type: str, properties: dict, loaded=None, messages=None) -> bool:
        path = properties["fileName"]
        path = path[0] if isinstance(path, list | tuple) else path
        if file_type == "SceneFile":
            return self._load_scene(path, clear=properties.get("clear", False))
        readers = {
            "VolumeFile": self._load_volume,
            "MarkupsFile": self._load_markups,
            "SegmentationFile": self._load_segmentation,
            "TransformFile": self._load_transform,
            "TableFile": self._load_table,
            "TextFile": self._load_text,
        }
        if file_type not in readers:
            raise NotImplementedError(f"the test kit reads no files of type {file_type}")
        if not Path(path).exists():
            return False
        name = properties.get("name") or Path(path).name.split(".")[0]
        node = readers[file_type](path, name, properties)
        if node is not None and loaded is not None:
            loaded.AddItem(node)
        return node is not None

    def _load_scene(self, path: str, clear: bool) -> bool:
        if path.endswith(".mrb"):
            return bool(self._core.scene.ReadFromMRB(path, clear))
        self._core.scene.SetURL(path)
        return bool(self._core.scene.Connect() if clear else self._core.scene.Import())

    def _load_volume(self, path: str, name: str, properties: dict):
        options = 1 if properties.get("labelmap") else 0
        return self._core.logics["Volumes"].AddArchetypeVolume(path, name, options)

    def _load_markups(self, path: str, name: str, _properties: dict):
        node_id = self._core.logics["Markups"].LoadMarkups(path, name)
        return self._core.scene.GetNodeByID(node_id) if node_id else None

    def _load_segmentation(self, path: str, name: str, _properties: dict):
        return self._core.logics["Segmentations"].LoadSegmentationFromFile(path, True, name)

    def _load_transform(self, path: str, _name: str, _properties: dict):
        return self._core.logics["Transforms"].AddTransform(path, self._core.scene)

    def _load_table(self, path: str, name: str, _properties: dict):
        return self._core.logics["Tables"].AddTable(path, name)

    def _load_text(self, path: str, name: str, _properties: dict):
        node = self._core.scene.AddNewNodeByClass("vtkMRMLTextNode", name)
        node.SetText(Path(path).read_text(encoding="utf-8"))
        return node

    def saveNodes(self, file_type: str, properties: dict, messages=None) -> bool:
        path = str(properties["fileName"])
        if file_type == "SceneFile":
            if not path.endswith(".mrb"):
                raise NotImplementedError("the test kit saves scenes as .mrb only")
            write_mrb(self._core.scene, path)
            return True
        node = self._core.scene.GetNodeByID(properties["nodeID"])
        node.AddDefaultStorageNode(path)
        node.GetStorageNode().SetFileName(path)
        return bool(node.GetStorageNode().WriteData(node))

    def addDefaultStorageNodes(self) -> None:
        for node in slicer.util.getNodesByClass("vtkMRMLStorableNode"):
            node.AddDefaultStorageNode()


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

    def factoryManager(self):
        return types.SimpleNamespace(loadedModuleNames=self.modulesNames)


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
        self._io_manager = CoreIOManager(core)
        self._module_manager = ModuleManager()
        self._testing = False
        self._layout_manager: LayoutManager | None = None

    def mrmlScene(self):
        return self._core.scene

    def applicationLogic(self):
        return self._core.application_logic

    def coreIOManager(self) -> CoreIOManager:
        return self._io_manager

    def ioManager(self) -> CoreIOManager:
        return self._io_manager

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

    def translate(self, _context: str, text: str) -> str:
        return text

    def processEvents(self, *_arguments) -> None:
        self._qt.processEvents()

    def topLevelWidgets(self) -> list:
        return self._qt.topLevelWidgets()

    def clipboard(self):
        return self._qt.clipboard()

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
