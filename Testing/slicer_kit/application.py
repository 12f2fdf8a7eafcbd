# ruff: noqa: N802, N815 - the names are those of Slicer and Qt
"""Double of `slicer.app`, and doubles of the functions of slicer.util that open windows."""

import logging
from collections.abc import Callable
from typing import ClassVar

import slicer.util
from PySide6 import QtCore, QtWidgets

from slicer_kit.dialogs import DIALOGS
from slicer_kit.layout import LayoutManager
from slicer_kit.pythonqt import wrapped


@wrapped
class ModuleManager(QtCore.QObject):
    """Knows the loaded modules."""

    SIGNALS: ClassVar = {"moduleAboutToBeUnloaded(QString)": "moduleAboutToBeUnloaded"}
    moduleAboutToBeUnloaded = QtCore.Signal(str)

    def module(self, name: str):
        return getattr(slicer.modules, name.lower(), None)


@wrapped
class Application(QtCore.QObject):
    """`slicer.app`: a session of a user (testingEnabled() is false) without a main window."""

    SIGNALS: ClassVar = {"startupCompleted()": "startupCompleted"}
    startupCompleted = QtCore.Signal()
    applicationName = QtCore.Property(str, lambda self: "Slicer")

    def __init__(self, qt_application: QtWidgets.QApplication) -> None:
        super().__init__()
        self._module_manager = ModuleManager()
        self._layout_manager: LayoutManager | None = None
        functions = (
            "processEvents",
            "topLevelWidgets",
            "setOverrideCursor",
            "restoreOverrideCursor",
        )
        self.__dict__.update({name: getattr(qt_application, name) for name in functions})

    def moduleManager(self) -> ModuleManager:
        return self._module_manager

    def layoutManager(self) -> LayoutManager | None:
        """None while there is no main window; see `Kit.open_window`."""
        return self._layout_manager

    def testingEnabled(self) -> bool:
        return False

    def userSettings(self):
        import qt

        return qt.QSettings()

    def pauseRender(self) -> None:
        """Nothing renders here."""

    resumeRender = pauseRender


def patch_util(process_events: Callable[[], None]) -> None:
    """Let messages go to DIALOGS."""

    def delay_display(message: str, autoCloseMsec: int = 1000) -> None:  # noqa: N803
        logging.info(message)
        if not 0 <= autoCloseMsec < 400:  # shorter ones are not shown
            DIALOGS.record("delay", message)
        process_events()

    def message_display(level: int, text: str, *_values, **_options) -> None:
        logging.log(level, text)
        DIALOGS.record(
            {logging.WARNING: "warning", logging.ERROR: "error"}.get(level, "info"), text
        )

    slicer.util._messageDisplay = message_display
    slicer.util.delayDisplay = delay_display
