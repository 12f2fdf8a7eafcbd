# ruff: noqa: N802 - the names are those of Slicer and Qt
"""Double of `slicer.app.layoutManager()`: slice views without pictures, with their nodes and corner texts."""

import re
from types import SimpleNamespace

import slicer
import vtk
from PySide6 import QtCore

_VIEW = re.compile(
    r'class="vtkMRMLSliceNode" singletontag="(\w+)"[^>]*><property name="orientation"[^>]*>(\w+)<'
)
_PIXELS = (300, 200, 1)  # of a view in the window


class SliceView:
    """What a slice widget draws on: corner texts. rendered: how often a picture was drawn or asked for."""

    def __init__(self) -> None:
        self._corners = vtk.vtkCornerAnnotation()
        self.rendered = 0
        self._paused = 0

    def cornerAnnotation(self):
        return self._corners

    def scheduleRender(self) -> None:
        self.rendered += not self._paused

    def forceRender(self) -> None:
        self.rendered += 1

    def pauseRender(self) -> None:
        self._paused += 1

    def resumeRender(self) -> None:
        self._paused -= 1


class SliceWidget:
    """One view of the window."""

    def __init__(self, manager, node, composite) -> None:
        self._manager = manager
        self._node = node
        self._composite = composite
        self._view = SliceView()

    @property
    def visible(self) -> bool:
        return self._manager.is_shown(self._node)

    def sliceView(self) -> SliceView:
        return self._view

    def mrmlSliceNode(self):
        return self._node

    def mrmlSliceCompositeNode(self):
        return self._composite


class LayoutManager:
    """A view for every slice node, which a layout makes where it names one that is not there. As in Slicer, a view that
    is new in the window gets its size, and offset 0 along its normal, only when events are processed: a signal of its
    slider waits for that.

    width, height: of the main window, pixels.
    """

    def __init__(self, scene, width: int) -> None:
        self._scene = scene
        self.width = width
        self.height = 1080
        self._widgets: dict[str, SliceWidget] = {}
        self._put_in: set[str] = set()
        self.node = slicer.vtkMRMLLayoutNode()
        self.node.SetSingletonTag("vtkMRMLLayoutNode")  # the scene keeps it when it closes
        self.node = scene.AddNode(self.node)
        self._tags = [
            (self.node, self.node.AddObserver(vtk.vtkCommand.ModifiedEvent, self._on_layout)),
            (scene, scene.AddObserver(scene.NodeAddedEvent, lambda *_: self._make_widgets())),
        ]

    def sliceViewNames(self) -> tuple[str, ...]:
        return tuple(self._widgets)

    def sliceWidget(self, name: str) -> SliceWidget | None:
        return self._widgets.get(name)

    def viewport(self):
        return SimpleNamespace(window=lambda: self)

    def layoutLogic(self):
        return self

    def GetLayoutNode(self):
        return self.node

    def is_shown(self, view) -> bool:
        if self.node.GetNumberOfMaximizedViewNodes():
            return bool(self.node.IsMaximizedViewNode(view))
        return view.GetLayoutName() in self._described()

    def close(self) -> None:
        """The window closes."""
        for node, tag in self._tags:
            node.RemoveObserver(tag)
        for name in self._widgets:
            for kind in ("vtkMRMLSliceNode", "vtkMRMLSliceCompositeNode"):
                self._scene.RemoveNode(self._scene.GetSingletonNode(name, kind))
        self._scene.RemoveNode(self.node)

    def _described(self) -> dict[str, str]:
        return dict(_VIEW.findall(self.node.GetCurrentLayoutDescription() or ""))

    def _on_layout(self, *_event) -> None:
        for name, orientation in self._described().items():
            if name not in self._widgets:
                node = self._scene.CreateNodeByClass("vtkMRMLSliceNode")
                node.UnRegister(None)
                node.SetLayoutName(name)
                node.SetName(name)
                node.SetOrientation(orientation)
                self._scene.AddNode(node)
            if name not in self._put_in:
                self._put_in.add(name)
                QtCore.QTimer.singleShot(0, lambda name=name: self._give_size(name))

    def _make_widgets(self) -> None:
        for n in range(self._scene.GetNumberOfNodesByClass("vtkMRMLSliceNode")):
            node = self._scene.GetNthNodeByClass(n, "vtkMRMLSliceNode")
            name = node.GetLayoutName()
            if name not in self._widgets:
                composite = slicer.vtkMRMLSliceCompositeNode()
                composite.SetSingletonTag(name)  # the scene keeps it when it closes
                composite.SetLayoutName(name)
                composite.SetName(name)
                self._widgets[name] = SliceWidget(self, node, None)  # before the next node is added
                self._widgets[name]._composite = self._scene.AddNode(composite)

    def _give_size(self, name: str) -> None:
        node = self._widgets[name].mrmlSliceNode()
        if node.GetScene() is self._scene:
            node.SetDimensions(*_PIXELS)
            node.SetSliceOffset(0.0)
