"""The panel in which the user chooses the patient and the two studies to compare."""

from __future__ import annotations

from collections.abc import Sequence

from slicer.i18n import tr as _

from ..shared.panels.Widgets import WARNING, coloured, fillComboBox
from ..shared.Signal import Signal
from .StudyOrder import Patient, Study, patients


class StudyPanel:
    """The selectors. ui: has patientSelector, priorSelector, currentSelector, noteLabel and showButton.

    Signal chosen(prior, current): the volumes that the user has chosen; None if no volume is chosen.
    """

    def __init__(self, ui, scene) -> None:
        self.ui, self.scene = ui, scene
        self.chosen = Signal()
        self._prior = self._current = None
        ui.patientSelector.connect("activated(int)", self._onPatient)
        ui.priorSelector.connect("activated(int)", self._onPrior)
        ui.currentSelector.connect("activated(int)", self._onCurrent)

    def show(self, found: Sequence[Patient], patient: Patient | None, prior, current) -> None:
        """Show all patients, the chosen patient (or None), and the volumes of the two chosen studies (or None)."""
        ui, self._prior, self._current = self.ui, prior, current
        names = [(each.key, each.name or _("(no patient in the subject hierarchy)")) for each in found]
        fillComboBox(ui.patientSelector, names, patient and patient.key)
        fillComboBox(ui.priorSelector, _entries(patient.studies if patient else []), prior and prior.GetID())
        fillComboBox(ui.currentSelector, _entries(patient.after(prior) if patient else []), current and current.GetID())
        notes = [_("Load CTs of a patient: two studies or more.")]
        if patient is not None:
            notes = [study.note for study in patient.studies if study.note]
            if len(patient.studies) < 2:
                text = _("Load another study of this patient, or move its volume to the patient in the Data module.")
                notes.append(text)
        ui.noteLabel.text = coloured("\n".join(notes), WARNING).replace("\n", "<br>")
        ui.noteLabel.visible = bool(notes)
        ui.showButton.enabled = None not in (prior, current)
        ui.showButton.toolTip = (
            _("A row of views for the prior and one for the current study.")
            if ui.showButton.enabled
            else _("Load two studies of a patient first.")
        )

    def _onPatient(self, index: int) -> None:
        key = self.ui.patientSelector.itemData(index)
        patient = next((each for each in patients(self.scene) if each.key == key), None)
        self.chosen.emit(None if patient is None else patient.volumes[0], None)

    def _onPrior(self, index: int) -> None:
        self.chosen.emit(self.scene.GetNodeByID(self.ui.priorSelector.itemData(index)), self._current)

    def _onCurrent(self, index: int) -> None:
        self.chosen.emit(self._prior, self.scene.GetNodeByID(self.ui.currentSelector.itemData(index)))


def _entries(studies: Sequence[Study]) -> list[tuple[str, str]]:
    """Entries of a combo box: (ID of the volume, date and name of the study)."""
    return [(s.volume.GetID(), f"{s.dateText or _('no date')}   {s.volume.GetName()}") for s in studies]
