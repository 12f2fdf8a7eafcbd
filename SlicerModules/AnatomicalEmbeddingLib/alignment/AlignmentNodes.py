"""Alignments in the scene: the transform node that moves a moving volume onto a fixed volume, and views of both.

A registration maps points of the fixed scan to points of the moving scan, each in the scan's own RAS mm. The parent
transform of the moving volume must map in the other direction. So the new transform node stores the
registration as its TransformFromParent, and Slicer computes the inverse, its TransformToParent. The new node gets the
parent transform of the fixed volume, and replaces the parent transform that the moving volume had before.

To check the alignment, slice views show the moving volume over the fixed volume, half transparent. With two colours,
tissue that both volumes show is grey. Tissue of only the fixed volume is cyan, tissue of only the moving volume is red.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import slicer
import slicer.util
import vtk
from vtk.util.numpy_support import numpy_to_vtk

from ..shared.SceneNodes import freeName, nodesOf
from ..shared.Views import compositeOf, sliceNodes, viewsOf

if TYPE_CHECKING:
    from AnatomicalEmbedding.fields.spline import SplineField
    from AnatomicalEmbedding.registration.transform import Registration

FIXED_ROLE = "AnatomicalEmbedding.FixedVolume"
MOVING_ROLE = "AnatomicalEmbedding.MovingVolume"
_BEFORE_ROLE = "AnatomicalEmbedding.TransformBefore"  # parent transform of the moving volume before the alignment
# colour table of a display node before `layOver`
_COLOURS_ROLE = "AnatomicalEmbedding.ColoursBefore"
_OPACITY = 0.5  # of the moving scan over the fixed scan: both alike
_FIXED_COLOUR = "vtkMRMLColorTableNodeCyan"
_MOVING_COLOUR = "vtkMRMLColorTableNodeRed"


def alignmentOf(volumeNode):
    """Return the transform node that aligns a volume now; None if the volume is not aligned."""
    node = None if volumeNode is None else volumeNode.GetParentTransformNode()
    return node if node is not None and node.GetNodeReference(MOVING_ROLE) is volumeNode else None


def align(scene, registration: Registration, fixedNode, movingNode):
    """Add a transform node that moves the moving volume onto the fixed volume. Returns the node.

    Args:
        scene: the scene.
        registration: from the fixed to the moving scan.
        fixedNode, movingNode: the volume nodes.
    """
    name = freeName(scene, f"{movingNode.GetName()} to {fixedNode.GetName()}")
    if registration.field is None:
        node = scene.AddNewNodeByClass("vtkMRMLLinearTransformNode", name)
        node.SetMatrixTransformFromParent(slicer.util.vtkMatrixFromArray(registration.affine))
    else:
        node = scene.AddNewNodeByClass("vtkMRMLTransformNode", name)
        transform = _splineTransform(registration.affine, registration.field)
        node.SetAndObserveTransformFromParent(transform)
    earlier = alignmentOf(movingNode)
    # the transform to which undo returns: the one before the first of several alignments
    before = movingNode.GetTransformNodeID()
    if earlier is not None:
        before = earlier.GetNodeReferenceID(_BEFORE_ROLE)
    node.SetAndObserveTransformNodeID(fixedNode.GetTransformNodeID())
    node.SetNodeReferenceID(FIXED_ROLE, fixedNode.GetID())
    node.SetNodeReferenceID(MOVING_ROLE, movingNode.GetID())
    node.SetNodeReferenceID(_BEFORE_ROLE, before)
    movingNode.SetAndObserveTransformNodeID(node.GetID())
    return node


def undoAlignment(volumeNode) -> None:
    """Move an aligned volume back to its place before the alignment. The transform node stays in the scene."""
    volumeNode.SetAndObserveTransformNodeID(
        alignmentOf(volumeNode).GetNodeReferenceID(_BEFORE_ROLE)
    )


def _splineTransform(affine: np.ndarray, field: SplineField):
    """Return the VTK transform affine(x) + field(x), as a B-spline and then an affine map, because Slicer saves both.

    Outside the fixed scan's box the displacement of the B-spline decreases to 0 within three knot distances.
    """
    knots = field.coefficients.double().numpy()  # (3, k, j, i)
    # the affine map comes after the B-spline and also acts on its displacements; its inverse makes up for this
    coefficients = np.tensordot(np.linalg.inv(affine[:3, :3]), knots, axes=1)
    grid = vtk.vtkImageData()
    grid.SetDimensions(*reversed(knots.shape[1:]))
    grid.SetOrigin(*(low - field.knot_mm for low in field.low))  # of the first knot
    grid.SetSpacing(*[field.knot_mm] * 3)
    values = np.ascontiguousarray(np.moveaxis(coefficients, 0, -1).reshape(-1, 3))
    grid.GetPointData().SetScalars(numpy_to_vtk(values, deep=True))
    spline = slicer.vtkOrientedBSplineTransform()
    spline.SetCoefficientData(grid)
    spline.SetBorderModeToZero()  # transforms read from a file have this mode too
    linear = vtk.vtkTransform()
    linear.SetMatrix(slicer.util.vtkMatrixFromArray(affine))
    whole = vtk.vtkGeneralTransform()
    whole.PostMultiply()
    whole.Concatenate(spline)
    whole.Concatenate(linear)
    return whole


def areLaidOver(scene, fixedNode, movingNode) -> bool:
    """True if any view shows the moving volume over the fixed volume.

    Args:
        scene: the scene.
        fixedNode, movingNode: the volume nodes.
    """
    if fixedNode is None or movingNode is None:
        return False
    composites = _composites(scene, viewsOf(scene, fixedNode))
    return movingNode.GetID() in [composite.GetForegroundVolumeID() for composite in composites]


def layOver(scene, fixedNode, movingNode, twoColours: bool = False) -> bool:
    """Show the moving volume over the fixed volume, in the views that show the fixed volume.

    If no view shows the fixed volume, all views show both. Returns False if there are no views.

    Args:
        scene: the scene.
        fixedNode, movingNode: the volume nodes.
        twoColours: True to draw each volume in a colour of its own.
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
    """Hide the moving volume in the views of the fixed volume, and restore the colours of all volumes.

    Args:
        scene: the scene.
        fixedNode, movingNode: the volume nodes.
    """
    _restoreColours(scene)
    for composite in _composites(scene, viewsOf(scene, fixedNode)):
        if composite.GetForegroundVolumeID() == movingNode.GetID():
            composite.SetForegroundVolumeID(None)


def _composites(scene, views) -> list:
    """Return the nodes that state which volumes these slice views show."""
    nodes = (compositeOf(scene, view) for view in views)
    return [composite for composite in nodes if composite is not None]


def _colour(volumeNode, colourId: str) -> None:
    """Draw a volume with another colour table, given its ID, and remember the table that it had."""
    display = volumeNode.GetDisplayNode()
    if display is not None:
        display.SetNodeReferenceID(_COLOURS_ROLE, display.GetColorNodeID())
        display.SetAndObserveColorNodeID(colourId)


def _restoreColours(scene) -> None:
    """Give all volumes the colour tables that they had before `layOver`."""
    for display in nodesOf(scene, "vtkMRMLScalarVolumeDisplayNode"):
        before = display.GetNodeReferenceID(_COLOURS_ROLE)
        if before is not None:
            display.SetAndObserveColorNodeID(before)
            display.SetNodeReferenceID(_COLOURS_ROLE, None)
