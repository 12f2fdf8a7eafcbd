"""Functions that fill a QTableWidget. The tables of all panels use these functions."""

from __future__ import annotations

from collections.abc import Sequence

import qt

_INK = "#202020"  # text colour of a coloured cell, in light and dark themes


def setColumns(table, titles: Sequence[str]) -> None:
    """Set the column titles of a table. Rows get no titles."""
    table.setColumnCount(len(titles))
    table.setHorizontalHeaderLabels(titles)
    table.verticalHeader().setVisible(False)


def putCell(
    table,
    row: int,
    column: int,
    text: str,
    tip: str = "",
    colour: str | None = None,
    editable: bool = False,
) -> None:
    """Show text in a cell.

    Args:
        table: the table.
        row, column: the cell.
        text: the text.
        tip: the tool tip.
        colour: background colour; None for the background of the theme.
        editable: True if the user may change the text.
    """
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
