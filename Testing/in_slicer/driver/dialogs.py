"""Dialogs that wait for an answer: file dialogs get the path that was agreed on, any other is a finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import qt
import slicer

_INTERVAL_MS = 250


class DialogGuard:
    """unexpected: texts of dialogs that nobody waited for; each was photographed and closed. A timer looks for them,
    for a modal dialog keeps the scenario standing.
    """

    def __init__(self, picture: Callable[[str], None]) -> None:
        self.unexpected: list[str] = []
        self._picture = picture
        self._path: str | None = None
        self._agrees = False
        self._timer = qt.QTimer()
        self._timer.setInterval(_INTERVAL_MS)
        self._timer.connect("timeout()", self._look)
        self._timer.start()

    def stop(self) -> None:
        self._timer.stop()

    @contextmanager
    def answering(self, path: str) -> Iterator[None]:
        """Context: file dialogs are answered with a path."""
        self._path = path
        try:
            yield
        finally:
            self._path = None

    @contextmanager
    def agreeing(self) -> Iterator[None]:
        """Context: questions are answered with their default button."""
        self._agrees = True
        try:
            yield
        finally:
            self._agrees = False

    def _look(self) -> None:
        dialog = qt.QApplication.activeModalWidget()
        if dialog is None:
            return
        if self._path is not None and dialog.inherits("QFileDialog"):
            _line_edit(dialog).setText(self._path)
            dialog.done(1)
        elif self._agrees and dialog.inherits("QDialog"):
            dialog.accept()
        elif not dialog.inherits("QProgressDialog"):
            self.unexpected.append(_text_of(dialog))
            self._picture("unexpected-dialog")
            dialog.close()


def _line_edit(dialog):
    return next(each for each in slicer.util.findChildren(dialog) if each.inherits("QLineEdit"))


def _text_of(dialog) -> str:
    labels = [each.text for each in slicer.util.findChildren(dialog) if each.inherits("QLabel") and each.text]
    return f"{dialog.windowTitle}: {' '.join(labels)}"
