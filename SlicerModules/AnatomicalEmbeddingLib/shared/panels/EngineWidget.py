"""What the panels of modules that use the shared engine have in common: its session, and the set-up section on top."""

from __future__ import annotations

import qt
import slicer.util

from .ParameterNodeBinding import ParameterNodeBinding
from .Session import sharedSession
from .SetupPanel import SetupPanel
from .Widgets import showText


class EngineWidget(ParameterNodeBinding):
    """Mixin of a module's widget, as ParameterNodeBinding. session: the application's. ui: widgets by name, among them
    statusLabel.

    `setup` begins with `openPanel`; `enter` calls `enterPanel`.
    """

    def openPanel(self, path: str) -> qt.QWidget:
        """Show the panel of a .ui file below the set-up section; returns its widget."""
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
        """The module is open: show what there is now."""
        self.session.wake()
        self.setupPanel.refresh()
        self.initializeParameterNode()

    def say(self, sentence: str) -> None:
        """Show a sentence, in place of the last."""
        showText(self.ui.statusLabel, sentence)
