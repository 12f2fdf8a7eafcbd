# ruff: noqa: N802, N803 - the names are those of Slicer and Qt
"""Double of slicer.ScriptedLoadableModule: the base classes of a scripted module, of its widget, logic and test."""

import logging
import sys
import unittest
from pathlib import Path

import qt
import slicer

__all__ = [  # noqa: RUF022 - modules import * from here
    "ScriptedLoadableModule",
    "ScriptedLoadableModuleWidget",
    "ScriptedLoadableModuleLogic",
    "ScriptedLoadableModuleTest",
]


class ScriptedLoadableModule:
    """The module itself: sets the header fields of `parent`."""

    def __init__(self, parent) -> None:
        super().__init__()
        self.parent = parent
        self.moduleName = type(self).__name__
        for extension in (".svg", ".png"):
            icon = (
                Path(parent.path).parent / "Resources" / "Icons" / f"{self.moduleName}{extension}"
            )
            if icon.is_file():
                parent.icon = qt.QIcon(str(icon))
                break

    def runTest(self, msec: int = 100) -> None:
        """What Reload and Test calls. msec: how long messages of the test are shown."""
        test = getattr(sys.modules[self.__module__], f"{self.moduleName}Test")()
        test.messageDelay = msec
        test.runTest()


class ScriptedLoadableModuleWidget:
    """The module's panel; `parent` is the widget to build it into."""

    def __init__(self, parent=None) -> None:
        super().__init__()
        self.moduleName = type(self).__name__.removesuffix("Widget")
        self.parent = parent
        self.layout = parent.layout()
        slicer.app.moduleManager().connect(
            "moduleAboutToBeUnloaded(QString)", self._onModuleAboutToBeUnloaded
        )

    def resourcePath(self, filename: str) -> str:
        return str(Path(slicer.util.modulePath(self.moduleName)).parent / "Resources" / filename)

    def setup(self) -> None:
        """Build the panel; derived classes call this first."""

    def enter(self) -> None:
        """The user has selected the module."""

    def exit(self) -> None:
        """The user has left the module."""

    def cleanup(self) -> None:
        """The module is about to be unloaded."""

    def _onModuleAboutToBeUnloaded(self, moduleName: str) -> None:
        if moduleName == self.moduleName:
            self.cleanup()
            slicer.app.moduleManager().disconnect(
                "moduleAboutToBeUnloaded(QString)", self._onModuleAboutToBeUnloaded
            )


class ScriptedLoadableModuleLogic:
    """Computation without widgets, and the module's parameter node in the scene."""

    def __init__(self, parent=None) -> None:
        super().__init__()
        self.moduleName = type(self).__name__.removesuffix("Logic")

    def getParameterNode(self):
        """The module's parameter node, created where the scene has none."""
        node = slicer.mrmlScene.GetSingletonNode(self.moduleName, "vtkMRMLScriptedModuleNode")
        if node is None:
            node = slicer.vtkMRMLScriptedModuleNode()
            node.SetSingletonTag(self.moduleName)
            node.SetName(slicer.mrmlScene.GenerateUniqueName(self.moduleName))
            node = slicer.mrmlScene.AddNode(node)
        node.SetAttribute("ModuleName", self.moduleName)  # closing the scene took it away
        return node


class ScriptedLoadableModuleTest(unittest.TestCase):
    """The self test of a module, run by the application's Test button."""

    messageDelay = 100  # noqa: N815

    def delayDisplay(self, message: str, requestedDelay=None, msec=None) -> None:
        slicer.util.delayDisplay(message, self.messageDelay)

    def runTest(self) -> None:
        logging.warning("No test is defined in %s", type(self).__name__)
