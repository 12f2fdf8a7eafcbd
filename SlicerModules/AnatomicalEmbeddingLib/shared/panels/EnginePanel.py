"""Base class of the panels that use the engine: adds the shared session, and the set-up section at the top."""

from __future__ import annotations

import qt
import slicer
import slicer.util

from .ModulePanel import ModulePanel
from .Session import Session
from .SetupPanel import SetupPanel
from .Widgets import showText

_sessions: list[Session] = []


def sharedSession() -> Session:
    """Return the session of the application's scene. All modules share this session."""
    scene = slicer.mrmlScene
    if not any(session.scene is scene for session in _sessions):
        _sessions.append(Session(scene, qt.QTimer()))
    return next(session for session in _sessions if session.scene is scene)


class EnginePanel(ModulePanel):
    """Mixin of a module's widget. session: see `sharedSession`. ui: widgets of the form by name, with a statusLabel.

    The `setup` of the module must call `openPanel` first. The `enter` of the module must call `enterPanel`.
    """

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
        """Show the present state, after the user has opened the module."""
        self.session.wake()
        self.setupPanel.refresh()
        self.initializeParameterNode()

    def say(self, sentence: str) -> None:
        showText(self.ui.statusLabel, sentence)
