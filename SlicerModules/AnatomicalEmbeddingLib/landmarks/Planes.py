"""Planes that are drawn by their centre: reads and sets their direction and size.

The edges of a plane are three rows (3, 3), mm: two directions in the plane times its sizes, and no third edge.
"""

from __future__ import annotations

import numpy as np

from AnatomicalEmbedding.landmarks.drawing import axes_and_sizes
from AnatomicalEmbedding.landmarks.markups import PLANE

from ..shared.VolumeNodes import fromWorld
from .ControlPoints import definedIds


def hasEdges(node) -> bool:
    """True if the node is a plane that is drawn by its centre, and its centre is placed."""
    isPlane = node.GetMarkupType() == PLANE and node.GetPlaneType() == node.PlaneTypePointNormal
    return isPlane and bool(definedIds(node))


def planeOf(node) -> list:
    """Return the directions and the sizes of a plane; [] for other markups."""
    if node.GetMarkupType() != PLANE:
        return []
    axes = np.zeros((3, 3))
    node.GetAxes(*axes)
    return [*axes.ravel().tolist(), *node.GetSize()]


def edgesIn(volumeNode, planeNode) -> np.ndarray:
    """Return the edges of a plane, in a volume's own RAS mm."""
    axes = np.zeros((3, 3))
    planeNode.GetAxesWorld(*axes)
    centre = np.array(planeNode.GetCenterWorld())
    edges = axes * np.array([*planeNode.GetSizeWorld(), 0.0])[:, None]
    ends = fromWorld(volumeNode, np.vstack([centre, centre + edges]))
    return ends[1:] - ends[0]


def setEdges(planeNode, edges: np.ndarray) -> None:
    """Turn and resize a plane. edges: without the parent transform of the plane."""
    axes, sizes = axes_and_sizes(edges)
    planeNode.SetSizeMode(planeNode.SizeModeAbsolute)
    planeNode.SetAxes(*axes.T.tolist())
    planeNode.SetSize(*sizes[:2])
