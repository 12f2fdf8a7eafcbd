"""The table of a patient's studies: date, scan, and progress of the scan's preparation. The user can edit dates."""

from __future__ import annotations

import qt
from slicer.i18n import tr as _

from ..shared.Colours import DOUBTFUL
from ..shared.maps.MapStore import FAILED, READY, WAITING, WORKING, MapState
from ..shared.panels.CellTable import putCell, setColumns
from ..shared.panels.Session import Session
from ..shared.Signal import Flag, Listener, Signal
from .StudyOrder import Patient, Study, setDate

_DATE, _SCAN, _STATE = range(3)
_ROW_PX = 24
_LEAST_ROWS, _MOST_ROWS = 2, 6


class StudyTable(Listener):
    """The table. Signal changed(): the user set a date. Signal reported(sentence): the user typed an invalid date."""

    def __init__(self, parentLayout, session: Session) -> None:
        self.session = session
        self.changed, self.reported = Signal(), Signal()
        self._studies: tuple[Study, ...] = ()
        self._prior = self._current = None
        self._filling = Flag()
        self.widget = qt.QTableWidget()
        self.widget.setObjectName("studyTable")
        setColumns(self.widget, [_("Date"), _("Scan"), _("State")])
        self.widget.setSelectionMode(qt.QAbstractItemView.NoSelection)
        self.widget.verticalHeader().setDefaultSectionSize(_ROW_PX)
        self.widget.horizontalHeader().setStretchLastSection(True)
        self.widget.connect("itemChanged(QTableWidgetItem*)", self._onEdited)
        parentLayout.addWidget(self.widget)
        self.listen(session.ticked, self.update)

    def show(self, patient: Patient | None, prior, current) -> None:
        """Show the studies of a patient (None: an empty table). prior, current: volumes of the compared studies."""
        self._studies = patient.studies if patient is not None else ()
        self._prior, self._current = prior, current
        self.update()
        rows = min(max(len(self._studies), _LEAST_ROWS), _MOST_ROWS)
        self.widget.setFixedHeight(rows * _ROW_PX + self.widget.horizontalHeader().sizeHint.height() + 4)
        self.widget.resizeColumnsToContents()
        self.widget.horizontalHeader().setStretchLastSection(True)

    def update(self) -> None:
        """Show the state of each scan as it is now."""
        with self._filling:
            self.widget.setRowCount(len(self._studies))
            for row, study in enumerate(self._studies):
                colour = DOUBTFUL if study.note else None
                putCell(self.widget, row, _DATE, study.dateText, _dateTip(study), colour, editable=True)
                putCell(self.widget, row, _SCAN, study.volume.GetName())
                state = self.session.store.state(study.volume)
                putCell(self.widget, row, _STATE, self._stateText(study, state), state.sentence)

    def _stateText(self, study: Study, state: MapState) -> str:
        role = {self._prior: _("prior"), self._current: _("current")}.get(study.volume)
        return _progressText(state) if role is None else f"{role}, {_progressText(state)}"

    def _onEdited(self, item) -> None:
        if self._filling or item.column() != _DATE or item.row() >= len(self._studies):
            return
        try:
            setDate(self._studies[item.row()].volume, item.text())
        except ValueError as error:
            self.update()  # restore the earlier date
            self.reported.emit(str(error))
            return
        self.changed.emit()


def _dateTip(study: Study) -> str:
    byHand = _("Set by hand. Clear the cell to go back to the date in DICOM.")
    return study.note or (byHand if study.byHand else _("From DICOM. Double click to set another date."))


def _progressText(state: MapState) -> str:
    if state.status in (WAITING, WORKING):
        return _("{percent} %").format(percent=round(100 * state.share))
    return {READY: _("ready"), FAILED: _("failed")}.get(state.status, _("not prepared"))
