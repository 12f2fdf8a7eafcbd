"""Segments of segmentation nodes: their names, their voxels on a scan, and how far they reach."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import slicer
import slicer.util
import vtk
from vtk.util.numpy_support import vtk_to_numpy

from AnatomicalEmbedding.errors import PointsError

from ..shared.VolumeNodes import ijkToRas


def segmentIds(segmentationNode) -> list[str]:
    """IDs of the segments, in the order of the segmentation."""
    return list(segmentationNode.GetSegmentation().GetSegmentIDs())


def segmentName(segmentationNode, segmentId: str) -> str:
    """Name of a segment, or "" where the segmentation has no such segment."""
    segment = segmentationNode.GetSegmentation().GetSegment(segmentId)
    return "" if segment is None else segment.GetName()


def extremesIn(volumeNode, segmentationNode, segmentId: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Box (2, 3) around a segment's voxels and the points (6, 3) in the middle of the layer of voxels that touches each
    of its sides (lowest R, A, S, highest R, A, S), in the volume's own RAS mm; None for a segment without voxels.

    The voxels are the segment's own, which are the volume's where it was painted on it. Raises PointsError where a warp
    lies between segmentation and volume.
    """
    image = _labelmap(segmentationNode, segmentId)
    if image is None:
        return None
    matrix = vtk.vtkMatrix4x4()
    image.GetImageToWorldMatrix(matrix)
    toVolume = _toVolume(segmentationNode, volumeNode) @ slicer.util.arrayFromVTKMatrix(matrix)
    toVolume[:3, 3] += toVolume[:3, :3] @ image.GetExtent()[::2]
    mask = _array(image) != 0
    layers = [_layer(mask, side * toVolume[axis]) for side in (-1, 1) for axis in range(3)]
    points = np.array([toVolume[:3, :3] @ ijk + toVolume[:3, 3] for ijk, _end in layers])
    halfVoxel = np.abs(toVolume[:3, :3]).sum(axis=1) / 2
    ends = np.array([end for _ijk, end in layers]).reshape(2, 3)
    return np.stack([-ends[0] - halfVoxel, ends[1] + halfVoxel]), points


def maskIn(volumeNode, segmentationNode, segmentId: str) -> np.ndarray | None:
    """(k, j, i) bool: the volume's voxels whose centre lies in a segment; None for a segment without voxels.

    Raises PointsError where a warp lies between segmentation and volume.
    """
    image = _labelmap(segmentationNode, segmentId)
    if image is None:
        return None
    transform, grid, result = vtk.vtkTransform(), slicer.vtkOrientedImageData(), slicer.vtkOrientedImageData()
    transform.SetMatrix(slicer.util.vtkMatrixFromArray(_toVolume(segmentationNode, volumeNode)))
    grid.SetDimensions(volumeNode.GetImageData().GetDimensions())
    grid.SetGeometryFromImageToWorldMatrix(slicer.util.vtkMatrixFromArray(ijkToRas(volumeNode)))
    resample = slicer.vtkOrientedImageDataResample.ResampleOrientedImageToReferenceOrientedImage
    resample(image, grid, result, False, False, transform)
    return _array(result) != 0


def addSegment(segmentationNode, mask: np.ndarray, toRas: np.ndarray, name: str, colour: Sequence[float]) -> None:
    """Add a segment with the voxels (k, j, i) of a grid, at least one, without their empty margins.

    toRas: (4, 4) voxel i, j, k -> the node's own RAS. colour: red, green and blue, 0..1.
    """
    image = slicer.vtkOrientedImageData()
    image.SetDimensions(*mask.shape[::-1])
    image.AllocateScalars(vtk.VTK_UNSIGNED_CHAR, 1)
    _array(image)[:] = mask
    image.SetGeometryFromImageToWorldMatrix(slicer.util.vtkMatrixFromArray(toRas))
    _crop(image)
    segmentationNode.AddSegmentFromBinaryLabelmapRepresentation(image, name, [float(each) for each in colour])


def _layer(mask: np.ndarray, along: np.ndarray) -> tuple[np.ndarray, float]:
    """Mean (i, j, k) of the voxels of `mask` (k, j, i) furthest along i, j, k -> along @ (i, j, k, 1), and how far."""
    k, j, i = (np.arange(size, dtype=np.float64) for size in mask.shape)
    values = along[3] + along[2] * k[:, None, None] + along[1] * j[:, None] + along[0] * i
    end = values[mask].max()
    # half a voxel along the direction: one layer of an upright grid, about one of an oblique grid
    outermost = np.argwhere(mask & (values > end - 0.5 * np.abs(along[:3]).max()))
    return outermost.mean(axis=0)[::-1], float(end)


def _labelmap(segmentationNode, segmentId: str):
    """The segment's image in the node's own RAS, without empty margins; None for a missing or empty segment."""
    segment = segmentationNode.GetSegmentation().GetSegment(segmentId)
    if segment is None:
        return None
    image = slicer.vtkOrientedImageData()
    if segment.GetRepresentation("Binary labelmap") is not None:
        segmentationNode.GetBinaryLabelmapRepresentation(segmentId, image)
    else:
        logic = slicer.vtkSlicerSegmentationsModuleLogic
        logic.GetSegmentBinaryLabelmapRepresentation(segmentationNode, segmentId, image, False)
    return image if _crop(image) else None


def _crop(image) -> bool:
    """Remove the empty margins of an image; False for an image without voxels."""
    extent = [0] * 6
    hasVoxels = slicer.vtkOrientedImageDataResample.CalculateEffectiveExtent(image, extent)
    if hasVoxels:
        image.Crop(extent)
    return hasVoxels


def _array(image) -> np.ndarray:
    """The voxels (k, j, i) of an image, which may be written to."""
    return vtk_to_numpy(image.GetPointData().GetScalars()).reshape(image.GetDimensions()[::-1])


def _toVolume(segmentationNode, volumeNode) -> np.ndarray:
    """The matrix (4, 4) from the segmentation's own RAS mm to the volume's."""
    source, destination = segmentationNode.GetParentTransformNode(), volumeNode.GetParentTransformNode()
    if source is destination:
        return np.eye(4)
    if not all(node is None or node.IsTransformToWorldLinear() for node in (source, destination)):
        raise PointsError(
            f"{segmentationNode.GetName()}: a warp lies between it and {volumeNode.GetName()}; put both below the same "
            "transform, or harden it."
        )
    matrix = vtk.vtkMatrix4x4()
    slicer.vtkMRMLTransformNode.GetMatrixTransformBetweenNodes(source, destination, matrix)
    return slicer.util.arrayFromVTKMatrix(matrix)
