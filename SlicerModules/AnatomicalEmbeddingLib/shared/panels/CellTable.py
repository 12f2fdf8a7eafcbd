"""Functions that fill a QTableWidget. The tables of all panels use these functions."""

from collections.abc import Sequence

import qt

_INK = "#202020"  # text colour of a coloured cell, in light and dark themes


def setColumns(table, titles: Sequence[str]) -> None:
    """Set the column titles of a table. Rows get no titles."""
    table.setColumnCount(len(titles))
    table.setHorizontalHeaderLabels(titles)
    table.verticalHeader().setVisible(False)


def fitHeight(table, rowsPx: int) -> None:
    """Fix the height of a table, so that its rows and the column titles are visible. rowsPx: height of the rows."""
    table.setFixedHeight(rowsPx + table.horizontalHeader().sizeHint.height() + 4)


def fillTable(table, rows: Sequence[Sequence[tuple]]) -> None:
    """Show these rows, and no other rows. A row has a tuple for each cell: text, tip and colour, as in `putCell`.

    A tuple may end after the text, or after the tip.
    """
    table.setRowCount(len(rows))
    for row, cells in enumerate(rows):
        for column, cell in enumerate(cells):
            putCell(table, row, column, *cell)


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
