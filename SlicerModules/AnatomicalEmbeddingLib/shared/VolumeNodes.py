"""CT volume nodes: copies their voxels for the engine, and converts points between world mm and a volume's RAS mm.

The engine uses a volume's own RAS mm, defined by the volume's IJK-to-RAS matrix. World mm are the RAS mm of the scene,
in which the volume is moved by its parent transform. This transform may be any transform, including a deformation.
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
from AnatomicalEmbedding.scan.geometry import transform_points

from .SceneNodes import freeName, nodesOf, placeNextTo

if TYPE_CHECKING:
    from AnatomicalEmbedding.scan.volume import Volume

SOURCE_ROLE = "AnatomicalEmbedding.SourceVolume"  # reference from a crop or a resampled copy to its source volume
_CLASS = "vtkMRMLScalarVolumeNode"


def ctVolumes(scene) -> list:
    """Return the volume nodes that may be CTs: scalar volumes with voxels, but no label maps or colour images."""
    return [node for node in nodesOf(scene, _CLASS) if node.GetClassName() == _CLASS and hasVoxels(node)]


def scans(scene) -> list:
    """Return `ctVolumes` without crops and resampled copies made by this extension. Panels call these "all CTs"."""
    return [node for node in ctVolumes(scene) if node.GetNodeReferenceID(SOURCE_ROLE) is None]


def hasVoxels(node) -> bool:
    """True if the node holds a 3-D scalar image."""
    image = node.GetImageData()
    if image is None or image.GetPointData().GetScalars() is None:
        return False
    return image.GetNumberOfScalarComponents() == 1 and min(image.GetDimensions()) > 1


def ijkToRas(node) -> np.ndarray:
    """Return the (4, 4) matrix from voxel (i, j, k, 1) to the volume's own RAS mm, without the parent transform."""
    matrix = vtk.vtkMatrix4x4()
    node.GetIJKToRASMatrix(matrix)
    return slicer.util.arrayFromVTKMatrix(matrix)


def contentKey(node) -> tuple | None:
    """Return a key that changes with the voxels and the IJK-to-RAS matrix; None if the node has no voxels.

    A map that was made with another key is out of date.
    """
    if not hasVoxels(node):
        return None
    image = node.GetImageData()
    scalars = image.GetPointData().GetScalars()
    changed = max(image.GetMTime(), scalars.GetMTime())
    return changed, image.GetDimensions(), tuple(np.round(ijkToRas(node), 6).ravel())


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A copy of a node's image, made on the main thread. A background thread can read the copy while the node changes.

    voxels: (k, j, i) as stored in the node. ijkToRas: (4, 4), see the function `ijkToRas`. name: name of the node.
    """

    voxels: np.ndarray
    ijkToRas: np.ndarray
    name: str

    def volume(self) -> Volume:
        """Return the CT for the engine. Raises VolumeError, with the node's name, if the image is not a CT in HU."""
        from AnatomicalEmbedding.scan.volume import Volume

        return Volume.from_array(self.voxels, self.ijkToRas, self.name)


def snapshot(node) -> Snapshot:
    """Copy the node's image. Raises VolumeError if the node has no 3-D scalar image."""
    if not hasVoxels(node):
        raise VolumeError(f"{node.GetName()}: holds no 3-D image; choose a CT volume.")
    return Snapshot(slicer.util.arrayFromVolume(node).copy(), ijkToRas(node), node.GetName())


def toWorld(node, points: np.ndarray) -> np.ndarray:
    """Convert points from the volume's own RAS mm to world mm. points: (n, 3). Returns (n, 3)."""
    return _moved(node.GetParentTransformNode(), None, points)


def fromWorld(node, points: np.ndarray) -> np.ndarray:
    """Convert points from world mm to the volume's own RAS mm. points: (n, 3). Returns (n, 3)."""
    return _moved(None, node.GetParentTransformNode(), points)


def huAt(node, pointWorld: Sequence[float]) -> float | None:
    """Return the HU of the voxel nearest to a world point; None if the point lies outside the scan."""
    ijk = np.rint(transform_points(np.linalg.inv(ijkToRas(node)), fromWorld(node, [pointWorld]))[0]).astype(int)
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
    """Return (n,) bool: whether each of `points` (n, 3), in the volume's own RAS mm, lies inside the volume."""
    if not hasVoxels(node):
        return np.zeros(len(points), dtype=bool)
    ijk = transform_points(np.linalg.inv(ijkToRas(node)), points)
    return ((ijk >= -0.5) & (ijk <= np.array(node.GetImageData().GetDimensions()) - 0.5)).all(axis=1)


def addDerived(scene, name: str, source, voxels: np.ndarray, matrix: np.ndarray, beside):
    """Add a volume node that was computed from the volume `source`. It gets the units and display settings of `source`.

    voxels: (k, j, i). matrix: (4, 4), voxel (i, j, k, 1) to the new volume's own RAS mm. beside: a volume node. The
    new volume gets the parent transform of `beside`, and the same parent as `beside` in the subject hierarchy.
    """
    node = scene.AddNewNodeByClass(_CLASS, freeName(scene, name))
    node.SetNodeReferenceID(SOURCE_ROLE, source.GetID())  # set first: `scans` must never include the node
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
