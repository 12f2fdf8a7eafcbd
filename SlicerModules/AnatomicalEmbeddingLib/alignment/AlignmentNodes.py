"""Alignments in the scene: the transform that lays a moving volume on a fixed one, and the resampled volume.

A registration maps points of the fixed scan to the moving one, in each scan's own RAS mm. A transform node above the
moving volume maps the other way, to its parent. So the registration is the node's transform FROM parent, and Slicer
computes the inverse where it needs one. The node is put below the fixed volume's parent transform; the moving volume's
former parent transform no longer applies.
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
_BEFORE_ROLE = "AnatomicalEmbedding.TransformBefore"  # the moving volume's parent transform before it was aligned


def alignmentOf(volumeNode):
    """The transform node that aligns the volume now, or None."""
    node = None if volumeNode is None else volumeNode.GetParentTransformNode()
    return node if node is not None and node.GetNodeReference(MOVING_ROLE) is volumeNode else None


def align(scene, registration: Registration, fixedNode, movingNode):
    """Put the moving volume below a new transform node that lays it on the fixed volume; returns the node."""
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
    """Put an aligned volume back to where it was; the transform stays in the scene."""
    volumeNode.SetAndObserveTransformNodeID(alignmentOf(volumeNode).GetNodeReferenceID(_BEFORE_ROLE))


def _splineTransform(affine: np.ndarray, field: SplineField):
    """affine(x) + field(x) as a B-spline before an affine map, the form that transform files can hold.

    Beyond the fixed scan's box the displacement dies away within three knots.
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
    spline.SetBorderModeToZero()  # as it will be once read from a file
    linear = vtk.vtkTransform()
    linear.SetMatrix(slicer.util.vtkMatrixFromArray(affine))
    whole = vtk.vtkGeneralTransform()
    whole.PostMultiply()
    whole.Concatenate(spline)
    whole.Concatenate(linear)
    return whole
