# ruff: noqa: N802 - the names are those of Slicer and Qt
"""`slicer.app.layoutManager()`: the slice views of a window, as far as their nodes and corner texts go."""

import re

import slicer
import vtk
from PySide6 import QtCore

_VIEW = re.compile(r'class="vtkMRMLSliceNode" singletontag="(\w+)"[^>]*><property name="orientation"[^>]*>(\w+)<')
_PIXELS = (300, 200, 1)  # of a view in the window


class SliceView:
    """What a slice widget draws on: corner texts, and how often it was asked for a picture."""

    def __init__(self) -> None:
        self._corners, self.rendered = vtk.vtkCornerAnnotation(), 0

    def cornerAnnotation(self):
        return self._corners

    def scheduleRender(self) -> None:
        self.rendered += 1


class SliceWidget:
    """One view of the layout."""

    def __init__(self, node) -> None:
        self._node, self._view = node, SliceView()

    def sliceView(self) -> SliceView:
        return self._view

    def mrmlSliceNode(self):
        return self._node


class LayoutManager:
    """Makes the views that a layout names. As in Slicer, a new one gets its size, and offset 0 along its normal, only
    when events are processed: a signal of its slider waits for that.
    """

    def __init__(self, scene) -> None:
        self._scene = scene
        self._widgets: dict[str, SliceWidget] = {}
        self._node = scene.GetFirstNodeByClass("vtkMRMLLayoutNode") or scene.AddNewNodeByClass("vtkMRMLLayoutNode")
        self._tag = self._node.AddObserver(vtk.vtkCommand.ModifiedEvent, self._on_layout)

    def sliceViewNames(self) -> list[str]:
        return list(self._widgets)

    def sliceWidget(self, name: str) -> SliceWidget | None:
        return self._widgets.get(name)

    def close(self) -> None:
        """The window closes."""
        self._node.RemoveObserver(self._tag)
        for name in self._widgets:
            for kind in ("vtkMRMLSliceNode", "vtkMRMLSliceCompositeNode"):
                self._scene.RemoveNode(self._scene.GetSingletonNode(name, kind))

    def _on_layout(self, *_event) -> None:
        described = self._node.GetLayoutDescription(self._node.GetViewArrangement())
        for name, orientation in _VIEW.findall(described or ""):
            if name not in self._widgets:
                self._widgets[name] = SliceWidget(self._add(name, orientation))

    def _add(self, name: str, orientation: str):
        node = self._scene.CreateNodeByClass("vtkMRMLSliceNode")
        node.UnRegister(None)
        composite = slicer.vtkMRMLSliceCompositeNode()
        for each in (node, composite):
            each.SetSingletonTag(name)
            each.SetLayoutName(name)
            each.SetName(name)
        node.SetOrientation(orientation)
        self._scene.AddNode(composite)
        node = self._scene.AddNode(node)
        QtCore.QTimer.singleShot(0, lambda: self._settle(node))
        return node

    def _settle(self, node) -> None:
        if node.GetScene() is self._scene:
            node.SetDimensions(*_PIXELS)
            node.SetSliceOffset(0.0)
