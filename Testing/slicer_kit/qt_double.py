# ruff: noqa: N802 - the names are those of Slicer and Qt
"""The `qt` module: PySide6 under PythonQt's conventions; dialogs never block, settings are the test's own."""

import sys
import types

from PySide6 import QtCore, QtGui, QtWidgets

from slicer_kit import pythonqt
from slicer_kit.dialogs import DIALOGS
from slicer_kit.ui_loader import QUiLoader

_settings_path = ""


def build() -> types.ModuleType:
    """Make the module, patch PySide6 and put it into sys.modules as `qt`."""
    pythonqt.apply()
    module = types.ModuleType("qt", __doc__)
    for source in (QtCore, QtGui, QtWidgets):
        for name in dir(source):  # not vars(): PySide6 makes its classes when they are first asked for
            if not name.startswith("_"):
                setattr(module, name, getattr(source, name))
    module.QMenu = QMenu
    module.QProcess = QProcess
    module.QSettings = QSettings
    module.QUiLoader = QUiLoader
    refuse_unanswered_dialogs()
    module.QFileDialog = QFileDialog
    module.QDesktopServices = QDesktopServices
    for name in ("exec", "exec_"):
        setattr(QtWidgets.QDialog, name, _exec_dialog)
    sys.modules["qt"] = module
    return module


def set_settings_path(path: str) -> None:
    """Where `qt.QSettings()` reads and writes from now on."""
    global _settings_path
    _settings_path = str(path)


@pythonqt.wrapped
class QSettings(QtCore.QSettings):
    """The application's settings, in a file of the test's own.

    Values come back as they do after a restart of the application on Linux: numbers and booleans as strings, a list of
    one as its only element, an empty list as None. A module that forgets to convert them fails here.
    """

    def __init__(self, *arguments) -> None:
        if arguments:
            super().__init__(*arguments)
        else:
            super().__init__(_settings_path, QtCore.QSettings.Format.IniFormat)

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
class QProcess(QtCore.QProcess):
    """A child process; PySide6 looks its functions up in its own way."""

    __getattribute__ = pythonqt.getattribute_of(QtCore.QProcess)


def _exec_dialog(dialog, *_arguments):
    labels = [label.text for label in dialog.findChildren(QtWidgets.QLabel)]
    text = dialog.text if isinstance(dialog, QtWidgets.QMessageBox) else "\n".join(labels)
    return DIALOGS.record("dialog", text, dialog.windowTitle, widget=type(dialog).__name__)


def _exec_menu(menu, *_arguments):
    """The answer is the text of the chosen action; the action is triggered."""
    chosen = DIALOGS.record("menu", "\n".join(action.text for action in menu.actions()), menu.title)
    for action in menu.actions():
        if chosen is not None and action.text.replace("&", "") == chosen:
            action.trigger()
            return action
    return None


@pythonqt.wrapped
class QMenu(QtWidgets.QMenu):
    """A menu that does not wait for a choice; PySide6 looks its functions up in its own way."""

    __getattribute__ = pythonqt.getattribute_of(QtWidgets.QMenu, exec=_exec_menu, exec_=_exec_menu)


@pythonqt.wrapped
class QFileDialog(QtWidgets.QFileDialog):
    """Static functions answer with DIALOGS; like PythonQt they return the path alone, not a pair."""

    @staticmethod
    def getOpenFileName(parent=None, caption="", directory="", filter="", *_more):
        return DIALOGS.record("open_file", directory, caption, filter=filter)

    @staticmethod
    def getOpenFileNames(parent=None, caption="", directory="", filter="", *_more):
        return DIALOGS.record("open_files", directory, caption, filter=filter)

    @staticmethod
    def getExistingDirectory(parent=None, caption="", directory="", *_more):
        return DIALOGS.record("directory", directory, caption)


def button_for(answer: bool, shown):
    """The agreeing or refusing button among the standard buttons shown."""
    kinds = QtWidgets.QMessageBox.StandardButton
    order = (kinds.Yes, kinds.Ok, kinds.Save, kinds.Retry, kinds.Open, kinds.Apply)
    refusal = (kinds.No, kinds.Cancel, kinds.Close, kinds.Discard, kinds.Abort)
    wanted = order if answer else refusal
    return next((kind for kind in wanted if kind & shown), kinds.NoButton)


def _refuse(name: str):
    def refused(*_arguments):
        raise AssertionError(f"{name} would open a window that nobody answers: add it to the kit's dialogs")

    return staticmethod(refused)


def refuse_unanswered_dialogs() -> None:
    """A dialog that the kit does not answer fails the test at once, where the real one would wait for ever."""
    for name in ("getSaveFileName", "getSaveFileUrl", "getOpenFileUrl", "getOpenFileUrls", "getExistingDirectoryUrl"):
        setattr(QFileDialog, name, _refuse(f"QFileDialog.{name}"))


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
        severe = (QtCore.QtMsgType.QtWarningMsg, QtCore.QtMsgType.QtCriticalMsg, QtCore.QtMsgType.QtFatalMsg)
        if kind in severe:
            self.append(text)
        else:
            print(text, file=sys.stderr)
