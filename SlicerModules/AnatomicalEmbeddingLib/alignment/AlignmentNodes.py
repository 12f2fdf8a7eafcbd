"""Alignments in the scene: the transform node that moves a moving volume onto a fixed volume.

A registration maps points of the fixed scan to points of the moving scan, each in the scan's own RAS mm. The transform
node above the moving volume must map in the other direction. Therefore the registration is stored as the node's
transform FROM parent, and Slicer computes the inverse. The node gets the fixed volume's parent transform. The moving
volume's former parent transform is no longer applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import slicer
import slicer.util
import vtk
from vtk.util.numpy_support import numpy_to_vtk

from ..shared import SceneNodes

if TYPE_CHECKING:
    from AnatomicalEmbedding.registration.spline import SplineField
    from AnatomicalEmbedding.registration.transform import Registration

FIXED_ROLE, MOVING_ROLE = "AnatomicalEmbedding.FixedVolume", "AnatomicalEmbedding.MovingVolume"
_BEFORE_ROLE = "AnatomicalEmbedding.TransformBefore"  # parent transform of the moving volume before the alignment


def alignmentOf(volumeNode):
    """The transform node that aligns a volume now; None if the volume is not aligned."""
    node = None if volumeNode is None else volumeNode.GetParentTransformNode()
    return node if node is not None and node.GetNodeReference(MOVING_ROLE) is volumeNode else None


def align(scene, registration: Registration, fixedNode, movingNode):
    """Add a transform node that moves the moving volume onto the fixed volume. Returns the node."""
    isLinear = registration.field is None
    name = SceneNodes.freeName(scene, f"{movingNode.GetName()} to {fixedNode.GetName()}")
    node = scene.AddNewNodeByClass("vtkMRMLLinearTransformNode" if isLinear else "vtkMRMLTransformNode", name)
    if isLinear:
        node.SetMatrixTransformFromParent(slicer.util.vtkMatrixFromArray(registration.affine))
    else:
        node.SetAndObserveTransformFromParent(_splineTransform(registration.affine, registration.field))
    earlier = alignmentOf(movingNode)
    before = movingNode.GetTransformNodeID() if earlier is None else earlier.GetNodeReferenceID(_BEFORE_ROLE)
    node.SetAndObserveTransformNodeID(fixedNode.GetTransformNodeID())
    node.SetNodeReferenceID(FIXED_ROLE, fixedNode.GetID())
    node.SetNodeReferenceID(MOVING_ROLE, movingNode.GetID())
    node.SetNodeReferenceID(_BEFORE_ROLE, before)
    movingNode.SetAndObserveTransformNodeID(node.GetID())
    return node


def undoAlignment(volumeNode) -> None:
    """Move an aligned volume back to its place before the alignment. The transform node stays in the scene."""
    volumeNode.SetAndObserveTransformNodeID(alignmentOf(volumeNode).GetNodeReferenceID(_BEFORE_ROLE))


def _splineTransform(affine: np.ndarray, field: SplineField):
    """Make a VTK transform of affine(x) + field(x): first a B-spline, then an affine map. Transform files can hold it.

    Outside the fixed scan's box the displacement of the B-spline decreases to 0 within three knots.
    """
    knots = field.coefficients.double().numpy()
    moved = np.tensordot(np.linalg.inv(affine[:3, :3]), knots, axes=1)
    grid = vtk.vtkImageData()
    grid.SetDimensions(*reversed(knots.shape[1:]))
    grid.SetOrigin(*(low - field.knot_mm for low in field.low))
    grid.SetSpacing(*[field.knot_mm] * 3)
    values = np.ascontiguousarray(np.moveaxis(moved, 0, -1).reshape(-1, 3))
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
