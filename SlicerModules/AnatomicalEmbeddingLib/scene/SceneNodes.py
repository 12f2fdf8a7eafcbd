"""Nodes of a scene by their class."""

from __future__ import annotations


def nodesOf(scene, className: str) -> list:
    """Nodes of a class, and of those derived from it, in the scene's order.

    `slicer.util.getNodesByClass` looks in `slicer.mrmlScene`, whichever scene it is given.
    """
    found = scene.GetNodesByClass(className)
    found.UnRegister(None)  # the collection comes with a reference that Python does not know of
    return list(found)
