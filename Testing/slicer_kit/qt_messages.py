"""Warnings of Qt itself (a layout given twice, a signal that does not exist), collected for the test to fail on."""

import sys

from PySide6 import QtCore

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
