"""Bundles that the viewer wrote, opened by slicer-core in a scene of their own."""

from __future__ import annotations

from pathlib import Path

import slicer


def read_bundle(path: Path, folder: Path):
    """The scene of a .mrb."""
    scene = slicer.vtkMRMLScene()
    logic = slicer.vtkSlicerApplicationLogic()
    logic.SetMRMLScene(scene)
    kept = [logic]
    for name in ("VolumesLogic", "MarkupsLogic", "SubjectHierarchyModuleLogic", "SegmentationsModuleLogic"):
        each = getattr(slicer, f"vtkSlicer{name}")()
        each.SetMRMLApplicationLogic(logic)
        each.SetMRMLScene(scene)
        kept.append(each)
    cache, io_manager = slicer.vtkCacheManager(), slicer.vtkDataIOManager()
    cache.SetRemoteCacheDirectory(str(folder))  # without it the bundle is read as an empty scene
    scene.SetCacheManager(cache)
    io_manager.SetCacheManager(cache)
    scene.SetDataIOManager(io_manager)
    scene.ReadFromMRB(str(path), True)
    scene.logics = kept
    return scene
