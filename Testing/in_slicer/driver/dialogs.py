"""Answer dialogs: a file dialog gets the path that the scenario set; any other dialog is reported as a fault."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import qt
import slicer

_INTERVAL_MS = 250
_PATIENCE = 24  # looks: Slicer's messages that close by themselves are gone by then


class DialogGuard:
    """unexpected: texts of dialogs that nobody waited for; each was photographed and closed. A timer looks for them,
    for a modal dialog keeps the scenario standing.
    """

    def __init__(self, picture: Callable[[str], None]) -> None:
        self.unexpected: list[str] = []
        self._picture = picture
        self._path: str | None = None
        self._looks = 0  # that found a dialog, one after the other
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

    def _look(self) -> None:
        dialog = qt.QApplication.activeModalWidget()
        self._looks = self._looks + 1 if dialog is not None else 0
        if dialog is None:
            return
        if self._path is not None and dialog.inherits("QFileDialog"):
            _line_edit(dialog).setText(self._path)
            dialog.done(1)
        elif self._looks > _PATIENCE and not dialog.inherits("QProgressDialog"):
            self._looks = 0
            self.unexpected.append(_text_of(dialog))
            self._picture("unexpected-dialog")
            dialog.close()


def _line_edit(dialog):
    return next(each for each in slicer.util.findChildren(dialog) if each.inherits("QLineEdit"))


def _text_of(dialog) -> str:
    labels = [
        each.text
        for each in slicer.util.findChildren(dialog)
        if each.inherits("QLabel") and each.text
    ]
    return f"{dialog.windowTitle}: {' '.join(labels)}"
