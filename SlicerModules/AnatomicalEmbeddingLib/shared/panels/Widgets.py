"""Small helpers for Qt's widgets: combo boxes by value, paths, narrow panels, coloured words, lists of sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import slicer.util

from ..Colours import TEXTS

GOOD, WARNING, BAD = "good", "warning", "bad"
_MARGINS = 20  # pixels of a section, left and right together
_MOST = 8  # sentences that are shown at once


def fillComboBox(comboBox, entries: Sequence[tuple[str, str]], current: str | None) -> None:
    """Fill a combo box with entries (value, text) and choose that of the value `current`, if any; emits no signal."""
    values = [value for value, _text in entries]
    blocked = comboBox.blockSignals(True)
    comboBox.clear()
    for value, text in entries:
        comboBox.addItem(text, value)
    comboBox.setCurrentIndex(values.index(current) if current in values else -1)
    comboBox.blockSignals(blocked)


def connectPath(edit, slot: Callable[[str], None]) -> None:
    """Call slot(path) whenever the text of a ctkPathLineEdit changes.

    Its own signal currentPathChanged reports neither an emptied field nor a text that its filters refuse.
    """
    for line in slicer.util.findChildren(edit, className="QLineEdit"):
        line.connect("textChanged(QString)", slot)


def letShrink(panel) -> None:
    """Let widgets of a panel be narrower than their texts: several in a row would push the views off a small screen."""
    for name in ("QPushButton", "QLineEdit", "QComboBox"):
        for widget in slicer.util.findChildren(panel, className=name):
            widget.setMinimumWidth(1)


def showText(label, text: str) -> None:
    """Show a text in a label, which takes no room without one.

    A label of several lines gets its whole height: where the panel is higher than the screen, Slicer's scroll area
    would squeeze it.
    """
    label.text = text
    label.visible = bool(text)
    around = label.parentWidget()
    isWrapped = text and label.wordWrap and around is not None and around.isVisible()
    label.setMinimumHeight(label.heightForWidth(around.width - _MARGINS) if isWrapped else 0)


def showProgress(bar, job) -> None:
    """Show the progress of a SceneJob in a progress bar, which is hidden while the job rests."""
    bar.setVisible(job.busy)  # whether the panel is shown or not, so `visible` cannot be asked
    if job.busy:
        share, step = job.progress
        bar.value = round(100 * share)
        bar.format = f"{step}  %p%"


def coloured(text: str, state: str) -> str:
    """Rich text of a label: plain text, escaped, in the colour of a state (GOOD, WARNING or BAD)."""
    return f'<span style="color:{TEXTS[state]}">{escape(text)}</span>'


class StatusLines:
    """Shows the latest sentences in a label, one a line, each once."""

    def __init__(self, label) -> None:
        self._label = label
        self._sentences: list[str] = []
        self._show()

    def say(self, sentence: str) -> None:
        if sentence and sentence not in self._sentences:
            self._sentences.append(sentence)
            self._show()

    def clear(self) -> None:
        self._sentences = []
        self._show()

    def _show(self) -> None:
        showText(self._label, "\n".join(self._sentences[-_MOST:]))
