"""Segments of segmentation nodes: their names, their voxels on a scan, and how far they reach."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import slicer
import slicer.util
import vtk
from vtk.util.numpy_support import vtk_to_numpy

from AnatomicalEmbedding.errors import PointsError

from ..shared.VolumeNodes import ijkToRas


def segmentIds(segmentationNode) -> list[str]:
    """IDs of the segments, in the order of the segmentation."""
    ids = vtk.vtkStringArray()
    segmentationNode.GetSegmentation().GetSegmentIDs(ids)
    return [ids.GetValue(n) for n in range(ids.GetNumberOfValues())]


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
    found = _labelmap(segmentationNode, segmentId)
    if found is None:
        return None
    mask, toVolume = found[0], _toVolume(segmentationNode, volumeNode) @ found[1]
    layers = [_layer(mask, side * toVolume[axis]) for side in (-1, 1) for axis in range(3)]
    points = np.array([toVolume[:3, :3] @ ijk + toVolume[:3, 3] for ijk, _end in layers])
    halfVoxel = np.abs(toVolume[:3, :3]).sum(axis=1) / 2
    ends = np.array([end for _ijk, end in layers]).reshape(2, 3)
    return np.stack([-ends[0] - halfVoxel, ends[1] + halfVoxel]), points


def maskIn(volumeNode, segmentationNode, segmentId: str) -> np.ndarray | None:
    """(k, j, i) bool: the volume's voxels whose centre lies in a segment; None for a segment without voxels.

    Raises PointsError where a warp lies between segmentation and volume.
    """
    found = _labelmap(segmentationNode, segmentId)
    if found is None:
        return None
    mask, toVolume = found[0], _toVolume(segmentationNode, volumeNode) @ found[1]
    result = np.zeros(volumeNode.GetImageData().GetDimensions()[::-1], dtype=bool)
    toSegment = np.linalg.inv(toVolume) @ ijkToRas(volumeNode)
    ends = np.array([(*ijk, 1.0) for ijk in product(*((-1, size) for size in mask.shape[::-1]))])
    corners = ends @ np.linalg.inv(toSegment)[:3].T
    low = np.clip(np.floor(corners.min(axis=0)), 0, result.shape[::-1]).astype(int)
    high = np.clip(np.ceil(corners.max(axis=0)) + 1, 0, result.shape[::-1]).astype(int)
    j, i = np.meshgrid(np.arange(low[1], high[1]), np.arange(low[0], high[0]), indexing="ij")
    for k in range(low[2], high[2]):  # a slice at a time: a whole scan's places would not fit into memory
        where = np.stack([i, j, np.full_like(i, k)], axis=-1) @ toSegment[:3, :3].T + toSegment[:3, 3]
        nearest = np.floor(where + 0.5).astype(int)
        inside = ((nearest >= 0) & (nearest < mask.shape[::-1])).all(axis=-1)
        a, b, c = nearest[inside].T
        result[k, low[1] : high[1], low[0] : high[0]][inside] = mask[c, b, a]
    return result


def addSegment(segmentationNode, mask: np.ndarray, toRas: np.ndarray, name: str, colour: Sequence[float]) -> None:
    """Add a segment with the voxels (k, j, i) of a grid, at least one, without their empty margins.

    toRas: (4, 4) voxel i, j, k -> the node's own RAS. colour: red, green and blue, 0..1.
    """
    block = _block(mask)
    voxels = np.ascontiguousarray(mask[block], dtype=np.uint8)
    matrix = _moved(toRas, block)
    image = slicer.vtkOrientedImageData()
    image.SetDimensions(*voxels.shape[::-1])
    image.AllocateScalars(vtk.VTK_UNSIGNED_CHAR, 1)
    vtk_to_numpy(image.GetPointData().GetScalars())[:] = voxels.ravel()
    image.SetGeometryFromImageToWorldMatrix(slicer.util.vtkMatrixFromArray(matrix))
    segmentationNode.AddSegmentFromBinaryLabelmapRepresentation(image, name, [float(each) for each in colour])


def _layer(mask: np.ndarray, along: np.ndarray) -> tuple[np.ndarray, float]:
    """Mean (i, j, k) of the voxels of `mask` (k, j, i) furthest along i, j, k -> along @ (i, j, k, 1), and how far."""
    k, j, i = (np.arange(size, dtype=np.float64) for size in mask.shape)
    values = along[3] + along[2] * k[:, None, None] + along[1] * j[:, None] + along[0] * i
    end = values[mask].max()
    # half a voxel along the direction: one layer of an upright grid, about one of an oblique grid
    outermost = np.argwhere(mask & (values > end - 0.5 * np.abs(along[:3]).max()))
    return outermost.mean(axis=0)[::-1], float(end)


def _labelmap(segmentationNode, segmentId: str) -> tuple[np.ndarray, np.ndarray] | None:
    """The segment's voxels (k, j, i) bool, no empty margins, and the matrix (4, 4) of i, j, k to the node's own RAS."""
    image = slicer.vtkOrientedImageData()
    segment = segmentationNode.GetSegmentation().GetSegment(segmentId)
    if segment is None:
        return None
    if segment.GetRepresentation("Binary labelmap") is not None:
        segmentationNode.GetBinaryLabelmapRepresentation(segmentId, image)
    else:
        logic = slicer.vtkSlicerSegmentationsModuleLogic
        logic.GetSegmentBinaryLabelmapRepresentation(segmentationNode, segmentId, image, False)
    low, size = np.array(image.GetExtent()[::2]), np.array(image.GetDimensions())
    if (size < 1).any() or image.GetPointData().GetScalars() is None:
        return None
    mask = vtk_to_numpy(image.GetPointData().GetScalars()).reshape(size[::-1]) != 0
    if not mask.any():
        return None
    block = _block(mask)
    matrix = vtk.vtkMatrix4x4()
    image.GetImageToWorldMatrix(matrix)
    toNode = slicer.util.arrayFromVTKMatrix(matrix)
    toNode[:3, 3] += toNode[:3, :3] @ low
    return mask[block], _moved(toNode, block)


def _block(mask: np.ndarray) -> tuple[slice, ...]:
    """The smallest block (k, j, i) that holds all voxels of a mask."""
    used = [np.flatnonzero(mask.any(axis=tuple({0, 1, 2} - {axis}))) for axis in range(3)]
    return tuple(slice(int(line[0]), int(line[-1]) + 1) for line in used)


def _moved(toRas: np.ndarray, block: tuple[slice, ...]) -> np.ndarray:
    """The matrix (4, 4) of a block's own voxels i, j, k -> RAS, from that of the grid that it is part of."""
    matrix = np.array(toRas, dtype=np.float64)
    matrix[:3, 3] += matrix[:3, :3] @ [part.start for part in reversed(block)]
    return matrix


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
