"""CT volume nodes: their voxels for the engine, and points between the world and a volume.

The engine works in a volume's own RAS mm, that of its IJK-to-RAS matrix. A parent transform moves a volume in the
world and changes nothing that the engine sees; it may be of any kind, warps included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import slicer
import slicer.util
import vtk

from AnatomicalEmbedding.errors import VolumeError

from .SceneNodes import freeName, nodesOf, placeNextTo

if TYPE_CHECKING:
    from AnatomicalEmbedding.scan.volume import Volume

SOURCE_ROLE = "AnatomicalEmbedding.SourceVolume"  # of a crop or a resampled copy: the volume it was made from
_CLASS = "vtkMRMLScalarVolumeNode"


def ctVolumes(scene) -> list:
    """Volume nodes of a scene that may be CTs: scalar volumes with voxels; no label maps, no colour images."""
    return [node for node in nodesOf(scene, _CLASS) if node.GetClassName() == _CLASS and hasVoxels(node)]


def scans(scene) -> list:
    """`ctVolumes` without the crops and copies that we made of them: what "all CTs" means."""
    return [node for node in ctVolumes(scene) if node.GetNodeReferenceID(SOURCE_ROLE) is None]


def hasVoxels(node) -> bool:
    """Does the node hold a 3-D scalar image?"""
    image = node.GetImageData()
    if image is None or image.GetPointData().GetScalars() is None:
        return False
    return image.GetNumberOfScalarComponents() == 1 and min(image.GetDimensions()) > 1


def ijkToRas(node) -> np.ndarray:
    """(4, 4): voxel (i, j, k, 1) to the volume's own RAS mm, without its parent transform."""
    matrix = vtk.vtkMatrix4x4()
    node.GetIJKToRASMatrix(matrix)
    return slicer.util.arrayFromVTKMatrix(matrix)


def contentKey(node) -> tuple | None:
    """A key of the voxels and their geometry, which a map depends on. A parent transform does not change it."""
    if not hasVoxels(node):
        return None
    image = node.GetImageData()
    scalars = image.GetPointData().GetScalars()
    changed = max(image.GetMTime(), scalars.GetMTime())
    return changed, image.GetDimensions(), tuple(np.round(ijkToRas(node), 6).ravel())


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A copy of a node's image, made on the main thread, that a background thread may read while the node changes.

    voxels: (k, j, i) as stored. ijkToRas: (4, 4), see `ijkToRas`. name: the node's.
    """

    voxels: np.ndarray
    ijkToRas: np.ndarray
    name: str

    def volume(self) -> Volume:
        """The CT for the engine. Raises VolumeError, whose sentence names the node, for what is not a CT in HU."""
        from AnatomicalEmbedding.scan.volume import Volume

        return Volume.from_array(self.voxels, self.ijkToRas, self.name)


def snapshot(node) -> Snapshot:
    """A copy of the node's image. Raises VolumeError for a node without a 3-D scalar image."""
    if not hasVoxels(node):
        raise VolumeError(f"{node.GetName()}: holds no 3-D image; choose a CT volume.")
    return Snapshot(slicer.util.arrayFromVolume(node).copy(), ijkToRas(node), node.GetName())


def toWorld(node, points: np.ndarray) -> np.ndarray:
    """(n, 3) points of the volume's own RAS mm in the world."""
    return _moved(node.GetParentTransformNode(), None, points)


def fromWorld(node, points: np.ndarray) -> np.ndarray:
    """(n, 3) points of the world in the volume's own RAS mm."""
    return _moved(None, node.GetParentTransformNode(), points)


def huAt(node, pointWorld: Sequence[float]) -> float | None:
    """The value of the nearest voxel at a world point; None outside the scan."""
    ijk = np.rint((np.linalg.inv(ijkToRas(node)) @ [*fromWorld(node, [pointWorld])[0], 1.0])[:3]).astype(int)
    voxels = slicer.util.arrayFromVolume(node)
    inside = ((ijk >= 0) & (ijk < voxels.shape[::-1])).all()
    return float(voxels[tuple(ijk[::-1])]) if inside else None


def _moved(source, destination, points: np.ndarray | Sequence[Sequence[float]]) -> np.ndarray:
    points = np.asarray(points, dtype=np.float64).reshape(-1, 3)
    if source is None and destination is None:
        return points.copy()
    transform = vtk.vtkGeneralTransform()
    slicer.vtkMRMLTransformNode.GetTransformBetweenNodes(source, destination, transform)
    return np.array([transform.TransformPoint(*point) for point in points]).reshape(-1, 3)


def holds(node, points: np.ndarray) -> np.ndarray:
    """(n,) bool: do points (n, 3) of the volume's own RAS mm lie within the outer edges of its voxels?"""
    if not hasVoxels(node):
        return np.zeros(len(points), dtype=bool)
    matrix = np.linalg.inv(ijkToRas(node))
    ijk = np.asarray(points) @ matrix[:3, :3].T + matrix[:3, 3]
    return ((ijk >= -0.5) & (ijk <= np.array(node.GetImageData().GetDimensions()) - 0.5)).all(axis=1)


def addDerived(scene, name: str, source, voxels: np.ndarray, matrix: np.ndarray, beside):
    """Add a volume made from `source`, with its looks and units, next to `beside` and below the same transform.

    voxels: (k, j, i). matrix: (4, 4), voxel (i, j, k, 1) to the volume's own RAS mm.
    """
    node = scene.AddNewNodeByClass(_CLASS, freeName(scene, name))
    node.SetNodeReferenceID(SOURCE_ROLE, source.GetID())  # before anyone takes it for another CT
    slicer.util.updateVolumeFromArray(node, voxels)
    node.SetIJKToRASMatrix(slicer.util.vtkMatrixFromArray(matrix))
    node.SetVoxelValueQuantity(source.GetVoxelValueQuantity())
    node.SetVoxelValueUnits(source.GetVoxelValueUnits())
    node.SetAndObserveTransformNodeID(beside.GetTransformNodeID())
    placeNextTo(scene, node, beside)
    node.CreateDefaultDisplayNodes()
    looks, display = source.GetDisplayNode(), node.GetDisplayNode()
    if looks is not None and display is not None:
        display.SetAndObserveColorNodeID(looks.GetColorNodeID())
        display.SetInterpolate(looks.GetInterpolate())
        display.SetAutoWindowLevel(False)
        display.SetWindowLevel(looks.GetWindow(), looks.GetLevel())
    return node
