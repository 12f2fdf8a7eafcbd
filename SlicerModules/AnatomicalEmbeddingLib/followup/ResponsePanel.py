"""The table with the RECIST sum and response of each study, and sentences about findings and sizes that are missing."""

from slicer.i18n import tr as _

from AnatomicalEmbedding.followup import response as recist

from ..shared.Colours import FAULT, GOOD
from ..shared.panels.CellTable import fillTable
from ..shared.panels.Widgets import WARNING, coloured, showText
from ..shared.Signal import Listener
from .LesionActions import LesionActions
from .LesionTable import fitColumns

_MOST_SENTENCES = 4  # shown before "more"; a size on the screen
# response -> colour
_COLOURS = {recist.COMPLETE: GOOD, recist.PARTIAL: GOOD, recist.PROGRESSIVE: FAULT}


class ResponsePanel(Listener):
    """Shows the response, which is computed only from findings and sizes that a person has confirmed.

    ui: has responseTable and missingLabel.
    """

    def __init__(self, ui, choice: LesionActions) -> None:
        self.ui = ui
        self.logic = choice.logic
        self.choice = choice
        self.updateAt(self.logic.changed, choice.changed)

    def update(self) -> None:
        """Fill the table: a column for each study, after the titles."""
        record = self.logic.record
        responses = recist.responses(record) if record.lesions else []
        table = self.ui.responseTable
        # title, attribute of a response, format of its value
        measures = (
            (_("Sum of targets"), "sum_mm", "{:.1f} mm"),
            (_("From baseline"), "from_baseline", "{:+.0f} %"),
            (_("From nadir"), "from_nadir", "{:+.0f} %"),
            (_("Response"), "category", "{}"),
        )
        rows = []
        for title, field, form in measures:
            cells = [(title,)]
            for response in responses:
                value = getattr(response, field)
                tip = "\n".join((*response.missing, *response.notes))
                colour = _COLOURS.get(response.category) if field == "category" else None
                text = "\u2013" if value is None else form.format(value)
                cells.append((text, tip, colour))
            rows.append(cells)
        table.setColumnCount(len(responses) + 1)
        fillTable(table, rows)
        fitColumns(table)
        table.resizeRowsToContents()
        table.setFixedHeight(sum(table.rowHeight(row) for row in range(len(rows))) + 4)
        table.visible = bool(responses)
        showText(self.ui.missingLabel, self._sentences(responses))

    def _sentences(self, responses: list[recist.Response]) -> str:
        """Return what is missing in the chosen study, as rich text. Without a chosen study, the last study counts."""
        if not responses:
            return _(
                "After you have marked and measured lesions, the sums and the response are shown here."
            )
        study = self.choice.study or self.choice.usual
        byStudy = {response.study: response for response in responses}
        chosen = byStudy.get(study, responses[-1])
        lines = [_("Missing: {entry}").format(entry=sentence) for sentence in chosen.missing]
        lines += [_("Note: {remark}").format(remark=sentence) for sentence in chosen.notes]
        hidden = len(lines) - _MOST_SENTENCES
        if hidden > 0:
            more = _("{count} more sentences: see the tool tips of this study.")
            lines[_MOST_SENTENCES:] = [more.format(count=hidden)]
        return "<br>".join(coloured(line, WARNING) for line in lines)
