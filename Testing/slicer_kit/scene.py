"""The MRML scene and the module logics from slicer-core, without Qt and without the application."""

import atexit
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import slicer

from slicer_kit import i18n
from slicer_kit.errors import silent_vtk, vtk_errors
from slicer_kit.hierarchy import clear_hierarchy

_LOGICS = {
    "Volumes": "vtkSlicerVolumesLogic", "Markups": "vtkSlicerMarkupsLogic", "Models": "vtkSlicerModelsLogic",
    "Segmentations": "vtkSlicerSegmentationsModuleLogic", "Transforms": "vtkSlicerTransformLogic",
    "SubjectHierarchy": "vtkSlicerSubjectHierarchyModuleLogic", "Units": "vtkSlicerUnitsLogic",
    "Colors": "vtkSlicerColorLogic", "Tables": "vtkSlicerTablesLogic", "Texts": "vtkSlicerTextsLogic",
    "Plots": "vtkSlicerPlotsLogic", "Terminologies": "vtkSlicerTerminologiesModuleLogic",
}  # fmt: skip
_SINGLETONS = {
    "vtkMRMLSelectionNode": "Singleton",
    "vtkMRMLInteractionNode": "Singleton",
    "vtkMRMLCrosshairNode": "default",
}


class CoreModule:
    """A C++ module as `slicer.modules.<name>` shows it: a logic, no file and no widget here."""

    def __init__(self, logic) -> None:
        self.logic = lambda: logic


class SlicerCore:
    """The scene and the module logics by module name. One a process: `slicer.util` works on `slicer.mrmlScene`."""

    def __init__(self) -> None:
        self.scene = scene = slicer.vtkMRMLScene()
        self.application_logic = application_logic = slicer.vtkSlicerApplicationLogic()
        application_logic.SetMRMLScene(scene)
        self.logics = {name: getattr(slicer, class_name)() for name, class_name in _LOGICS.items()}
        for name, logic in self.logics.items():
            logic.SetMRMLApplicationLogic(application_logic)
            logic.SetMRMLScene(scene)
            application_logic.SetModuleLogic(name, logic)
        for class_name, tag in _SINGLETONS.items():
            if scene.GetSingletonNode(tag, class_name) is None:
                node = getattr(slicer, class_name)()
                node.SetSingletonTag(tag)
                scene.AddNode(node)
        _set_cache_folder(scene)

    def clear(self) -> None:
        """Close the scene as File > Close Scene does, and drop what the application keeps across a close:
        parameter nodes and views, so that the next test starts like a freshly started application."""
        self.scene.Clear(0)
        self.scene.SetURL("")
        for name in (
            "vtkMRMLScriptedModuleNode",
            "vtkMRMLSliceCompositeNode",
            "vtkMRMLAbstractViewNode",
        ):
            for node in nodes_of_class(self.scene, name):
                self.scene.RemoveNode(node)
        clear_hierarchy(self.scene)


@cache
def shared_core() -> SlicerCore:
    """The scene with the logics of the core modules; sets `slicer.mrmlScene` and `slicer.modules` (logics only).

    Needs no Qt. Errors that VTK reports here are known and harmless (colour and terminology files of the application
    are absent) and are not shown.
    """
    errors = vtk_errors()
    with silent_vtk():
        core = SlicerCore()
    errors.clear()
    slicer.mrmlScene = core.scene
    slicer.modules = SimpleNamespace()
    for name, logic in core.logics.items():
        setattr(slicer.modules, name.lower(), CoreModule(logic))
    slicer.i18n = sys.modules["slicer.i18n"] = i18n
    return core


def _set_cache_folder(scene) -> None:
    """Without a cache folder ReadFromMRB gives an empty scene and no error."""
    folder = tempfile.mkdtemp(prefix="slicer-kit-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    cache = slicer.vtkCacheManager()
    cache.SetRemoteCacheDirectory(folder)
    scene.SetCacheManager(cache)
    io_manager = slicer.vtkDataIOManager()
    io_manager.SetCacheManager(cache)
    scene.SetDataIOManager(io_manager)


def nodes_of_class(scene, class_name: str) -> list:
    """Nodes of a class and its subclasses, in scene order."""
    nodes = [scene.GetNthNode(index) for index in range(scene.GetNumberOfNodes())]
    return [node for node in nodes if node.IsA(class_name)]


def write_mrb(scene, path: Path | str) -> Path:
    """Save the scene as a bundle; storable nodes get the storage node that the application would give them."""
    for node in nodes_of_class(scene, "vtkMRMLStorableNode"):
        if node.GetSaveWithScene():
            node.AddDefaultStorageNode()
    if not scene.WriteToMRB(str(path)):
        raise OSError(f"{path}: the scene could not be written")
    return Path(path)


def read_mrb(scene, path: Path | str) -> None:
    """Load a bundle in place of what is in the scene.

    Raises OSError where there is no such file; a broken bundle shows as VTK errors.
    """
    if not Path(path).is_file():
        raise OSError(f"{path}: no such file")
    scene.ReadFromMRB(str(path), True)
