"""Volume nodes: copies their voxels for the engine, and converts points between world mm and a volume's RAS mm.

The engine uses a CT's own RAS mm, defined by the volume's IJK-to-RAS matrix. World mm are the RAS mm of the scene,
in which the volume is moved by its parent transform. This transform may be any transform, including a deformation.

A film is a volume with one slice. Slicer loads a picture as an axial slice, but for the engine a film lies in the plane
of R and S. So points of films are converted by their pixels: `toEngine`, `fromEngine`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import slicer
import slicer.util
import vtk

from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbedding.scan.film import film_matrix, pixel_size, without_colours
from AnatomicalEmbedding.scan.geometry import transform_points

from .SceneNodes import freeName, nodesOf, placeNextTo

if TYPE_CHECKING:
    from AnatomicalEmbedding.embedding.map import EmbeddingMap
    from AnatomicalEmbedding.scan.volume import Volume

SOURCE_ROLE = "AnatomicalEmbedding.SourceVolume"  # reference from a crop or a resampled copy to its source volume
_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
_CLASS = "vtkMRMLScalarVolumeNode"
_PICTURE_CLASS = "vtkMRMLVectorVolumeNode"


def ctVolumes(scene) -> list:
    """Return the volume nodes that may be CTs: scalar volumes with voxels, but no label maps or colour images."""
    return [
        node for node in nodesOf(scene, _CLASS) if node.GetClassName() == _CLASS and hasVoxels(node)
    ]


def scans(scene) -> list:
    """Return `ctVolumes` without crops and resampled copies made by this extension. Panels call these "all CTs"."""
    return [node for node in ctVolumes(scene) if node.GetNodeReferenceID(SOURCE_ROLE) is None]


def films(scene) -> list:
    """Return the volume nodes that may be films: scalar volumes and pictures with one slice."""
    return [node for node in nodesOf(scene, _CLASS) if isFilm(node)]


def hasVoxels(node) -> bool:
    """True if the node holds a 3-D scalar image."""
    image = _imageOf(node)
    if image is None:
        return False
    return image.GetNumberOfScalarComponents() == 1 and min(image.GetDimensions()) > 1


def isFilm(node) -> bool:
    """True if the node holds a single slice, which the engine gets as a film."""
    if node is None or node.GetClassName() not in (_CLASS, _PICTURE_CLASS):
        return False
    image = _imageOf(node)
    if image is None:
        return False
    width, height, slices = image.GetDimensions()
    return slices == 1 and min(width, height) > 1


def filmPlane(node) -> str:
    """Return the plane of a film: "Axial" for pictures as Slicer loads them, "Coronal" or "Sagittal". "" for a CT."""
    if not isFilm(node):
        return ""
    normal = ijkToRas(node)[:3, 2]
    return ("Sagittal", "Coronal", "Axial")[np.abs(normal).argmax()]


def hasPixelSize(node) -> bool:
    """False for a film whose file states no pixel size, so that lengths in its views are not in mm."""
    return not isFilm(node) or not _engineMatrix(node)[1]


def requireCt(node) -> None:
    """Raise VolumeError if the node holds a film."""
    if isFilm(node):
        raise VolumeError(
            f"{node.GetName()}: is a film, in which only landmarks can be found; choose a CT."
        )


def _imageOf(node):
    """Return the node's image; None if it has no voxels."""
    image = node.GetImageData()
    return None if image is None or image.GetPointData().GetScalars() is None else image


def ijkToRas(node) -> np.ndarray:
    """Return the (4, 4) matrix from voxel (i, j, k, 1) to the volume's own RAS mm, without the parent transform."""
    matrix = vtk.vtkMatrix4x4()
    node.GetIJKToRASMatrix(matrix)
    return slicer.util.arrayFromVTKMatrix(matrix)


def contentKey(node) -> tuple | None:
    """Return a key that changes with the voxels and the IJK-to-RAS matrix; None if the node has no voxels.

    A map that was made with another key is out of date.
    """
    if not hasVoxels(node) and not isFilm(node):
        return None
    image = node.GetImageData()
    scalars = image.GetPointData().GetScalars()
    changed = max(image.GetMTime(), scalars.GetMTime())
    return changed, image.GetDimensions(), tuple(np.round(ijkToRas(node), 6).ravel())


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A copy of a node's image, made on the main thread. A background thread can read the copy while the node changes.

    voxels: (k, j, i) as stored in the node; (1, j, i, c) for a picture. ijkToRas: (4, 4), from voxel (i, j, k, 1) to
    the engine's RAS mm. name: name of the node. notes: remarks about a film.
    """

    voxels: np.ndarray
    ijkToRas: np.ndarray
    name: str
    notes: tuple[str, ...] = ()

    def volume(self, check: Callable[[Volume], Volume] | None = None) -> Volume:
        """Return the scan for the engine. Raises VolumeError, with the node's name, if it cannot be used.

        check: as in `Volume.read`; default: the scan must be a CT or a film.
        """
        from AnatomicalEmbedding.scan.volume import Volume

        voxels = self.voxels if self.voxels.ndim == 3 else without_colours(self.voxels, self.name)
        volume = Volume.from_array(voxels, self.ijkToRas, self.name, check)
        return replace(volume, notes=(*volume.notes, *self.notes))


def snapshot(node) -> Snapshot:
    """Copy the node's image. Raises VolumeError if the node holds no 3-D scalar image and no film, or several
    pictures."""
    if not hasVoxels(node) and not isFilm(node):
        raise VolumeError(f"{node.GetName()}: holds no 3-D image; choose a CT volume.")
    storage = node.GetStorageNode()
    fileName = None if storage is None else storage.GetFileName()
    if fileName and fileName.lower().endswith(_PICTURES) and not isFilm(node):
        raise VolumeError(
            f"{node.GetName()}: pictures whose names differ only in a number were loaded as one volume; load each with "
            'the option "Single File".'
        )
    matrix, notes = _engineMatrix(node)
    return Snapshot(slicer.util.arrayFromVolume(node).copy(), matrix, node.GetName(), notes)


def toEngine(node, points: np.ndarray) -> np.ndarray:
    """Convert points (n, 3) from the volume's own RAS mm to the engine's RAS mm. They differ for films only."""
    return _byPixels(ijkToRas(node), _engineMatrix(node)[0], points) if isFilm(node) else points


def fromEngine(node, points: np.ndarray) -> np.ndarray:
    """Convert points (n, 3) from the engine's RAS mm to the volume's own RAS mm. They differ for films only."""
    return _byPixels(_engineMatrix(node)[0], ijkToRas(node), points) if isFilm(node) else points


def _byPixels(source: np.ndarray, destination: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Convert points (n, 3) of a film, mm, between two matrices (4, 4) from voxel (i, j, k, 1) to mm.

    A point beside the film's plane is moved into it.
    """
    pixels = transform_points(np.linalg.inv(source), points)
    pixels[:, 2] = 0
    return transform_points(destination, pixels)


def _engineMatrix(node) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the matrix (4, 4) from voxel (i, j, k, 1) to the engine's RAS mm, and remarks about a film.

    The film has the patient's right and head where Slicer shows them in its slice. A coronal slice stays as it is.
    """
    slicerMatrix = ijkToRas(node)
    if not isFilm(node) or np.abs(slicerMatrix[:3, 2]).argmax() == 1:
        return slicerMatrix, ()
    size = node.GetImageData().GetDimensions()[:2]
    spacing, notes = pixel_size(node.GetSpacing()[:2], size[0])
    matrix = film_matrix(size[::-1], spacing)
    # the film is turned around along i and along j where the slice runs to the right, and to the head or back
    # (an axial slice runs in A, others in S). Positive: to the right, to the head
    for axis, toward in enumerate((slicerMatrix[0, 0], slicerMatrix[1, 1] + slicerMatrix[2, 1])):
        if toward > 0:
            matrix[:3, 3] += (size[axis] - 1) * matrix[:3, axis]
            matrix[:3, axis] *= -1
    return matrix, notes


def toWorld(node, points: np.ndarray) -> np.ndarray:
    """Convert points from the volume's own RAS mm to world mm. points: (n, 3). Returns (n, 3)."""
    return _moved(node.GetParentTransformNode(), None, points)


def fromWorld(node, points: np.ndarray) -> np.ndarray:
    """Convert points from world mm to the volume's own RAS mm. points: (n, 3). Returns (n, 3)."""
    return _moved(None, node.GetParentTransformNode(), points)


def followVolume(node, volumeNode) -> None:
    """Give a node the same parent transform as the volume. The node's coordinates are then the RAS mm of the volume."""
    if node.GetTransformNodeID() != volumeNode.GetTransformNodeID():
        node.SetAndObserveTransformNodeID(volumeNode.GetTransformNodeID())


def huAt(node, pointWorld: Sequence[float]) -> float | None:
    """Return the HU of the voxel nearest to a world point; None if the point lies outside the scan."""
    toIjk = np.linalg.inv(ijkToRas(node))
    ijk = np.rint(transform_points(toIjk, fromWorld(node, [pointWorld]))[0]).astype(int)
    voxels = slicer.util.arrayFromVolume(node)  # (k, j, i)
    inside = ((ijk >= 0) & (ijk < voxels.shape[::-1])).all()
    return float(voxels[tuple(ijk[::-1])]) if inside else None


def bodyBounds(node, embedding: EmbeddingMap | None) -> np.ndarray:
    """Return the lowest and the highest corner (2, 3), world mm, of the body in a CT. Without a map: of the volume."""
    bounds = [0.0] * 6
    node.GetRASBounds(bounds)  # lowest R, highest R, lowest A, ...
    if embedding is None or isFilm(node):
        return np.array([bounds[::2], bounds[1::2]])
    cells = embedding.body_index.numpy()  # (n, 3)
    # the lowest and the highest index of a cell along each axis, one cell farther out
    ends = np.stack([cells.min(axis=0) - 1, cells.max(axis=0) + 1], axis=1)
    corners = np.array(list(product(*ends)))
    world = toWorld(node, transform_points(embedding.cell_to_ras, corners))
    return np.stack([world.min(axis=0), world.max(axis=0)])


def _moved(source, destination, points: np.ndarray | Sequence[Sequence[float]]) -> np.ndarray:
    """Return points (n, 3), mm, under another transform node. None stands for the world."""
    points = np.asarray(points, np.float64).reshape(-1, 3)
    if source is None and destination is None:
        return points.copy()
    transform = vtk.vtkGeneralTransform()
    slicer.vtkMRMLTransformNode.GetTransformBetweenNodes(source, destination, transform)
    return np.array([transform.TransformPoint(*point) for point in points]).reshape(-1, 3)


def holds(node, points: np.ndarray) -> np.ndarray:
    """Return (n,) bool: whether each of `points` (n, 3), in the volume's own RAS mm, lies inside the volume."""
    if not hasVoxels(node) and not isFilm(node):
        return np.zeros(len(points), bool)
    ijk = transform_points(np.linalg.inv(ijkToRas(node)), points)
    # the outer border of the last voxel
    highest = np.array(node.GetImageData().GetDimensions()) - 0.5
    return ((ijk >= -0.5) & (ijk <= highest)).all(axis=1)


def addDerived(scene, name: str, source, voxels: np.ndarray, matrix: np.ndarray, beside):
    """Add a volume node that was computed from another volume, with the units and display settings of this volume.

    Args:
        scene: the scene.
        name: name of the node.
        source: the volume from which it was computed.
        voxels: (k, j, i).
        matrix: (4, 4), voxel (i, j, k, 1) to the new volume's own RAS mm.
        beside: a volume node. The new volume gets its parent transform, and its parent in the subject hierarchy.
    """
    node = scene.AddNewNodeByClass(_CLASS, freeName(scene, name))
    # set first: `scans` must never include the node
    node.SetNodeReferenceID(SOURCE_ROLE, source.GetID())
    slicer.util.updateVolumeFromArray(node, voxels)
    node.SetIJKToRASMatrix(slicer.util.vtkMatrixFromArray(matrix))
    node.SetVoxelValueQuantity(source.GetVoxelValueQuantity())
    node.SetVoxelValueUnits(source.GetVoxelValueUnits())
    node.SetAndObserveTransformNodeID(beside.GetTransformNodeID())
    placeNextTo(scene, node, beside)
    node.CreateDefaultDisplayNodes()
    looks = source.GetDisplayNode()
    display = node.GetDisplayNode()
    if looks is not None:
        display.SetAndObserveColorNodeID(looks.GetColorNodeID())
        display.SetInterpolate(looks.GetInterpolate())
        display.SetAutoWindowLevel(False)
        display.SetWindowLevel(looks.GetWindow(), looks.GetLevel())
    return node
