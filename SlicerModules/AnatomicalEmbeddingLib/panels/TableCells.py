"""Cells of the panels' tables."""

from __future__ import annotations

import qt

_INK = "#202020"  # on these colours, whatever the theme


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
