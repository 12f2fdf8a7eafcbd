"""The coverage table. A row states which part of the body a scan shows, and faults of the scan's orientation."""

from collections.abc import Sequence

import qt
from slicer.i18n import tr as _

from ..shared.Colours import FAULT
from ..shared.panels.CellTable import fillTable
from .CoverageLogic import CoverageLogic


class CoverageTable:
    """Shows the rows that `CoverageLogic.row` makes for the chosen volumes."""

    def __init__(self, tableWidget, logic: CoverageLogic) -> None:
        self.widget = tableWidget
        self.logic = logic
        self._volumes: list = []
        header = tableWidget.horizontalHeader()
        header.setSectionResizeMode(qt.QHeaderView.ResizeToContents)
        header.setSectionResizeMode(1, qt.QHeaderView.Stretch)
        tableWidget.verticalHeader().setSectionResizeMode(qt.QHeaderView.ResizeToContents)

    def setVolumes(self, nodes: Sequence) -> None:
        """Set the volumes that have a row in the table."""
        self._volumes = list(nodes)

    def update(self) -> None:
        """Fill the table again."""
        self._volumes = [
            node for node in self._volumes if node.GetScene() is self.logic.store.scene
        ]
        rows = []
        for row in map(self.logic.row, self._volumes):
            stored = "; ".join(row.faults) or (_("no fault found") if row.isKnown else "")
            colour = FAULT if row.faults else None
            rows.append([(row.name,) * 2, (row.holds,) * 2, (stored, stored, colour)])
        fillTable(self.widget, rows)
