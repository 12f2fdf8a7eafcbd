"""ROI nodes as boxes along a volume's axes, and back.

A box is (2, 3), lowest and highest corner in the volume's own RAS mm, as the engine takes and gives it: without the
volume's parent transform. An ROI below the same parent transform is exactly that box, wherever the volume is moved.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import slicer.util
import vtk

from ..shared.VolumeNodes import fromWorld, toWorld

_CORNERS = np.array(list(product((-0.5, 0.5), repeat=3)))


def between(source, destination, points: np.ndarray) -> np.ndarray:
    """Convert points (n, 3) from one node's own coordinates to another's, each without its parent transform."""
    if source.GetParentTransformNode() is destination.GetParentTransformNode():
        return np.asarray(points, dtype=np.float64).reshape(-1, 3)
    return fromWorld(destination, toWorld(source, points))


def isDrawn(roiNode) -> bool:
    """Has the ROI a place and a size?"""
    return roiNode.GetNumberOfControlPoints() > 0 and min(roiNode.GetSize()) > 0


def boxIn(volumeNode, roiNode) -> np.ndarray:
    """The smallest box (2, 3) around the ROI's corners, which may be turned and moved in any way."""
    matrix = slicer.util.arrayFromVTKMatrix(roiNode.GetObjectToNodeMatrix())
    corners = (_CORNERS * roiNode.GetSize()) @ matrix[:3, :3].T + matrix[:3, 3]
    inVolume = between(roiNode, volumeNode, corners)
    return np.stack([inVolume.min(axis=0), inVolume.max(axis=0)])


def setBox(roiNode, volumeNode, box: np.ndarray) -> None:
    """Make the ROI this box (2, 3) of the volume, below the volume's parent transform."""
    roiNode.SetAndObserveTransformNodeID(volumeNode.GetTransformNodeID())
    matrix = vtk.vtkMatrix4x4()
    for axis, middle in enumerate(box.mean(axis=0)):
        matrix.SetElement(axis, 3, middle)
    roiNode.SetAndObserveObjectToNodeMatrix(matrix)
    roiNode.SetSize(*(box[1] - box[0]))


def shape(roiNode) -> list[float]:
    """The matrix (16 numbers) and size (3) of an ROI in its own coordinates, which a user may edit."""
    matrix = slicer.util.arrayFromVTKMatrix(roiNode.GetObjectToNodeMatrix())
    return [*matrix.ravel().tolist(), *roiNode.GetSize()]
