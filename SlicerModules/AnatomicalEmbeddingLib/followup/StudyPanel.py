"""The part of the panel in which the user chooses the patient and the two studies to compare, and sets dates."""

from collections.abc import Callable, Sequence

from slicer.i18n import tr as _

from ..shared.Colours import DOUBTFUL
from ..shared.panels.CellTable import fitHeight, putCell
from ..shared.panels.Widgets import WARNING, coloured, fillComboBox
from ..shared.Signal import Flag, Signal
from .StudyOrder import Patient, Study, patients, setDate

_DATE, _SCAN = range(2)
_ROW_PX = 24  # height of a row on the screen
_LEAST_ROWS = 2
_MOST_ROWS = 6


class StudyPanel:
    """Shows the selectors and the table of dates. ui: has patientSelector, priorSelector, currentSelector, noteLabel,
    showButton, studyArea and studyTable. say(sentence): called if the user enters an invalid date.

    Signal chosen(prior, current): the volumes that the user has chosen; None for a study that is not chosen. Signal
    dated(): the user has set a date.
    """

    def __init__(self, ui, scene, say: Callable[[str], None]) -> None:
        self.ui = ui
        self.scene = scene
        self._say = say
        self.chosen = Signal()
        self.dated = Signal()
        self._prior = self._current = None
        self._studies: Sequence[Study] = ()
        self._isUndated = False  # True if a study had no date at the last `show`
        self._filling = Flag()
        ui.studyTable.connect("itemChanged(QTableWidgetItem*)", self._onEdited)
        ui.patientSelector.connect("activated(int)", self._onPatient)
        ui.priorSelector.connect("activated(int)", self._onPrior)
        ui.currentSelector.connect("activated(int)", self._onCurrent)

    def show(self, entries: Sequence[Patient], patient: Patient | None, prior, current) -> None:
        """List patients, and show the choice.

        Args:
            entries: the patients.
            patient: the chosen patient, or None.
            prior, current: the chosen volume nodes, or None.
        """
        ui = self.ui
        self._prior = prior
        self._current = current
        self._studies = patient.studies if patient is not None else ()
        names = [
            (entry.key, entry.name or _("(no patient in the subject hierarchy)"))
            for entry in entries
        ]
        fillComboBox(ui.patientSelector, names, patient and patient.key)
        fillComboBox(ui.priorSelector, _entries(self._studies), prior and prior.GetID())
        fillComboBox(
            ui.currentSelector,
            _entries(patient.after(prior) if patient else []),
            current and current.GetID(),
        )
        notes = [study.note for study in self._studies if study.note]
        # opened once; after that, only the user opens and closes the area
        if notes and not self._isUndated:
            ui.studyArea.collapsed = False
        self._isUndated = bool(notes)
        if patient is None:
            notes.append(_("Load CTs of two or more studies of a patient."))
        elif len(self._studies) < 2:
            notes.append(
                _(
                    "Load a second study, or move another loaded volume to this patient in the Data module."
                )
            )
        ui.noteLabel.text = coloured("\n".join(notes), WARNING).replace("\n", "<br>")
        ui.noteLabel.visible = bool(notes)
        ui.showButton.enabled = None not in (prior, current)
        self._showDates()

    def _showDates(self) -> None:
        """Fill the table of dates."""
        table = self.ui.studyTable
        with self._filling:
            table.setRowCount(len(self._studies))
            for row, study in enumerate(self._studies):
                colour = DOUBTFUL if study.note else None
                putCell(table, row, _DATE, study.dateText, _dateTip(study), colour, editable=True)
                putCell(table, row, _SCAN, study.name)
        fitHeight(table, min(max(len(self._studies), _LEAST_ROWS), _MOST_ROWS) * _ROW_PX)

    def _onPatient(self, index: int) -> None:
        volumes = {entry.key: entry.volumes[0] for entry in patients(self.scene)}
        self.chosen.emit(volumes.get(self.ui.patientSelector.itemData(index)), None)

    def _onPrior(self, index: int) -> None:
        self.chosen.emit(
            self.scene.GetNodeByID(self.ui.priorSelector.itemData(index)), self._current
        )

    def _onCurrent(self, index: int) -> None:
        self.chosen.emit(
            self._prior, self.scene.GetNodeByID(self.ui.currentSelector.itemData(index))
        )

    def _onEdited(self, item) -> None:
        """Store the date that the user typed into a cell, or say that it is no date."""
        if self._filling:
            return
        try:
            setDate(self._studies[item.row()].volume, item.text())
        except ValueError as error:
            self._showDates()  # shows the valid date again
            self._say(str(error))
            return
        self.dated.emit()


def _entries(studies: Sequence[Study]) -> list[tuple[str, str]]:
    """Return (ID of the volume, date and name) of each study, for a combo box."""
    return [(s.volume.GetID(), f"{s.dateText or _('no date')}   {s.name}") for s in studies]


def _dateTip(study: Study) -> str:
    if study.byHand:
        return _("Date set by the user. Clear the cell to use the date from DICOM again.")
    return study.note or _("Date from DICOM. Double click to set another date.")
