"""The section "Cohort": lists the places that `anatemb cohort find` has found. A double click loads the scan."""

from html import escape

import qt
from slicer.i18n import tr as _

from ..shared.Colours import DOUBTFUL, GOOD
from ..shared.panels.CellTable import fillTable
from ..shared.panels.FileForm import askForFile
from ..shared.panels.Session import Session
from ..shared.panels.Widgets import WARNING, coloured, showText
from ..shared.Signal import Listener
from .CohortHits import CohortHits
from .CohortPlaces import CohortPlace

_FOLDER = "cohortFolder"  # key of the setting: folder of the last opened table
# largest number of listed places; the table of places begins with the highest probability
_MOST = 2000
_COLOURS = {"matched": GOOD, "uncertain": DOUBTFUL}


class CohortPanel(Listener):
    """Shows the section Cohort. ui: has cohortButton, cohortTable and cohortLabel."""

    def __init__(self, ui, hits: CohortHits, session: Session) -> None:
        self.ui = ui
        self.hits = hits
        self._session = session
        self._sentence = ""  # the last message
        self._listed: list[CohortPlace] = []
        table = ui.cohortTable
        table.horizontalHeader().setSectionResizeMode(0, qt.QHeaderView.Stretch)
        table.connect("cellDoubleClicked(int,int)", self._onDoubleClick)
        ui.cohortButton.connect("clicked(bool)", self._onButton)
        self.listen(hits.reported, self._onReported)
        self.atEnd(session.addWork(lambda: self.hits.loading is not None))
        self.updateAt(hits.changed)

    def update(self) -> None:
        """Show the places of the opened table, and a message or a summary."""
        hits = self.hits
        table = self.ui.cohortTable
        if self._listed != hits.places[:_MOST]:
            self._listed = hits.places[:_MOST]
            rows = []
            for hit in self._listed:
                chance = _("unknown") if hit.probability is None else f"{hit.probability:.0%}"
                error = "" if hit.errorMm is None else f"{hit.errorMm:.1f} mm"
                colour = _COLOURS.get(hit.status)
                rows.append([(hit.name, hit.scan), (chance, hit.status, colour), (error,)])
            fillTable(table, rows)
        table.visible = bool(self._listed)
        text = escape(self._summary())
        if self._sentence:
            text = coloured(self._sentence, WARNING)
        showText(self.ui.cohortLabel, text)

    def _summary(self) -> str:
        """Return a sentence about the places, or about the scan that is being read; "" without places."""
        hits = self.hits
        if hits.loading is not None:
            return _("Reading {name} ...").format(name=hits.loading.name)
        if not hits.places and not hits.absent:
            return ""
        text = _("{count} scans show the place, {absent} do not. Double click a scan to load it.")
        text = text.format(count=len(hits.places), absent=hits.absent)
        if len(hits.places) > _MOST:
            text += _(" Only the first {most} scans are listed.").format(most=_MOST)
        return text

    def _onButton(self) -> None:
        path = askForFile(
            self.ui.cohortButton, _("Places in a cohort"), _("Places (*.csv)"), _FOLDER
        )
        if path:
            self._sentence = ""
            self.hits.open(path)

    def _onDoubleClick(self, row: int, column: int) -> None:
        if row < len(self._listed):
            self._sentence = ""
            self.hits.show(self._listed[row])

    def _onReported(self, sentence: str) -> None:
        self._sentence = sentence
        self.update()
