"""RECIST sums and response of each study, what is missing for them, and the trend of all sizes."""

from __future__ import annotations

import qt
from slicer.i18n import tr as _

from AnatomicalEmbedding.followup import response as recist
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.trend_chart import HALO, trend_svg

from ..shared.Colours import FAULT, GOOD
from ..shared.panels.CellTable import putCell
from ..shared.panels.Widgets import WARNING, coloured, showText
from ..shared.Signal import Listener
from .FollowUpLogic import FollowUpLogic
from .LesionCells import categoryText, numberText
from .LesionChoice import LesionChoice
from .LesionTable import fitColumns

_MOST_SENTENCES = 4
_CHART_HEIGHT, _LEAST_CHART_WIDTH = 190, 320  # pixels
_SUM, _FROM_BASELINE, _FROM_NADIR, _CATEGORY = range(4)
_GOOD = (recist.COMPLETE, recist.PARTIAL)


class ResponsePanel(Listener):
    """Shows a record's response; only what a person has confirmed counts."""

    def __init__(self, parentLayout, logic: FollowUpLogic, choice: LesionChoice) -> None:
        self.logic, self.choice = logic, choice
        self.table = qt.QTableWidget()
        self.table.setObjectName("responseTable")
        self.table.setSelectionMode(qt.QAbstractItemView.NoSelection)
        self.table.setEditTriggers(qt.QAbstractItemView.NoEditTriggers)
        self.table.setFocusPolicy(qt.Qt.NoFocus)
        self.table.verticalHeader().setVisible(False)
        self.table.horizontalHeader().setVisible(False)
        self.missing = qt.QLabel()
        self.missing.objectName = "missingLabel"
        self.missing.wordWrap = True
        self.missing.setTextFormat(qt.Qt.RichText)
        self.picture = qt.QLabel()
        self.picture.objectName = "trendPicture"
        self.picture.setMinimumSize(1, _CHART_HEIGHT)
        self.picture.setSizePolicy(qt.QSizePolicy.Ignored, qt.QSizePolicy.Fixed)
        self._drawn: tuple = (None, 0)
        for widget in (self.table, self.missing, self.picture):
            parentLayout.addWidget(widget)
        self.listen(logic.changed, self.update)
        self.listen(choice.changed, self.update)
        self.update()

    def update(self) -> None:
        """Show the record as it is now."""
        record = self.logic.record
        found = recist.responses(record) if record.lesions else []
        self._fill(found)
        self.table.visible = self.picture.visible = bool(found)
        showText(self.missing, self._sentences(found))
        self.poll()

    def poll(self) -> None:
        """To be called a few times a second: the chart follows the panel's width, and the screen that it is on."""
        record, picture = self.logic.record, self.picture
        wanted = (record, picture.width, picture.devicePixelRatioF())
        if picture.isVisible() and wanted != self._drawn:
            self._drawn = wanted
            chart = _chartOf(record, picture)
            if chart is None:
                picture.setText(_("No size is confirmed yet."))
            else:
                picture.setPixmap(chart)

    def _fill(self, found: list[recist.Response]) -> None:
        table = self.table
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

    def _sentences(self, found: list[recist.Response]) -> str:
        """What is missing, and what to know, in the study that the user is at."""
        if not found:
            return _("Sums and response appear here once lesions are marked and measured.")
        here = next((each for each in found if each.study == (self.choice.study or self.choice.usual)), found[-1])
        lines = [_("Missing: {what}").format(what=each) for each in here.missing]
        lines += [_("Note: {what}").format(what=each) for each in here.notes]
        left = len(lines) - _MOST_SENTENCES
        more = [_("{count} more: see the tool tip of the study's response.").format(count=left)] if left > 0 else []
        return "<br>".join(coloured(line, WARNING) for line in lines[:_MOST_SENTENCES] + more)


def _chartOf(record: FollowUp, label):
    """The engine's chart of all confirmed sizes, as wide as a label and in its colours; None where there are none."""
    width, ratio = max(label.width, _LEAST_CHART_WIDTH), label.devicePixelRatioF()
    svg = trend_svg(record, width, _CHART_HEIGHT)
    if not svg:
        return None
    size = f'<svg width="{round(width * ratio)}" height="{round(_CHART_HEIGHT * ratio)}" '
    ink = label.palette.color(qt.QPalette.Text).name()
    svg = svg.replace("<svg ", size, 1).replace(HALO, "").replace("currentColor", ink)  # Qt knows no CSS variables
    pixmap = qt.QPixmap()
    pixmap.loadFromData(svg.encode(), "SVG")
    pixmap.setDevicePixelRatio(ratio)
    return pixmap
