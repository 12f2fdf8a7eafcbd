"""A mark at one place of a scan: drawn in the scan's views, never saved, offered nowhere."""

from __future__ import annotations

from collections.abc import Sequence

import vtk

from . import Views

SIZE = 6.0  # per cent of the view; points are half as large


def addMarker(scene, name: str, colour: Sequence[float]):
    """A point list with one locked point at the origin, without a label, which the mouse does not place in."""
    node = scene.CreateNodeByClass("vtkMRMLMarkupsFiducialNode")
    node.UnRegister(None)
    node.SetName(name)
    node.SetHideFromEditors(True)
    node.SetSaveWithScene(False)
    with Views.keepingPlaceNode(scene):
        scene.AddNode(node)
    node.CreateDefaultDisplayNodes()
    display = node.GetDisplayNode()
    display.SetSaveWithScene(False)
    display.SetSelectedColor(*colour)
    display.SetPointLabelsVisibility(False)
    display.SetGlyphTypeFromString("CrossDot2D")
    display.SetGlyphScale(SIZE)
    node.AddControlPoint(vtk.vtkVector3d(0, 0, 0))
    node.SetNthControlPointLocked(0, True)
    return node
