"""The table with the RECIST sum and response of each study, and sentences about findings and sizes that are missing."""

from __future__ import annotations

from slicer.i18n import tr as _

from AnatomicalEmbedding.followup import response as recist

from ..shared.Colours import FAULT, GOOD
from ..shared.panels.CellTable import putCell
from ..shared.panels.Widgets import WARNING, coloured, showText
from ..shared.Signal import Listener
from .LesionActions import LesionActions
from .LesionTable import fitColumns

_MOST_SENTENCES = 4
_COLOURS = {recist.COMPLETE: GOOD, recist.PARTIAL: GOOD, recist.PROGRESSIVE: FAULT}  # response -> colour


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
        record = self.logic.record
        found = recist.responses(record) if record.lesions else []
        table = self.ui.responseTable
        rows = (
            (_("Sum of targets"), "sum_mm", "{:.1f} mm"),
            (_("From baseline"), "from_baseline", "{:+.0f} %"),
            (_("From nadir"), "from_nadir", "{:+.0f} %"),
            (_("Response"), "category", "{}"),
        )
        table.setColumnCount(len(found) + 1)
        table.setRowCount(len(rows))
        for row, (name, field, form) in enumerate(rows):
            putCell(table, row, 0, name)
            for column, each in enumerate(found, start=1):
                value, tip = getattr(each, field), "\n".join((*each.missing, *each.notes))
                colour = _COLOURS.get(each.category) if field == "category" else None
                putCell(table, row, column, "\u2013" if value is None else form.format(value), tip, colour)
        fitColumns(table)
        table.resizeRowsToContents()
        table.setFixedHeight(sum(table.rowHeight(row) for row in range(len(rows))) + 4)
        table.visible = bool(found)
        showText(self.ui.missingLabel, self._sentences(found))

    def _sentences(self, found: list[recist.Response]) -> str:
        if not found:
            return _("After you have marked and measured lesions, the sums and the response are shown here.")
        here = next((each for each in found if each.study == (self.choice.study or self.choice.usual)), found[-1])
        lines = [_("Missing: {entry}").format(entry=each) for each in here.missing]
        lines += [_("Note: {remark}").format(remark=each) for each in here.notes]
        left = len(lines) - _MOST_SENTENCES
        more = [_("{count} more sentences: see the tool tips of this study.").format(count=left)] if left > 0 else []
        return "<br>".join(coloured(line, WARNING) for line in lines[:_MOST_SENTENCES] + more)
