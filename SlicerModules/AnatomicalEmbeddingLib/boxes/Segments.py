"""Segments of segmentation nodes: their names, their boxes, and their voxels in the grid of a scan."""

from collections.abc import Sequence

import numpy as np
import slicer
import slicer.util
import vtk
from vtk.util.numpy_support import vtk_to_numpy

from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.scan.geometry import transform_points

from ..shared.VolumeNodes import ijkToRas


def segmentIds(segmentationNode) -> list[str]:
    """IDs of all segments of a node, in the order of the segmentation."""
    return list(segmentationNode.GetSegmentation().GetSegmentIDs())


def segmentName(segmentationNode, segmentId: str) -> str:
    """Name of a segment, or "" if the segmentation has no segment with this ID."""
    segment = segmentationNode.GetSegmentation().GetSegment(segmentId)
    return "" if segment is None else segment.GetName()


def extremesIn(
    volumeNode, segmentationNode, segmentId: str
) -> tuple[np.ndarray, np.ndarray] | None:
    """Find the box around a segment. For each side of the box, find the mean position of the voxels at this side.

    Args:
        volumeNode: the volume in whose coordinates the result is given.
        segmentationNode: the node of the segment.
        segmentId: ID of the segment.

    Returns:
        The box (2, 3) and the mean positions (6, 3), in the volume's own RAS mm. Order of the positions: the sides with
        the lowest R, A, S, then the sides with the highest. None for a segment without voxels.

    Raises:
        PointsError: the transforms of segmentation and volume differ, and at least one transform is not linear.
    """
    image = _labelmap(segmentationNode, segmentId)
    if image is None:
        return None
    matrix = vtk.vtkMatrix4x4()
    image.GetImageToWorldMatrix(matrix)
    toVolume = _toVolume(segmentationNode, volumeNode) @ slicer.util.arrayFromVTKMatrix(matrix)
    # the image was cropped: its first voxel has the lowest indices (i, j, k) of the extent
    toVolume[:3, 3] += toVolume[:3, :3] @ image.GetExtent()[::2]
    # (n, 3), of the voxels of the segment
    centres = transform_points(toVolume, np.argwhere(_array(image))[:, ::-1])
    box = np.stack([centres.min(axis=0), centres.max(axis=0)])
    # a voxel is at a side if its centre is within half a voxel of the outermost centre: this gives exactly one layer of
    # voxels if the grid is parallel to the box, and about one layer if the grid is oblique
    layer = np.abs(toVolume[:3, :3]).max(axis=1) / 2
    halfVoxel = np.abs(toVolume[:3, :3]).sum(axis=1) / 2
    # (n, 3): whether a voxel is at the lowest, or at the highest, side in each axis
    lowest = centres < box[0] + layer
    highest = centres > box[1] - layer
    points = [centres[isAtSide].mean(axis=0) for isAtSide in (*lowest.T, *highest.T)]
    return box + np.stack([-halfVoxel, halfVoxel]), np.array(points)


def maskIn(volumeNode, segmentationNode, segmentId: str) -> np.ndarray | None:
    """Return a mask (k, j, i) of the volume, True in voxels whose centre lies in the segment.

    Returns None for a segment without voxels.

    Args:
        volumeNode: the volume.
        segmentationNode: the node of the segment.
        segmentId: ID of the segment.

    Raises:
        PointsError: the transforms of segmentation and volume differ, and at least one transform is not linear.
    """
    image = _labelmap(segmentationNode, segmentId)
    if image is None:
        return None
    transform = vtk.vtkTransform()
    grid = slicer.vtkOrientedImageData()
    result = slicer.vtkOrientedImageData()
    transform.SetMatrix(slicer.util.vtkMatrixFromArray(_toVolume(segmentationNode, volumeNode)))
    grid.SetDimensions(volumeNode.GetImageData().GetDimensions())
    grid.SetGeometryFromImageToWorldMatrix(slicer.util.vtkMatrixFromArray(ijkToRas(volumeNode)))
    resample = slicer.vtkOrientedImageDataResample.ResampleOrientedImageToReferenceOrientedImage
    resample(image, grid, result, False, False, transform)
    return _array(result) != 0


def addSegment(
    segmentationNode, mask: np.ndarray, toRas: np.ndarray, name: str, colour: Sequence[float]
) -> None:
    """Add a segment to a segmentation node.

    Args:
        segmentationNode: the node.
        mask: (k, j, i), with at least one True voxel.
        toRas: (4, 4), from voxel (i, j, k, 1) to the node's own RAS mm.
        name: name of the segment.
        colour: red, green and blue, 0 to 1.
    """
    image = slicer.vtkOrientedImageData()
    image.SetDimensions(*mask.shape[::-1])
    image.AllocateScalars(vtk.VTK_UNSIGNED_CHAR, 1)
    _array(image)[:] = mask
    image.SetGeometryFromImageToWorldMatrix(slicer.util.vtkMatrixFromArray(toRas))
    _crop(image)
    segmentationNode.AddSegmentFromBinaryLabelmapRepresentation(
        image, name, [float(channel) for channel in colour]
    )


def _labelmap(segmentationNode, segmentId: str):
    """Return a segment as binary image without empty margins; None for an empty segment. No transform is applied."""
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
    """Remove empty margins of an image, in place. Return False if all voxels are 0."""
    extent = [0] * 6
    hasVoxels = slicer.vtkOrientedImageDataResample.CalculateEffectiveExtent(image, extent)
    if hasVoxels:
        image.Crop(extent)
    return hasVoxels


def _array(image) -> np.ndarray:
    """Return the voxels (k, j, i) of an image, not copied: writing to the array changes the image."""
    return vtk_to_numpy(image.GetPointData().GetScalars()).reshape(image.GetDimensions()[::-1])


def _toVolume(segmentationNode, volumeNode) -> np.ndarray:
    """Return the matrix (4, 4) between RAS mm of two nodes without their parent transforms: segmentation to volume."""
    source = segmentationNode.GetParentTransformNode()
    destination = volumeNode.GetParentTransformNode()
    if source is destination:
        return np.eye(4)
    if not all(node is None or node.IsTransformToWorldLinear() for node in (source, destination)):
        raise PointsError(
            f"{segmentationNode.GetName()}: its transform or the transform of {volumeNode.GetName()} is not linear; "
            "give both nodes the same parent transform, or harden the nonlinear transform."
        )
    matrix = vtk.vtkMatrix4x4()
    slicer.vtkMRMLTransformNode.GetMatrixTransformBetweenNodes(source, destination, matrix)
    return slicer.util.arrayFromVTKMatrix(matrix)
