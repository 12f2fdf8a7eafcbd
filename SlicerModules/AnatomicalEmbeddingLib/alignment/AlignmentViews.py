"""Show the moving volume over the fixed volume in slice views, half transparent, to check the alignment.

With two colours, tissue that both volumes show is grey. Tissue of the fixed volume alone is cyan, and tissue of the
moving volume alone is red.
"""

from __future__ import annotations

from ..shared.SceneNodes import nodesOf
from ..shared.Views import compositeOf, sliceNodes, viewsOf

_OPACITY = 0.5
_FIXED_COLOUR, _MOVING_COLOUR = "vtkMRMLColorTableNodeCyan", "vtkMRMLColorTableNodeRed"
_BEFORE_ROLE = "AnatomicalEmbedding.ColoursBefore"  # colour table of a display node before `layOver`


def areLaidOver(scene, fixedNode, movingNode) -> bool:
    """True if any view shows the moving volume over the fixed volume."""
    if fixedNode is None or movingNode is None:
        return False
    return any(
        each.GetForegroundVolumeID() == movingNode.GetID() for each in _composites(scene, viewsOf(scene, fixedNode))
    )


def layOver(scene, fixedNode, movingNode, twoColours: bool = False) -> bool:
    """Show the moving volume over the fixed volume, in the views that show the fixed volume.

    If no view shows the fixed volume, all views are used. Returns False if there are no views.
    """
    _restoreColours(scene)
    composites = _composites(scene, viewsOf(scene, fixedNode) or sliceNodes(scene))
    for composite in composites:
        composite.SetBackgroundVolumeID(fixedNode.GetID())
        composite.SetForegroundVolumeID(movingNode.GetID())
        composite.SetForegroundOpacity(_OPACITY)
    if composites and twoColours:
        _colour(fixedNode, _FIXED_COLOUR)
        _colour(movingNode, _MOVING_COLOUR)
    return bool(composites)


def takeAway(scene, fixedNode, movingNode) -> None:
    """Hide the moving volume in the views of the fixed volume, and restore the colours of all volumes."""
    _restoreColours(scene)
    for composite in _composites(scene, viewsOf(scene, fixedNode)):
        if composite.GetForegroundVolumeID() == movingNode.GetID():
            composite.SetForegroundVolumeID(None)


def _composites(scene, views) -> list:
    found = (compositeOf(scene, view) for view in views)
    return [composite for composite in found if composite is not None]


def _colour(volumeNode, colourId: str) -> None:
    display = volumeNode.GetDisplayNode()
    if display is not None:
        display.SetNodeReferenceID(_BEFORE_ROLE, display.GetColorNodeID())
        display.SetAndObserveColorNodeID(colourId)


def _restoreColours(scene) -> None:
    for display in nodesOf(scene, "vtkMRMLScalarVolumeDisplayNode"):
        before = display.GetNodeReferenceID(_BEFORE_ROLE)
        if before is not None:
            display.SetAndObserveColorNodeID(before)
            display.SetNodeReferenceID(_BEFORE_ROLE, None)
