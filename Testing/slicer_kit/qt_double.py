# ruff: noqa: N802 - the names are those of Slicer and Qt
"""Double of the module `qt`: PySide6 used as PythonQt; dialogs return at once, and each test has its own settings."""

import sys
import types

from PySide6 import QtCore, QtGui, QtWidgets

from slicer_kit import pythonqt
from slicer_kit.dialogs import DIALOGS
from slicer_kit.ui_loader import QUiLoader


def build() -> None:
    """Make the module, patch PySide6 and put it into sys.modules as `qt`."""
    pythonqt.apply()
    module = types.ModuleType("qt", __doc__)
    for source in (QtCore, QtGui, QtWidgets):
        # not vars(): PySide6 makes its classes when they are first asked for
        for name in dir(source):
            if not name.startswith("_"):
                setattr(module, name, getattr(source, name))
    for double in (QSettings, QUiLoader, QFileDialog, QDesktopServices):
        setattr(module, double.__name__, double)
    refuse_unanswered_dialogs()
    sys.modules["qt"] = module


@pythonqt.wrapped
class QSettings(QtCore.QSettings):
    """The application's settings, in a file of the test's own.

    Values come back as they do after a restart of the application on Linux: numbers and booleans as strings, a list of
    one as its only element, an empty list as None. A module that forgets to convert them fails here.
    """

    path = ""  # of the file, for those made from now on

    def __init__(self) -> None:
        super().__init__(QSettings.path, QtCore.QSettings.Format.IniFormat)

    def value(self, key: str, default=None):
        if not self.contains(key):
            return default
        stored = super().value(key)
        if isinstance(stored, bool):
            return "true" if stored else "false"
        if isinstance(stored, int | float):
            return str(stored)
        if isinstance(stored, list) and len(stored) < 2:
            return str(stored[0]) if stored else None
        return stored


@pythonqt.wrapped
class QFileDialog(QtWidgets.QFileDialog):
    """Static functions answer with DIALOGS; as in PythonQt, the path comes back alone."""

    @staticmethod
    def getOpenFileName(parent=None, caption="", directory="", filter="", *_more):
        return DIALOGS.record("open_file", directory, caption, filter=filter)

    @staticmethod
    def getExistingDirectory(parent=None, caption="", directory="", *_more):
        return DIALOGS.record("directory", directory, caption)


def _refuse(name: str):
    def refused(*_arguments):
        raise AssertionError(
            f"{name} would open a window that nobody answers: add it to the kit's dialogs"
        )

    return refused


def refuse_unanswered_dialogs() -> None:
    """A dialog that the kit does not answer fails the test at once, where the real one would wait for ever."""
    for name in (
        "getSaveFileName",
        "getSaveFileUrl",
        "getOpenFileUrl",
        "getOpenFileUrls",
        "getExistingDirectoryUrl",
    ):
        setattr(QFileDialog, name, staticmethod(_refuse(f"QFileDialog.{name}")))
    for name in ("exec", "exec_"):
        setattr(QtWidgets.QDialog, name, _refuse(f"QDialog.{name}"))
        setattr(QtWidgets.QMenu, name, _refuse(f"QMenu.{name}"))


class QDesktopServices:
    @staticmethod
    def openUrl(url):
        """Write the address down; like the original it takes a QUrl and no string."""
        if not isinstance(url, QtCore.QUrl):
            raise TypeError(f"openUrl() takes a QUrl, not {url!r}")
        return DIALOGS.record("url", url.toString())


_HARMLESS = ("This plugin does not support propagateSizeHints",)


class QtWarnings(list):
    """The text of every Qt warning since the last `clear()`; less severe messages go to stderr."""

    def start(self) -> None:
        QtCore.qInstallMessageHandler(self._on_message)

    def _on_message(self, kind, context, text: str) -> None:
        if text.startswith(_HARMLESS):
            return
        severe = (
            QtCore.QtMsgType.QtWarningMsg,
            QtCore.QtMsgType.QtCriticalMsg,
            QtCore.QtMsgType.QtFatalMsg,
        )
        if kind in severe:
            self.append(text)
        else:
            print(text, file=sys.stderr)
