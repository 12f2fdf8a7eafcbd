"""The table with the RECIST sum and response of each study, and sentences about missing entries."""

from __future__ import annotations

from slicer.i18n import tr as _

from AnatomicalEmbedding.followup import response as recist

from ..shared.Colours import FAULT, GOOD
from ..shared.panels.CellTable import putCell
from ..shared.panels.Widgets import WARNING, coloured, showText
from ..shared.Signal import Listener
from .LesionActions import LesionActions
from .LesionCells import categoryText, numberText
from .LesionTable import fitColumns

_MOST_SENTENCES = 4
_SUM, _FROM_BASELINE, _FROM_NADIR, _CATEGORY = range(4)
_GOOD = (recist.COMPLETE, recist.PARTIAL)


class ResponsePanel(Listener):
    """Shows the response, which is computed only from findings and sizes that a person has confirmed.

    ui: has responseTable and missingLabel.
    """

    def __init__(self, ui, choice: LesionActions) -> None:
        self.ui, self.logic, self.choice = ui, choice.logic, choice
        self.listen(self.logic.changed, self.update)
        self.listen(choice.changed, self.update)
        self.update()

    def update(self) -> None:
        """Show the response for the record as it is now."""
        record = self.logic.record
        found = recist.responses(record) if record.lesions else []
        table = self.ui.responseTable
        names = (_("Sum of targets"), _("From baseline"), _("From nadir"), _("Response"))
        table.setColumnCount(len(found) + 1)
        table.setRowCount(len(names))
        for row, name in enumerate(names):
            putCell(table, row, 0, name)
        for column, each in enumerate(found, start=1):
            tip = "\n".join((*each.missing, *each.notes))
            putCell(table, _SUM, column, numberText(each.sum_mm, "{:.1f} mm"), tip)
            putCell(table, _FROM_BASELINE, column, numberText(each.from_baseline, "{:+.0f} %"), tip)
            putCell(table, _FROM_NADIR, column, numberText(each.from_nadir, "{:+.0f} %"), tip)
            colour = GOOD if each.category in _GOOD else FAULT if each.category == recist.PROGRESSIVE else None
            putCell(table, _CATEGORY, column, each.category, f"{categoryText(each.category)}\n{tip}".rstrip(), colour)
        fitColumns(table)
        table.resizeRowsToContents()
        table.setFixedHeight(sum(table.rowHeight(row) for row in range(len(names))) + 4)
        table.visible = bool(found)
        showText(self.ui.missingLabel, self._sentences(found))

    def _sentences(self, found: list[recist.Response]) -> str:
        """Missing entries and remarks for the chosen study, as HTML."""
        if not found:
            return _("Sums and response appear here once lesions are marked and measured.")
        here = next((each for each in found if each.study == (self.choice.study or self.choice.usual)), found[-1])
        lines = [_("Missing: {entry}").format(entry=each) for each in here.missing]
        lines += [_("Note: {remark}").format(remark=each) for each in here.notes]
        left = len(lines) - _MOST_SENTENCES
        more = [_("{count} more: see the tool tip of the study's response.").format(count=left)] if left > 0 else []
        return "<br>".join(coloured(line, WARNING) for line in lines[:_MOST_SENTENCES] + more)
