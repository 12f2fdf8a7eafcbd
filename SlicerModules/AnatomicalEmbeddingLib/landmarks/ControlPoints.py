"""Control points of a point list by their ID, which stays when points before them are deleted."""

from __future__ import annotations

import numpy as np


def definedIds(listNode) -> list[str]:
    """IDs of the points that have a position, in order; without a point that only follows the mouse."""
    count = range(listNode.GetNumberOfControlPoints())
    return [
        listNode.GetNthControlPointID(n)
        for n in count
        if listNode.GetNthControlPointPositionStatus(n) == listNode.PositionDefined
    ]


def isPreview(listNode, index: int) -> bool:
    """Does the point only follow the mouse, until a click places it?"""
    return listNode.GetNthControlPointPositionStatus(index) == listNode.PositionPreview


def makeIdsUnique(listNode) -> None:
    """Give later points of an ID new ones. MRML numbers points from 1 again once a list was loaded or restored."""
    seen: set[str] = set()
    for n in range(listNode.GetNumberOfControlPoints()):
        while (pointId := listNode.GetNthControlPointID(n)) in seen or not pointId:
            listNode.ResetNthControlPointID(n)
        seen.add(pointId)


def labelOf(listNode, pointId: str) -> str:
    return listNode.GetNthControlPointLabel(listNode.GetControlPointIndexByID(pointId))


def worldOf(listNode, pointId: str) -> np.ndarray | None:
    """(3,) world mm, or None where the point is gone or has no position."""
    index = listNode.GetControlPointIndexByID(pointId)
    if index < 0 or listNode.GetNthControlPointPositionStatus(index) != listNode.PositionDefined:
        return None
    return np.array(listNode.GetNthControlPointPositionWorld(index))


def fromNode(listNode, pointId: str) -> np.ndarray:
    """(3,) mm in the list's own coordinates, without its parent transform."""
    return np.array(listNode.GetNthControlPointPosition(listNode.GetControlPointIndexByID(pointId)))
