"""The table of lesions: a row for each lesion, a column for each study in order of date."""

from __future__ import annotations

import qt
from slicer.i18n import tr as _

from ..shared.panels.CellTable import putCell, setColumns
from ..shared.Signal import Flag, Listener, Signal
from .LesionActions import LesionActions
from .LesionCells import cellOf, lesionText, lesionTip

_MOST_STRETCHED = 4  # up to this number of studies fill the panel's width; with more studies the table scrolls
_LEAST_ROWS, _MOST_ROWS = 3, 10
_ROW_PX = 36


class LesionTable(Listener):
    """Shows the record. The current cell is the chosen lesion and study. Signal opened(lesion, study): emitted when the
    user double clicks a cell.
    """

    def __init__(self, parentLayout, choice: LesionActions) -> None:
        self.logic, self.choice = choice.logic, choice
        self.opened = Signal()
        self.roles: dict[str, str] = {}
        self._filling = Flag()
        self.widget = qt.QTableWidget()
        self.widget.setObjectName("lesionTable")
        self.widget.setSelectionMode(qt.QAbstractItemView.SingleSelection)
        self.widget.setEditTriggers(qt.QAbstractItemView.NoEditTriggers)
        self.widget.setWordWrap(False)
        self.widget.verticalHeader().setDefaultSectionSize(_ROW_PX)
        self.widget.setToolTip(_("Double click: show the lesion in that study, next to the prior."))
        self.widget.connect("currentCellChanged(int,int,int,int)", self._onCurrent)
        self.widget.connect("cellDoubleClicked(int,int)", self._onDoubleClick)
        parentLayout.addWidget(self.widget)
        self.listen(self.logic.changed, self.update)
        self.listen(choice.changed, self._showChoice)
        self.update()

    def setRoles(self, prior: str, current: str) -> None:
        """Write "prior" and "current" into the headers of these studies. prior, current: study keys."""
        self.roles = {prior: _("prior"), current: _("current")}
        self.update()

    def update(self) -> None:
        """Show the record as it is now."""
        record, table = self.logic.record, self.widget
        with self._filling:
            setColumns(table, [_("Lesion"), *(self._header(study) for study in record.studies)])
            table.setRowCount(len(record.lesions))
            for row, lesion in enumerate(record.lesions):
                putCell(table, row, 0, lesionText(lesion), lesionTip(lesion))
                for column, study in enumerate(record.studies, start=1):
                    cell = cellOf(record, lesion.id, study.key)
                    putCell(table, row, column, cell.text, cell.tip, cell.colour)
            fitColumns(table)
            rows = min(max(len(record.lesions), _LEAST_ROWS), _MOST_ROWS)
            table.setFixedHeight(rows * _ROW_PX + table.horizontalHeader().sizeHint.height() + 4)
        self._showChoice()

    def _header(self, study) -> str:
        role = self.roles.get(study.key) if study.key in self.logic.volumes else _("not loaded")
        return f"{study.label}\n{role or ''}"

    def _showChoice(self) -> None:
        record = self.logic.record
        lesions, studies = [each.id for each in record.lesions], [each.key for each in record.studies]
        with self._filling:
            if self.choice.lesion in lesions and self.choice.study in studies:
                self.widget.setCurrentCell(lesions.index(self.choice.lesion), studies.index(self.choice.study) + 1)
            else:
                self.widget.setCurrentItem(None)

    def _onCurrent(self, row: int, column: int, _rowBefore: int, _columnBefore: int) -> None:
        if not self._filling and row >= 0:
            self.choice.choose(*self._at(row, column))

    def _onDoubleClick(self, row: int, column: int) -> None:
        self.opened.emit(*self._at(row, column))

    def _at(self, row: int, column: int) -> tuple[str, str]:
        record = self.logic.record
        return record.lesions[row].id, record.studies[column - 1].key if column else ""


def fitColumns(table) -> None:
    """Set the column widths. A few studies share the width of the panel; many studies get the width of their text."""
    header = table.horizontalHeader()
    stretched = table.columnCount <= _MOST_STRETCHED + 1
    header.setSectionResizeMode(qt.QHeaderView.Stretch if stretched else qt.QHeaderView.ResizeToContents)
    if table.columnCount:
        header.setSectionResizeMode(0, qt.QHeaderView.Fixed)
        table.setColumnWidth(0, 98)
