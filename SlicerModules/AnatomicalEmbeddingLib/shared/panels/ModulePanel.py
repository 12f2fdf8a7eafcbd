"""The base of all module panels: the panel shows the parameter node of the scene, while scenes come and go."""

from __future__ import annotations

from collections.abc import Callable

import qt
import vtk
from slicer.util import VTKObservationMixin

from ..Flag import Flag
from ..Signal import Listener


class ModulePanel(Listener, VTKObservationMixin):
    """Mixin of a module's widget. Widgets in `self.ui` that name a parameter are bound to it; the module
    defines `showParameters(node)`, which sets the rest of panel and logic by a parameter node.

    `setup` calls `atEnd` for what it makes and ends with `followScene`; `enter` calls `initializeParameterNode`; `exit`
    does nothing unless `isSetUp`; `cleanup` calls `end`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parameterNode = self._guiTag = None
        # our own changes of the parameter node are not followed one by one, and those of the panel not written
        self.changingParameters = Flag()
        self._isStale = False
        self._scene = None

    @property
    def isSetUp(self) -> bool:
        """Has `setup` come to its end, and `cleanup` not?"""
        return self._scene is not None

    def closing(self, part):
        """Let `end` close a part; returns the part."""
        self.atEnd(part.close)
        return part

    def end(self) -> None:
        """Undo the set-up, also one that failed half way. Slicer's Reload does not leave the module before."""
        if self.isSetUp and self.parent.isEntered:
            self.exit()
        self.setParameterNode(None)
        self.removeObservers()
        self._scene = None
        self.close()

    def followScene(self, scene, getParameterNode: Callable) -> None:
        """Bind the panel to the parameter node, now and when another scene is opened. getParameterNode(): the scene's,
        made if need be.
        """
        self._scene, self._getParameterNode = scene, getParameterNode
        self.addObserver(scene, scene.StartCloseEvent, self.onSceneStartClose)
        self.addObserver(scene, scene.EndCloseEvent, self.onSceneEndClose)
        self.addObserver(scene, scene.EndImportEvent, self._onImported)
        self.addObserver(scene, scene.EndBatchProcessEvent, self._onBatchEnd)
        self.initializeParameterNode()

    def initializeParameterNode(self) -> None:
        self.setParameterNode(self._getParameterNode())

    def setParameterNode(self, parameterNode) -> None:
        """Bind the panel to a parameter node; None: unbind it."""
        if self._parameterNode is not None:
            self._parameterNode.disconnectGui(self._guiTag)
            self.removeObserver(self._parameterNode.parameterNode, vtk.vtkCommand.ModifiedEvent, self._onParameters)
        self._parameterNode, self._isStale = parameterNode, False
        if parameterNode is not None:
            self._guiTag = parameterNode.connectGui(self.ui)
            # the node, not its wrapper: what was once observed is kept alive. After all others: the wrapper keeps what
            # it has read until the node reports a change, and VTK calls the first observer of a priority last
            self.addObserver(
                parameterNode.parameterNode, vtk.vtkCommand.ModifiedEvent, self._onParameters, priority=-1.0
            )
            self._onParameters()

    def onSceneStartClose(self, caller, event) -> None:
        self.setParameterNode(None)

    def onSceneEndClose(self, caller, event) -> None:
        if self.parent.isEntered:
            self.initializeParameterNode()

    @property
    def takesInput(self) -> bool:
        """Is a change in the panel the user's, and is there a parameter node to write it to?"""
        return self._parameterNode is not None and not self.changingParameters and not self._isStale

    def _onBatchEnd(self, caller, event) -> None:
        """A scene joins the loaded subject hierarchy with its own only after this event: changes wait for it."""
        qt.QTimer.singleShot(0, self._showAgain)

    def _onImported(self, caller, event) -> None:
        """Nodes that the parameter node refers to may have come after it: it does not report that, and its wrapper
        keeps what it read before, until it is made anew.
        """
        self._isStale = True

    def _showAgain(self) -> None:
        if self._parameterNode is not None:
            self.initializeParameterNode()

    def _onParameters(self, caller=None, event=None) -> None:
        """The parameter node, or what the scene holds, has changed."""
        if self.takesInput and not self._scene.IsBatchProcessing():  # else the scene may be half loaded
            with self.changingParameters:
                self.showParameters(self._parameterNode)
