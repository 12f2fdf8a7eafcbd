"""Writes the names of boxes in slice views, each at the upper left corner of its box.

MRML itself writes the name of an ROI only in slices through the middle of the ROI.
"""

import numpy as np
import slicer.util
import vtk
from slicer.util import NodeModify

from AnatomicalEmbedding.scan.geometry import transform_points

from ..shared import Views
from ..shared.Markers import PassingNodes
from .BoxNodes import BoxNode, boxesByVolume, cornersOf
from .StructureNames import readable

_TEXT_SIZE = 2.2  # percent of the view's size
# edges of a box: pairs of corners 0 to 7, whose numbers differ in one bit; the corners are those of `cornersOf`
_EDGES = [(a, a | bit) for a in range(8) for bit in (1, 2, 4) if not a & bit]
_WIDE, _HIGH = 60, 13  # width and height of a written name, pixels
# smallest distances between a name and the borders of its view, pixels
_LEFT = 2
_RIGHT = 60
_TOP = 36
_BOTTOM = 4
_Places = dict[str, tuple[float, float]]  # name of a box -> place (x, y) of this name, pixels


class BoxLabels:
    """Shows the names of boxes. Each view has its own point list with the names of the boxes that this view shows."""

    def __init__(self, scene) -> None:
        self.scene = scene
        self._lists = PassingNodes(scene)
        # view ID -> all values on which the names in the view depend, at the last writing
        self._drawn: dict[str, tuple] = {}
        self._version = None
        self._boxes: dict[str, dict[str, BoxNode]] = {}  # volume ID -> structure -> box

    def follow(self, version: object) -> None:
        """Update the names in each view that has changed or whose boxes have changed. Call this a few times a second.

        version: any value that changes when the boxes change.
        """
        if version != self._version:
            self._version = version
            self._boxes = boxesByVolume(self.scene)
        if not self._boxes:
            self.clear()
            return
        for view in Views.sliceNodes(self.scene):
            self._followView(view)

    def _followView(self, view) -> None:
        """Write the names in one view again if the view, its scan, or the boxes in it have changed."""
        volume = Views.volumeIn(self.scene, view)
        # from pixel (x, y, 0, 1) to world mm
        xyToRas = slicer.util.arrayFromVTKMatrix(view.GetXYToRAS())
        boxes = {} if volume is None else self._boxes.get(volume.GetID(), {})
        visible = {name: box for name, box in boxes.items() if _isShown(box)}
        transform = volume.GetParentTransformNode() if visible else None
        moved = None if transform is None else (transform.GetID(), transform.GetMTime())
        now = (self._version, list(visible), moved, xyToRas.tobytes(), tuple(view.GetDimensions()))
        if self._drawn.get(view.GetID()) == now:
            return
        self._drawn[view.GetID()] = now
        corners = {}
        for name, box in visible.items():
            corner = _cornerIn(view, xyToRas, box)
            if corner is not None:
                corners[readable(name)] = corner
        places = {}
        for name, (x, y) in _spread(corners).items():
            places[name] = (xyToRas @ [x, y, 0.0, 1.0])[:3]
        self._write(view, places)

    def clear(self) -> None:
        self._lists.clear()
        self._drawn = {}

    def _write(self, view, places: dict[str, np.ndarray]) -> None:
        """Show the names of boxes in a view. places: name -> (3,) world mm."""
        node = self._lists.of(view)
        if node is None and not places:
            return
        if node is None:
            node = self._addList(view)
        with NodeModify(node):
            node.RemoveAllControlPoints()
            for name, place in places.items():
                node.AddControlPoint(vtk.vtkVector3d(*place), name)

    def _addList(self, view):
        """Add the point list with the names of boxes in one view. Its points are drawn as texts only."""
        node = self._lists.add(view, "vtkMRMLMarkupsFiducialNode", "Names of boxes")
        node.SetLocked(True)
        node.CreateDefaultDisplayNodes()
        display = node.GetDisplayNode()
        display.SetSaveWithScene(False)
        display.SetViewNodeIDs([view.GetID()])
        display.SetVisibility3D(False)
        display.SetUseGlyphScale(False)
        display.SetGlyphSize(0.01)
        display.SetTextScale(_TEXT_SIZE)
        display.SetSelectedColor(1.0, 1.0, 1.0)
        return node


def _isShown(box: BoxNode) -> bool:
    """Return True if the user has not hidden the box in slice views."""
    display = box.node.GetDisplayNode()
    return display is not None and bool(display.GetVisibility()) and bool(display.GetVisibility2D())


def _cornerIn(view, xyToRas: np.ndarray, box: BoxNode) -> tuple[float, float] | None:
    """Return the upper left corner (x, y), in pixels, of a box in a view; None if the view shows no part of the box."""
    world = cornersOf(box.node, box.node.GetObjectToWorldMatrix())
    # (8, 3): pixels to the right, pixels up, distance from the slice, whose sign says on which side
    xyz = transform_points(np.linalg.inv(xyToRas), world)
    # the points in which edges cross the slice: their distance is 0
    cut = []
    for a, b in _EDGES:
        start = xyz[a, 2]
        end = xyz[b, 2]
        if start * end < 0:
            cut.append((xyz[a] * end - xyz[b] * start) / (end - start))
    if not cut:
        return None
    xMin, yMin, _distance = np.min(cut, axis=0)
    xMax, yMax, _distance = np.max(cut, axis=0)
    width, height = view.GetDimensions()[:2]
    if xMax < 0 or xMin > width or yMax < 0 or yMin > height:
        return None
    x = min(max(xMin, _LEFT), max(width - _RIGHT, _LEFT))
    y = min(max(yMax, _BOTTOM), max(height - _TOP, _BOTTOM))
    return x, y


def _spread(places: _Places) -> _Places:
    """Return positions at which no two names overlap: names are moved down. places: name -> position (x, y), pixels."""
    spread: _Places = {}
    # from the top of the view to the bottom
    for name, (x, y) in sorted(places.items(), key=lambda item: -item[1][1]):
        while any(abs(x - ax) < _WIDE and abs(y - ay) < _HIGH for ax, ay in spread.values()):
            y -= _HIGH
        spread[name] = x, y
    return spread
