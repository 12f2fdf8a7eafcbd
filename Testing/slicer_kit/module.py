# ruff: noqa: N802 - the names are those of Slicer
"""Double of a loaded scripted module, as `slicer.modules` returns it."""

from pathlib import Path


class Module:
    """A loaded scripted module, as `slicer.modules.<name>` shows it."""

    def __init__(self, name: str, path: Path, build) -> None:
        self.name = name
        self.path = str(path)
        self._build = build
        self.python = None  # the imported module file
        self.instance = None  # its ScriptedLoadableModule
        self.panel = None  # the qSlicerScriptedLoadableModuleWidget, once opened
        self.widget = None  # its ScriptedLoadableModuleWidget, once opened

    def widgetRepresentation(self):
        """The panel; built where it has not been yet, and not entered."""
        if self.widget is None:
            self._build(self)
        return self.panel


class ModuleHeader:
    """`parent` of a ScriptedLoadableModule: only the fields of qSlicerScriptedLoadableModule can be set."""

    __slots__ = (
        "acknowledgementText", "associatedNodeTypes", "categories", "contributors", "dependencies", "helpText",
        "hidden", "icon", "index", "name", "path", "title", "widgetRepresentationCreationEnabled",
    )  # fmt: skip

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path
        self.icon = None
