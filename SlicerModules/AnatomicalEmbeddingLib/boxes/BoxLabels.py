"""Writes the names of boxes in slice views, each at the upper left corner of its box.

MRML itself writes the name of an ROI only in slices through the middle of the ROI.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import slicer.util
import vtk
from slicer.util import NodeModify

from ..shared import Views
from ..shared.Markers import PassingNodes
from .BoxNodes import BoxNode, boxesByVolume
from .StructureNames import readable

_TEXT_SIZE = 2.2  # percent of the view's size
# edges of a box: pairs of corners 0 to 7
_EDGES = [(a, a | bit) for a in range(8) for bit in (1, 2, 4) if not a & bit]
_WIDE, _HIGH = 60, 13  # width and height of a written name, pixels
# smallest distances between a name and the borders of its view, pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 2, 60, 36, 4


class BoxLabels:
    """Shows the names of boxes. Each view has its own point list with the names of the boxes that this view shows."""

    def __init__(self, scene) -> None:
        self.scene = scene
        self._lists = PassingNodes(scene)
        self._drawn: dict[str, tuple] = {}
        self._version = None
        self._boxes = {}

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
            volume = Views.volumeIn(self.scene, view)
            xyToRas = slicer.util.arrayFromVTKMatrix(view.GetXYToRAS())
            boxes = {} if volume is None else self._boxes.get(volume.GetID(), {})
            visible = {name: box for name, box in boxes.items() if _isShown(box)}
            transform = volume.GetParentTransformNode() if visible else None
            moved = None if transform is None else (transform.GetID(), transform.GetMTime())
            now = (version, list(visible), moved, xyToRas.tobytes(), tuple(view.GetDimensions()))
            if self._drawn.get(view.GetID()) != now:
                self._drawn[view.GetID()] = now
                corners = {
                    readable(name): _cornerIn(view, xyToRas, box) for name, box in visible.items()
                }
                places = _spread(
                    {name: corner for name, corner in corners.items() if corner is not None}
                )
                self._write(
                    view,
                    {name: (xyToRas @ [*place, 0.0, 1.0])[:3] for name, place in places.items()},
                )

    def clear(self) -> None:
        self._lists.clear()
        self._drawn = {}

    def _write(self, view, places: dict[str, np.ndarray]) -> None:
        """Show the names of boxes in a view. places: name -> (3,) world mm."""
        node = self._lists.of(view) or (self._addList(view) if places else None)
        if node is None:
            return
        with NodeModify(node):
            node.RemoveAllControlPoints()
            for name, place in places.items():
                node.AddControlPoint(vtk.vtkVector3d(*place), name)

    def _addList(self, view):
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
    display = box.node.GetDisplayNode()
    return display is not None and bool(display.GetVisibility()) and bool(display.GetVisibility2D())


def _cornerIn(view, xyToRas: np.ndarray, box: BoxNode) -> tuple[float, float] | None:
    """Return the upper left corner (x, y), in pixels, of a box in a view; None if the view shows no part of the box."""
    toRas = slicer.util.arrayFromVTKMatrix(box.node.GetObjectToWorldMatrix())
    half = np.array(box.node.GetSize()) / 2
    corners = np.array([[*(half * signs), 1.0] for signs in product((-1, 1), repeat=3)])
    xyz = (np.linalg.inv(xyToRas) @ toRas @ corners.T).T[:, :3]
    cut = [
        (xyz[a] * xyz[b, 2] - xyz[b] * xyz[a, 2]) / (xyz[b, 2] - xyz[a, 2])
        for a, b in _EDGES
        if xyz[a, 2] * xyz[b, 2] < 0
    ]
    if not cut:
        return None
    (xMin, yMin), (xMax, yMax) = np.min(cut, axis=0)[:2], np.max(cut, axis=0)[:2]
    width, height = view.GetDimensions()[:2]
    if xMax < 0 or xMin > width or yMax < 0 or yMin > height:
        return None
    return min(max(xMin, _LEFT), max(width - _RIGHT, _LEFT)), min(
        max(yMax, _BOTTOM), max(height - _TOP, _BOTTOM)
    )


def _spread(places: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Return positions at which no two names overlap: names are moved down. places: name -> position (x, y), pixels."""
    spread: dict[str, tuple[float, float]] = {}
    for name, (x, y) in sorted(places.items(), key=lambda item: -item[1][1]):
        while any(abs(x - ax) < _WIDE and abs(y - ay) < _HIGH for ax, ay in spread.values()):
            y -= _HIGH
        spread[name] = x, y
    return spread
