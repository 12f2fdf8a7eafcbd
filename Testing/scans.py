"""Add synthetic patients, whose points are known, to a scene as volume nodes. Uses the shipped weights."""

from functools import cache
from pathlib import Path

import numpy as np
import slicer.util
import vtk
from polling import poll_until

from AnatomicalEmbedding.phantom import Phantom, make_phantom
from AnatomicalEmbedding.training.warped_scans import WarpedScan, warp_scan
from AnatomicalEmbeddingLib.shared.maps.Engine import Choice, Engine
from AnatomicalEmbeddingLib.shared.maps.MapStore import MapStore
from AnatomicalEmbeddingLib.shared.maps.SceneRelations import SceneRelations
from AnatomicalEmbeddingLib.shared.SceneNodes import itemOf

SEEDS = (71, 72, 73, 74)  # no weights were trained on them


@cache
def patient(number: int) -> Phantom:
    """Torso of a synthetic patient, small and quick."""
    return make_phantom(SEEDS[number], spacing=(4.0, 4.0, 4.0), coverage_mm=(150.0, 480.0))


def add_patient(number: int, name: str = "", parent=None):
    """A patient's CT as a volume node, below a parent transform if one is given."""
    volume = patient(number).volume
    node = slicer.util.addVolumeFromArray(
        volume.voxels, volume.ijk_to_ras, name=name or f"CT-{number + 1}"
    )
    if parent is not None:
        node.SetAndObserveTransformNodeID(parent.GetID())
    return node


@cache
def bent_copy(seed: int = 5) -> WarpedScan:
    """Patient 0 again, bent by a known transform, with other noise."""
    return warp_scan(patient(0).volume, seed)


def add_bent_copy(name: str = "Later", seed: int = 5):
    """A bent copy of patient 0 as a volume node."""
    volume = bent_copy(seed).volume
    return slicer.util.addVolumeFromArray(volume.voxels, volume.ijk_to_ras, name=name)


def put_under_one_patient(scene, *nodes) -> None:
    """As an import of DICOM studies leaves them."""
    hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(scene)
    item = hierarchy.CreateSubjectItem(hierarchy.GetSceneItemID(), "Miller")
    hierarchy.SetItemUID(item, slicer.vtkMRMLSubjectHierarchyConstants.GetDICOMUIDName(), "77")
    for node in nodes:
        hierarchy.SetItemParent(
            itemOf(scene, node), hierarchy.CreateStudyItem(item, node.GetName())
        )


def add_transform(scene, matrix: np.ndarray, name: str = "moved"):
    node = scene.AddNewNodeByClass("vtkMRMLLinearTransformNode", name)
    node.SetMatrixTransformToParent(slicer.util.vtkMatrixFromArray(matrix))
    return node


def turned(degrees: float, shift: tuple[float, float, float]) -> np.ndarray:
    """(4, 4): a turn about an oblique axis, and a shift in mm."""
    transform = vtk.vtkTransform()
    transform.Translate(*shift)
    transform.RotateWXYZ(degrees, 1.0, 2.0, 3.0)
    return slicer.util.arrayFromVTKMatrix(transform.GetMatrix())


def add_points(scene, points_ras: dict[str, np.ndarray], name: str = "Landmarks"):
    """A point list with a display node; points_ras: label -> world mm."""
    node = scene.AddNewNodeByClass("vtkMRMLMarkupsFiducialNode", name)
    node.CreateDefaultDisplayNodes()
    for label, point in points_ras.items():
        node.AddControlPointWorld(vtk.vtkVector3d(*point), label)
    return node


def make_store(scene, folder: Path, **choice: object) -> MapStore:
    """The shipped weights on the CPU; maps are kept in `folder`, so that a scan is embedded once for all tests."""
    return MapStore(scene, Engine(Choice(device="cpu", cacheFolder=str(folder), **choice)))


def finish(store: MapStore, seconds: float = 60.0) -> None:
    """Poll until all maps are made."""
    poll_until(lambda: not store.busy, store.poll, seconds=seconds)


def relate(relations: SceneRelations, seconds: float = 60.0) -> None:
    """Poll until all maps are made and all relations are computed."""
    poll_until(
        lambda: not (relations.store.busy or relations.busy),
        relations.store.poll,
        relations.poll,
        seconds=seconds,
    )
