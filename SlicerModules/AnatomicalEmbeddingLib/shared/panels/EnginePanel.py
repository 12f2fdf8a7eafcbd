"""Base class of the panels that use the engine: shared session, set-up section, and the scene's parameter node.

If the user closes the scene or loads another scene, a panel then shows the new parameter node of the scene.
"""

from collections.abc import Callable
from functools import cache

import qt
import slicer
import slicer.util
import vtk
from slicer.util import VTKObservationMixin

from ..Signal import Flag, Listener
from .Session import Session
from .SetupPanel import SetupPanel
from .Widgets import showText


@cache
def _sessionOf(scene) -> Session:
    return Session(scene, qt.QTimer())


def sharedSession() -> Session:
    """Return the session of the application's scene. All modules share this session."""
    return _sessionOf(slicer.mrmlScene)


class EnginePanel(Listener, VTKObservationMixin):
    """Mixin of a module's widget. session: see `sharedSession`. ui: widgets by name, among them `statusLabel`.

    Widgets in `self.ui` that name a parameter are connected to this parameter. The module's `showParameters(node)`
    updates the other widgets and the logic from the parameter node.

    The module must define four methods. `setup` calls `openPanel`, then `atEnd` or `closing` for each object to close,
    and last `followScene`. `enter` calls `enterPanel`. `exit` does nothing unless `isSetUp`. `cleanup` calls `end`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parameterNode = self._guiTag = None
        # True while this class itself changes the node or the panel; such changes are not treated as input of the user
        self.changingParameters = Flag()
        self._isStale = False  # see `_onImported`
        self._scene = None

    def openPanel(self, path: str) -> qt.QWidget:
        """Show the panel of a .ui file below the set-up section. Returns the panel's widget."""
        self.session = sharedSession()
        self.session.attach(self, lambda: self.parent.isEntered)
        self.atEnd(lambda: self.session.detach(self))
        uiWidget = slicer.util.loadUI(path)
        self.setupPanel = self.closing(SetupPanel(self.layout, self.session))
        self.layout.addWidget(uiWidget)
        self.ui = slicer.util.childWidgetVariables(uiWidget)
        uiWidget.setMRMLScene(slicer.mrmlScene)
        return uiWidget

    def enterPanel(self) -> None:
        """Update the panel after the user has opened the module."""
        self.session.wake()
        self.setupPanel.refresh()
        self.initializeParameterNode()

    def say(self, sentence: str) -> None:
        """Show a sentence in the status label. An empty sentence hides the label."""
        showText(self.ui.statusLabel, sentence)

    @property
    def isSetUp(self) -> bool:
        """True after `setup` has finished and until `cleanup` is called."""
        return self._scene is not None

    def closing(self, part):
        """Make `end` call `part.close()`. Returns `part`."""
        self.atEnd(part.close)
        return part

    def end(self) -> None:
        """Undo `setup`, even if it failed. If the module is open, first call `exit`, which Slicer's Reload skips."""
        if self.isSetUp and self.parent.isEntered:
            self.exit()
        self.setParameterNode(None)
        self.removeObservers()
        self._scene = None
        self.close()

    def followScene(self, scene, getParameterNode: Callable) -> None:
        """Connect the panel to the parameter node, now and each time the scene is closed or loaded.

        getParameterNode(): returns the parameter node of the scene; creates it if needed.
        """
        self._scene = scene
        self._getParameterNode = getParameterNode
        self.addObserver(scene, scene.StartCloseEvent, self.onSceneStartClose)
        self.addObserver(scene, scene.EndCloseEvent, self.onSceneEndClose)
        self.addObserver(scene, scene.EndImportEvent, self._onImported)
        self.addObserver(scene, scene.EndBatchProcessEvent, self._onBatchEnd)
        self.initializeParameterNode()

    def initializeParameterNode(self) -> None:
        self.setParameterNode(self._getParameterNode())

    def setParameterNode(self, parameterNode) -> None:
        """Connect the panel to a parameter node; None disconnects it."""
        if self._parameterNode is not None:
            self._parameterNode.disconnectGui(self._guiTag)
            self.removeObserver(
                self._parameterNode.parameterNode, vtk.vtkCommand.ModifiedEvent, self._onParameters
            )
        self._parameterNode = parameterNode
        self._isStale = False
        if parameterNode is not None:
            self._guiTag = parameterNode.connectGui(self.ui)
            # The node is observed, not its wrapper, because an observed object is kept alive. The wrapper returns old
            # values until it has got the event; with the low priority this panel gets the event after the wrapper
            self.addObserver(
                parameterNode.parameterNode,
                vtk.vtkCommand.ModifiedEvent,
                self._onParameters,
                priority=-1.0,
            )
            self._onParameters()

    def onSceneStartClose(self, caller, event) -> None:
        self.setParameterNode(None)

    def onSceneEndClose(self, caller, event) -> None:
        if self.parent.isEntered:
            self.initializeParameterNode()

    @property
    def takesInput(self) -> bool:
        """True if a change in the panel comes from the user and can be written to the parameter node."""
        return self._parameterNode is not None and not self.changingParameters and not self._isStale

    def _onBatchEnd(self, caller, event) -> None:
        # a moment later, because Slicer first completes the subject hierarchy of the loaded scene
        qt.QTimer.singleShot(0, self._showAgain)

    def _onImported(self, caller, event) -> None:
        """Mark the parameter node's Python wrapper as out of date: an import changes the node without an event."""
        self._isStale = True

    def _showAgain(self) -> None:
        if self._parameterNode is not None:
            self.initializeParameterNode()

    def _onParameters(self, caller=None, event=None) -> None:
        # during a batch the scene may be incomplete
        if self.takesInput and not self._scene.IsBatchProcessing():
            with self.changingParameters:
                self.showParameters(self._parameterNode)
