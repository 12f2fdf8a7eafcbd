"""Planes and boxes (ROI) that are drawn by their centre: reads and sets their directions and sizes.

The edges of a plane or box are three rows (3, 3), mm: a row is a direction times the size. The third edge of a plane
has no length.
"""

import numpy as np
import slicer
import vtk

from AnatomicalEmbedding.landmarks.drawing import axes_and_sizes
from AnatomicalEmbedding.landmarks.markups import PLANE, ROI

from ..shared.VolumeNodes import fromWorld
from .ControlPoints import definedIds


def edgesOf(node) -> list[float]:
    """Return the edges (9 numbers) of a plane or box without its parent transform; [] for other markups."""
    kind = node.GetMarkupType()
    if kind not in (PLANE, ROI):
        return []
    matrix = vtk.vtkMatrix4x4()
    if kind == ROI:
        matrix = node.GetObjectToNodeMatrix()
    else:
        node.GetObjectToNodeMatrix(matrix)
    axes = slicer.util.arrayFromVTKMatrix(matrix)[:3, :3]
    sizes = [*node.GetSize(), 0.0][:3]
    return (axes * sizes).T.ravel().tolist()


def hasEdges(node) -> bool:
    """True if the node is a box, or a plane that is drawn by its centre, and is placed and has a size."""
    kind = node.GetMarkupType()
    isByCentre = kind == ROI or (kind == PLANE and node.GetPlaneType() == node.PlaneTypePointNormal)
    return isByCentre and bool(definedIds(node)) and min(node.GetSize()) > 0


def edgesIn(volumeNode, node) -> np.ndarray:
    """Return the edges of a plane or box, in a volume's own RAS mm."""
    centre = np.array(node.GetNthControlPointPosition(0))
    ends = [centre, *(centre + np.reshape(edgesOf(node), (3, 3)))]
    worldEnds = np.zeros((4, 3))
    for end, worldEnd in zip(ends, worldEnds, strict=True):
        node.TransformPointToWorld(end, worldEnd)
    ends = fromWorld(volumeNode, worldEnds)
    return ends[1:] - ends[0]


def setEdges(node, edges: np.ndarray) -> None:
    """Turn and resize a plane or box. edges: without the parent transform of the node."""
    axes, sizes = axes_and_sizes(edges)
    if node.GetMarkupType() == PLANE:
        node.SetSizeMode(node.SizeModeAbsolute)
        node.SetAxes(*axes.T.tolist())
        node.SetSize(*sizes[:2])
    else:
        matrix = np.eye(4)
        matrix[:3] = np.column_stack([axes, node.GetNthControlPointPosition(0)])
        node.SetAndObserveObjectToNodeMatrix(slicer.util.vtkMatrixFromArray(matrix))
        node.SetSize(*sizes)
