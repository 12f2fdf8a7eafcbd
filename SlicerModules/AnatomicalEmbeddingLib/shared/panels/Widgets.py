"""What panels ask of Qt's own widgets, and Qt does not offer: combo boxes by value, paths, table cells, coloured words,
lists of sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import qt
import slicer.util
from slicer.i18n import tr as _

from . import ModuleSettings


def fillComboBox(comboBox, entries: Sequence[tuple[str, str]], current: str | None) -> None:
    """Entries (value, text), without a signal; no entry is current where `current` is none of them."""
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
    """Let what is in a panel be narrower than its texts: several in a row would push the views off a small screen."""
    for name in ("QPushButton", "QLineEdit", "QComboBox"):
        for widget in slicer.util.findChildren(panel, className=name):
            widget.setMinimumWidth(1)


_INK = "#202020"  # on these colours, whatever the theme


def askForFile(parent, title: str, kinds: str, setting: str) -> str:
    """The file that the user chooses, or "". kinds: as "Reports (*.txt)". setting: of the folder used last."""
    folder = ModuleSettings.value(setting, "")
    path = qt.QFileDialog.getOpenFileName(parent, title, folder, kinds + ";;" + _("All files (*)"))
    if path:
        ModuleSettings.setValue(setting, str(qt.QFileInfo(path).absolutePath()))
    return path


_MARGINS = 20  # pixels of a section, left and right together


def showText(label, text: str) -> None:
    """Show a text; a label without one takes no room, and one with several lines all that it needs: where the panel is
    higher than the screen, Slicer's scroll area would squeeze it.
    """
    label.text = text
    label.visible = bool(text)
    around = label.parentWidget()
    isWrapped = text and label.wordWrap and around is not None and around.isVisible()
    label.setMinimumHeight(label.heightForWidth(around.width - _MARGINS) if isWrapped else 0)


def setColumns(table, titles: Sequence[str]) -> None:
    """Columns of a QTableWidget whose rows have no headings."""
    table.setColumnCount(len(titles))
    table.setHorizontalHeaderLabels(titles)
    table.verticalHeader().setVisible(False)


def putCell(
    table, row: int, column: int, text: str, tip: str = "", colour: str | None = None, editable: bool = False
) -> None:
    """Show text in a cell of a QTableWidget. colour: of the background, None: the theme's."""
    item = table.item(row, column)
    if item is None:
        item = qt.QTableWidgetItem()
        flags = qt.Qt.ItemIsSelectable | qt.Qt.ItemIsEnabled
        item.setFlags(flags | qt.Qt.ItemIsEditable if editable else flags)
        table.setItem(row, column, item)
    if item.text() != text:
        item.setText(text)
    if item.toolTip() != tip:
        item.setToolTip(tip)
    item.setData(qt.Qt.BackgroundRole, qt.QBrush(qt.QColor(colour)) if colour else None)
    item.setData(qt.Qt.ForegroundRole, qt.QBrush(qt.QColor(_INK)) if colour else None)


GOOD, WARNING, BAD = "good", "warning", "bad"
_COLOURS = {GOOD: "#2a9d4e", WARNING: "#c77800", BAD: "#d8433b"}  # legible on light and dark backgrounds


def coloured(text: str, state: str) -> str:
    """Rich text of a label: the words in the state's colour, plain text escaped."""
    return f'<span style="color:{_COLOURS[state]}">{escape(text)}</span>'


_MOST = 8  # that are shown at once


class StatusLines:
    """Shows sentences in a label, one a line, each once."""

    def __init__(self, label) -> None:
        self._label = label
        self._sentences: list[str] = []
        self._show()

    def say(self, sentence: str) -> None:
        """Add a sentence."""
        if sentence and sentence not in self._sentences:
            self._sentences.append(sentence)
            self._show()

    def clear(self) -> None:
        """Forget all of them."""
        self._sentences = []
        self._show()

    def _show(self) -> None:
        shown = self._sentences[-_MOST:]
        left = len(self._sentences) - len(shown)
        more = [_("{count} more before these.").format(count=left)] if left else []
        showText(self._label, "\n".join([*more, *shown]))
