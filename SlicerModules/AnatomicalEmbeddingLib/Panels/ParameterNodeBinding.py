"""What module widgets share: the panel and the scene's parameter node stay in line, while scenes come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import vtk
from slicer.util import VTKObservationMixin

from .ParameterGui import connectGui


class ParameterNodeBinding(VTKObservationMixin):
    """Mixin of a module's widget. Widgets in `self.ui` that name a parameter are bound to it; for all else the module
    defines `showParameters(node)`, which brings panel and logic in line with a parameter node.

    `setup` ends with `followScene`, `enter` calls `initializeParameterNode`, `cleanup` begins with
    `setParameterNode(None)` and `removeObservers()`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parameterNode = self._parameterNodeGuiTag = None
        self._changing = False

    def followScene(self, scene, getParameterNode: Callable) -> None:
        """Bind the panel to the parameter node, now and when another scene is opened. getParameterNode(): the scene's,
        made where there is none.
        """
        self._scene, self._getParameterNode = scene, getParameterNode
        self.addObserver(scene, scene.StartCloseEvent, self.onSceneStartClose)
        self.addObserver(scene, scene.EndCloseEvent, self.onSceneEndClose)
        self.addObserver(scene, scene.EndBatchProcessEvent, self._onParameters)
        self.initializeParameterNode()

    def initializeParameterNode(self) -> None:
        """Take up what the scene holds."""
        self.setParameterNode(self._getParameterNode())

    def setParameterNode(self, parameterNode) -> None:
        """Bind the panel to a parameter node, or to none."""
        if self._parameterNode is not None:
            self._parameterNode.disconnectGui(self._parameterNodeGuiTag)
            self.removeObserver(self._parameterNode, vtk.vtkCommand.ModifiedEvent, self._onParameters)
        self._parameterNode = parameterNode
        if parameterNode is not None:
            self._parameterNodeGuiTag = connectGui(parameterNode, self.ui)
            self.addObserver(parameterNode, vtk.vtkCommand.ModifiedEvent, self._onParameters)
            self._onParameters()

    def onSceneStartClose(self, caller, event) -> None:
        self.setParameterNode(None)

    def onSceneEndClose(self, caller, event) -> None:
        if self.parent.isEntered:
            self.initializeParameterNode()

    @property
    def takesInput(self) -> bool:
        """Is a change in the panel the user's, and is there a parameter node to write it to?"""
        return self._parameterNode is not None and not self._changing

    @contextmanager
    def changingParameters(self) -> Iterator[None]:
        """Our own changes of the parameter node are not followed one by one, and those of the panel not written."""
        before, self._changing = self._changing, True
        try:
            yield
        finally:
            self._changing = before

    def _onParameters(self, caller=None, event=None) -> None:
        """The parameter node, or what the scene holds, has changed."""
        if self.takesInput and not self._scene.IsBatchProcessing():  # else the scene may be half loaded
            with self.changingParameters():
                self.showParameters(self._parameterNode)
