"""Access to the points of a list by ID. If a point is deleted, the IDs of other points stay; indices change."""

import numpy as np


def definedIds(listNode) -> list[str]:
    """Return the IDs of the points that have a position, in list order. A point that follows the mouse is left out."""
    count = range(listNode.GetNumberOfControlPoints())
    return [
        listNode.GetNthControlPointID(n)
        for n in count
        if listNode.GetNthControlPointPositionStatus(n) == listNode.PositionDefined
    ]


def isPreview(listNode, index: int) -> bool:
    """True if the point still follows the mouse, because no click has placed it yet."""
    # the second corner of a box is gone when its event arrives
    isHere = index < listNode.GetNumberOfControlPoints()
    return isHere and listNode.GetNthControlPointPositionStatus(index) == listNode.PositionPreview


def makeIdsUnique(listNode) -> None:
    """Give a new ID to each point that has no ID, or that of an earlier point. Loaded lists may have such points."""
    ids = {""}
    for n in range(listNode.GetNumberOfControlPoints()):
        while listNode.GetNthControlPointID(n) in ids:
            listNode.ResetNthControlPointID(n)
        ids.add(listNode.GetNthControlPointID(n))


def labelOf(listNode, pointId: str) -> str:
    return listNode.GetNthControlPointLabel(listNode.GetControlPointIndexByID(pointId))


def worldOf(listNode, pointId: str) -> np.ndarray | None:
    """Position of a point, (3,) world mm; None if the point was deleted or has no position."""
    index = listNode.GetControlPointIndexByID(pointId)
    if index < 0 or listNode.GetNthControlPointPositionStatus(index) != listNode.PositionDefined:
        return None
    return np.array(listNode.GetNthControlPointPositionWorld(index))


def fromNode(listNode, pointId: str) -> np.ndarray:
    """Position of a point, (3,) mm in the list's own coordinates, without the list's parent transform."""
    return np.array(listNode.GetNthControlPointPosition(listNode.GetControlPointIndexByID(pointId)))
