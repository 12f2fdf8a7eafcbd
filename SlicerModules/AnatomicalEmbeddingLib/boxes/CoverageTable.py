"""The coverage table. A row states which part of the body a scan shows, and faults of the scan's orientation."""

from __future__ import annotations

from collections.abc import Sequence

import qt
from slicer.i18n import tr as _

from ..shared.Colours import FAULT
from ..shared.panels.CellTable import putCell, setColumns
from .CoverageLogic import CoverageLogic


class CoverageTable:
    """Shows the rows that `CoverageLogic.row` makes for the chosen volumes."""

    def __init__(self, tableWidget, logic: CoverageLogic) -> None:
        self.widget = tableWidget
        self.logic = logic
        self._volumes: list = []
        setColumns(tableWidget, [_("Scan"), _("Shows"), _("Orientation")])
        tableWidget.verticalHeader().setSectionResizeMode(qt.QHeaderView.ResizeToContents)
        tableWidget.setWordWrap(True)
        tableWidget.horizontalHeader().setSectionResizeMode(qt.QHeaderView.ResizeToContents)
        tableWidget.horizontalHeader().setSectionResizeMode(1, qt.QHeaderView.Stretch)

    def setVolumes(self, nodes: Sequence) -> None:
        """Set the volumes that have a row in the table."""
        self._volumes = list(nodes)

    def update(self) -> None:
        self._volumes = [
            node for node in self._volumes if node.GetScene() is self.logic.store.scene
        ]
        self.widget.setRowCount(len(self._volumes))
        for n, row in enumerate(map(self.logic.row, self._volumes)):
            stored = "; ".join(row.faults) or (_("no fault found") if row.isKnown else "")
            for column, text in enumerate((row.name, row.holds, stored)):
                colour = FAULT if row.faults and column == 2 else None
                putCell(self.widget, n, column, text, text, colour)
