"""The table of boxes: a row for each structure, a column for each scan."""

from collections.abc import Sequence

import qt
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import PointsError

from ..shared.Colours import BY_HAND, DOUBTFUL, GOOD, NOTHING
from ..shared.panels.CellTable import fillTable, setColumns
from ..shared.Signal import Listener, Signal
from .BoxLogic import BoxLogic, Cell
from .BoxNodes import ABSENT, CUT, UNCERTAIN
from .StructureNames import titled


class BoxTable(Listener):
    """Shows `BoxLogic.table` for the chosen volumes. structures: name of the structure in each row.

    A double click on a cell moves the views of the scan to the box. The mouse can then change this box. Signal
    reported(sentence): the reason why the views cannot show a box.
    """

    def __init__(self, tableWidget, logic: BoxLogic) -> None:
        self.widget = tableWidget
        self.logic = logic
        self.reported = Signal()
        self._volumes: list = []
        self.structures: list[str] = []
        tableWidget.verticalHeader().setSectionResizeMode(qt.QHeaderView.ResizeToContents)
        tableWidget.connect("cellDoubleClicked(int,int)", self._onDoubleClick)
        self.updateAt(logic.changed)

    def setVolumes(self, nodes: Sequence) -> None:
        """Set the volumes that have a column in the table."""
        if self._volumes != list(nodes):
            self._volumes = list(nodes)
            self.update()

    def update(self) -> None:
        """Fill the table again."""
        self._volumes = [node for node in self._volumes if node.GetScene() is self.logic.scene]
        cellsByStructure = self.logic.table(self._volumes)  # structure -> volume ID -> cell
        self.structures = list(cellsByStructure)
        table = self.widget
        setColumns(table, [_("Structure"), *(node.GetName() for node in self._volumes)])
        rows = [
            [(titled(structure), structure), *(_shown(cells.get(n.GetID())) for n in self._volumes)]
            for structure, cells in cellsByStructure.items()
        ]
        fillTable(table, rows)
        table.resizeColumnsToContents()

    def _onDoubleClick(self, row: int, column: int) -> None:
        """Show the box of the cell. The first column has the names of the structures."""
        if row >= len(self.structures) or not 0 < column <= len(self._volumes):
            return
        volume = self._volumes[column - 1]
        structure = self.structures[row]
        try:
            if not self.logic.jumpTo(volume, structure):
                text = _("{scan}: has no box of {structure}; press Find boxes.")
                self.reported.emit(text.format(scan=volume.GetName(), structure=titled(structure)))
        except PointsError as error:
            self.reported.emit(str(error))


def _shown(cell: Cell | None) -> tuple[str, str, str | None]:
    """Return the text, tool tip and background colour of a table's cell; colour None is the default colour."""
    if cell is None:
        return "", _("This structure was not searched for in this scan."), None
    if cell.marked:
        tip = _("Your own example marks this structure in this scan.")
        return "\u2605 " + _("example"), tip, BY_HAND
    if cell.answer is None:
        return "\u270e " + _("by hand"), _("You drew this box."), BY_HAND
    tip = cell.answer.text
    if cell.outdated:
        tip = _(
            "{found}; outdated, because the weights or the scan have changed since: find boxes again"
        ).format(found=tip)
    if cell.edited:
        tip = _("You changed this box. The search found: {found}").format(found=tip)
        return "\u270e " + _("edited"), tip, BY_HAND
    sign, word, colour = {
        ABSENT: ("\u2013", _("not in scan"), NOTHING),
        CUT: ("\u25e7", _("cut"), DOUBTFUL),
        UNCERTAIN: ("?", _("perhaps cut"), DOUBTFUL),
    }.get(cell.answer.status, ("\u2713", _("whole"), GOOD))
    if cell.outdated:
        word = _("{status}, outdated").format(status=word)
        colour = DOUBTFUL
    return f"{sign} {word}", tip, colour
