"""Helper functions for Qt widgets: combo boxes, paths, narrow panels, coloured texts, progress bars, status lines."""

from collections.abc import Callable, Sequence
from html import escape

import slicer.util

# text colours of labels, by state; legible on light and dark backgrounds
GOOD, WARNING, BAD = "#2a9d4e", "#c77800", "#d8433b"
_MARGINS = 40  # pixels, left and right margin of a section together, and a scroll bar
_MOST = 8  # largest number of sentences in StatusLines


def fillComboBox(comboBox, entries: Sequence[tuple[str, str]], current: str | None) -> None:
    """Fill a combo box and select an entry. Emits no signal.

    Args:
        comboBox: the combo box.
        entries: (value, text) of each entry.
        current: value of the selected entry, or None.
    """
    values = [value for value, _text in entries]
    blocked = comboBox.blockSignals(True)
    comboBox.clear()
    for value, text in entries:
        comboBox.addItem(text, value)
    comboBox.setCurrentIndex(values.index(current) if current in values else -1)
    comboBox.blockSignals(blocked)


def connectPath(edit, slot: Callable[[str], None]) -> None:
    """Call slot(path) whenever the text of a ctkPathLineEdit changes.

    The signal currentPathChanged would not be enough: it is not emitted if the field is empty or refuses the path.
    """
    for line in slicer.util.findChildren(edit, className="QLineEdit"):
        line.connect("textChanged(QString)", slot)


def letShrink(panel) -> None:
    """Allow the widgets of a panel to be narrower than their texts, so that the panel leaves room for the views."""
    for name in ("QPushButton", "QLineEdit", "QComboBox"):
        for widget in slicer.util.findChildren(panel, className=name):
            widget.setMinimumWidth(1)


def showText(label, text: str) -> None:
    """Show a text in a label. The label is hidden if the text is empty.

    A label with several lines gets a fixed minimum height. Otherwise, if the panel is higher than the screen, Slicer's
    scroll area would show only a part of the text.
    """
    label.text = text
    label.visible = bool(text)
    around = label.parentWidget()
    isWrapped = text and label.wordWrap and around is not None and around.isVisible()
    label.setMinimumHeight(label.heightForWidth(around.width - _MARGINS) if isWrapped else 0)


def showProgress(bar, job) -> None:
    """Show the progress of a SceneJob in a progress bar. The bar is hidden while the job is not busy."""
    # set each time: `bar.visible` is also False while only the panel is hidden
    bar.setVisible(job.busy)
    if job.busy:
        share, step = job.progress
        bar.value = round(100 * share)
        bar.format = f"{step}  %p%"


def coloured(text: str, colour: str) -> str:
    """Return rich text for a label: the escaped plain text in a colour (GOOD, WARNING or BAD)."""
    return f'<span style="color:{colour}">{escape(text)}</span>'


class StatusLines:
    """Shows the latest sentences in a label. Each sentence has its own line and is shown only once."""

    def __init__(self, label) -> None:
        self._label = label
        self.clear()

    def say(self, sentence: str) -> None:
        if sentence and sentence not in self._sentences:
            self._sentences.append(sentence)
            self._show()

    def clear(self) -> None:
        self._sentences: list[str] = []
        self._show()

    def _show(self) -> None:
        showText(self._label, "\n".join(self._sentences[-_MOST:]))
