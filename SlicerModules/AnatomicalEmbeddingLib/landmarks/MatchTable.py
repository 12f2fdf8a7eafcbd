"""The table of matches. Each landmark has a row, each scan has a column, and a cell shows the error of the answer.

The last row of a line, angle or curve is its length, angle or area.
"""

from collections.abc import Callable

import qt
from slicer.i18n import tr as _

from AnatomicalEmbedding.matching.status import ABSENT, MATCHED, UNCERTAIN
from AnatomicalEmbedding.scan.points import Measurement

from ..shared.Colours import BY_HAND, DOUBTFUL, GOOD, NOTHING, STATUS_WORDS, mmText
from ..shared.maps.MapStore import FAILED, READY, WAITING, WORKING
from ..shared.panels.CellTable import putCell, setColumns
from ..shared.Signal import Flag, Listener
from .AnswerList import MOVED, REMOVED, Answer
from .AnswerLists import Row
from .LandmarkLogic import LandmarkLogic
from .LandmarkSets import isFromSet

_LOOKS = {  # sign, background
    MATCHED: ("\u2713", GOOD),
    UNCERTAIN: ("?", DOUBTFUL),
    ABSENT: ("\u2013", NOTHING),
    MOVED: ("\u270e", BY_HAND),
    REMOVED: ("\u270e", NOTHING),
}


class MatchTable(Listener):
    """Shows the landmarks of a LandmarkLogic and their answers.

    A double click on an answer moves all views to the landmark. The user can edit the labels of landmarks in the first
    column. A right click opens a menu of actions.
    """

    def __init__(self, widget, logic: LandmarkLogic) -> None:
        self.widget = widget
        self.logic = logic
        self.widget.horizontalHeader().setSectionResizeMode(qt.QHeaderView.ResizeToContents)
        self.widget.connect("cellDoubleClicked(int,int)", self._onDoubleClick)
        self.widget.connect("itemChanged(QTableWidgetItem*)", self._onEdited)
        self.widget.connect("customContextMenuRequested(QPoint)", self._onMenu)
        self._rows: list[Row] = []
        self._filling = Flag()
        self.listen(logic.changed, self.update)
        self.update()

    def update(self) -> None:
        logic = self.logic
        table = self.widget
        targets = logic.targets
        measurement = logic.measurementIn(logic.template)
        self._rows = logic.rows()
        with self._filling:
            setColumns(table, [_("Landmark"), *(node.GetName() for node in targets)])
            table.setRowCount(len(self._rows) + (measurement is not None))
            for r, row in enumerate(self._rows):
                tip = "" if row.inside else _("This point lies outside the template.")
                colour = None if row.inside else DOUBTFUL
                putCell(table, r, 0, row.label, tip, colour, editable=True)
                for c, node in enumerate(targets, start=1):
                    putCell(table, r, c, *self._shown(row, node))
            if measurement is not None:
                text = f"{measurement.quantity} {_valueOf(measurement)}"
                putCell(table, len(self._rows), 0, text, _("Measured in the template."))
                for c, node in enumerate(targets, start=1):
                    putCell(table, len(self._rows), c, *self._measured(node))

    def confirm(self) -> None:
        """Confirm the answer in the current cell; in the first column, the template's point."""
        self._decide(self.logic.confirm)

    def reject(self) -> None:
        """Record that the scan of the current cell does not show the landmark of its row."""
        if self.widget.currentColumn() > 0:
            self._decide(self.logic.setNotVisible)

    def _decide(self, decision: Callable) -> None:
        """Call decision(pointId, volumeNode) for the current cell."""
        row = self.widget.currentRow()
        column = self.widget.currentColumn()
        if 0 <= row < len(self._rows) and column >= 0:
            volumes = [self.logic.template, *self.logic.targets]
            decision(self._rows[row].pointId, volumes[column])

    def menuFor(self, row: int, column: int):
        """Return the menu of a cell. row, column: of the cell; column 0 is the template."""
        logic = self.logic
        menu = qt.QMenu(self.widget)
        menu.setAttribute(qt.Qt.WA_DeleteOnClose)
        pointId = self._rows[row].pointId
        node = [logic.template, *logic.targets][column]

        def confirm() -> None:
            logic.confirm(pointId, node)

        def matchAgain() -> None:
            logic.matchAgain([pointId], node, corrections=True)

        actions = {_("Show in all scans"): lambda: logic.jumpTo(pointId)}
        if column == 0:
            if isFromSet(logic.points, pointId):
                actions[_("Confirm this place in the template")] = confirm
            actions[_("Delete this landmark")] = lambda: logic.deletePoint(pointId)
        else:
            actions[_("Confirm this answer (Y)")] = confirm
            actions[_("Not visible in this scan (X)")] = lambda: logic.setNotVisible(pointId, node)
            actions[_("Match again and replace my own answer")] = matchAgain
        for text, slot in actions.items():
            menu.addAction(text).connect("triggered()", slot)
        return menu

    def _shown(self, row: Row, node) -> tuple[str, str, str | None]:
        """Return the text, the tip and the colour of the cell of a point in a target."""
        answer = row.answers.get(node.GetID())
        if answer is not None:
            sign, colour = _LOOKS[answer.status]
            colour = DOUBTFUL if answer.outdated else colour
            return f"{sign} {self._brief(answer)}", answer.text, colour
        state = self.logic.store.state(node)
        if state.status == FAILED:
            return _("failed"), state.sentence, None
        if state.status in (WAITING, WORKING):
            return f"{100 * state.share:.0f} %", _("This scan is being prepared."), None
        if state.status == READY and not row.inside:
            return _("outside"), _("This point lies outside the template."), None
        return (
            "\u2026",
            _("Not matched yet, because a scan is not prepared: press Prepare scans."),
            None,
        )

    def _measured(self, node) -> tuple[str, str, str | None]:
        measurement = self.logic.measurementIn(node)
        if measurement is None:
            return "\u2026", _("Not measured yet, because points have no answer."), None
        sign, colour = _LOOKS[measurement.status]
        if measurement.value is None:
            return sign, _("This scan does not seem to show all points."), colour
        tip = _("With a probability of 90 %, the true value lies within the stated limits.")
        return f"{sign} {_valueOf(measurement)}", tip, colour

    def _brief(self, answer: Answer) -> str:
        """Return the user's own verdict, or the expected error and the first words of the doubt."""
        if answer.byHand or answer.status == ABSENT:
            words = STATUS_WORDS[answer.status]
            return _("{words}, check").format(words=words) if answer.outdated else words
        error = _("unknown") if answer.errorMm is None else mmText(answer.errorMm, answer.unitMm)
        doubt = answer.doubt.partition(":")[0]
        return f"{error}, {doubt}" if doubt else error

    def _onDoubleClick(self, row: int, column: int) -> None:
        if row < len(self._rows) and column > 0:
            self.logic.jumpTo(self._rows[row].pointId)

    def _onEdited(self, item) -> None:
        if not self._filling and item.column() == 0 and item.row() < len(self._rows):
            self.logic.renamePoint(self._rows[item.row()].pointId, item.text())

    def _onMenu(self, position) -> None:
        item = self.widget.itemAt(position)
        if item is not None and item.row() < len(self._rows):
            self.menuFor(item.row(), item.column()).popup(
                self.widget.viewport().mapToGlobal(position)
            )


def _valueOf(measurement: Measurement) -> str:
    """Return the value of a measurement as text: "45.2 mm", or "45.2 \u00b1 4.1 mm" if its error is known."""
    margin = f" \u00b1 {measurement.margin:.1f}" if measurement.margin else ""
    unit = {"deg": "\u00b0", "mm2": "mm\u00b2"}.get(measurement.unit, measurement.unit)
    return f"{measurement.value:.1f}{margin} {unit}"
