"""The settings of a training run as a panel shows them: read from its widgets, written to them."""

from __future__ import annotations

from dataclasses import replace

import qt
from slicer.i18n import tr as _

from ..shared.Flag import Flag
from ..shared.maps.Engine import DEVICES
from ..shared.panels.Widgets import connectPath
from ..shared.Signal import Signal
from .TrainingSettings import RECIPES, TrainingSettings


def recipeSentences() -> dict[str, str]:
    """What each recipe learns."""
    return {
        "hybrid": _("The place in the body and a local descriptor; the recipe of the shipped weights."),
        "ape": _("The place in the body alone: a smaller network, a little less precise."),
    }


class TrainingForm:
    """Widgets of the sections "Scans" and "Training" and the folder of the run.

    changed(): the user, or `show`, has changed something. ui: the panel's widgets by name.
    """

    def __init__(self, ui) -> None:
        self.ui = ui
        self.changed = Signal()
        self._showing = Flag()
        for name, sentence in recipeSentences().items():
            ui.recipeCombo.addItem(name)
            ui.recipeCombo.setItemData(ui.recipeCombo.count - 1, sentence, qt.Qt.ToolTipRole)
        ui.startCombo.addItem(_("the shipped weights (fine-tune)"))
        ui.startCombo.addItem(_("scratch"))
        for device in DEVICES:
            ui.deviceCombo.addItem(device)
        ui.addFolderButton.connect("clicked(bool)", self._onAdd)
        ui.removeFolderButton.connect("clicked(bool)", self._onRemove)
        ui.scanFoldersList.connect("itemSelectionChanged()", self._showRemove)
        for edit in (ui.validationFolderEdit, ui.runFolderEdit):
            connectPath(edit, self._onChanged)
        for combo in (ui.recipeCombo, ui.startCombo, ui.deviceCombo):
            combo.connect("currentIndexChanged(int)", self._onChanged)
        for spin in (ui.minutesSpin, ui.stepsSpin, ui.threadsSpin, ui.validateSpin):
            spin.connect("valueChanged(int)", self._onChanged)
        ui.optionsEdit.connect("textChanged(QString)", self._onChanged)
        self._showRemove()
        self._showRecipe()

    def settings(self) -> TrainingSettings:
        """What the widgets say."""
        ui = self.ui
        return TrainingSettings(
            scanFolders=tuple(self._folders()),
            validationFolder=ui.validationFolderEdit.currentPath,
            recipe=ui.recipeCombo.currentText,
            fineTune=ui.startCombo.currentIndex == 0,
            minutes=ui.minutesSpin.value,
            steps=ui.stepsSpin.value,
            validateEvery=ui.validateSpin.value,
            device=ui.deviceCombo.currentText,
            threads=ui.threadsSpin.value,
            furtherOptions=ui.optionsEdit.text,
            runFolder=ui.runFolderEdit.currentPath,
        )

    def show(self, settings: TrainingSettings) -> None:
        """Put settings into the widgets; `changed` once if that changes anything."""
        if settings == self.settings():
            return
        ui = self.ui
        with self._showing:
            if settings.scanFolders != tuple(self._folders()):
                ui.scanFoldersList.clear()
                for folder in settings.scanFolders:
                    ui.scanFoldersList.addItem(folder)
            ui.validationFolderEdit.currentPath = settings.validationFolder
            self._choose(ui.recipeCombo, settings.recipe)
            ui.startCombo.currentIndex = 0 if settings.fineTune else 1
            ui.minutesSpin.value = settings.minutes
            ui.stepsSpin.value = settings.steps
            ui.validateSpin.value = settings.validateEvery
            self._choose(ui.deviceCombo, settings.device)
            ui.threadsSpin.value = settings.threads
            ui.optionsEdit.text = settings.furtherOptions
            ui.runFolderEdit.currentPath = settings.runFolder
        self._onChanged()

    def setEnabled(self, enabled: bool) -> None:
        """Whether the user can change anything; a run that is under way keeps its settings."""
        ui = self.ui
        for widget in (ui.scanFoldersList, ui.addFolderButton, ui.validationFolderEdit, ui.runFolderEdit):
            widget.enabled = enabled
        for widget in (ui.recipeCombo, ui.startCombo, ui.minutesSpin, ui.stepsSpin, ui.deviceCombo):
            widget.enabled = enabled
        for widget in (ui.threadsSpin, ui.validateSpin, ui.optionsEdit):
            widget.enabled = enabled
        self._showRemove()

    def _folders(self) -> list[str]:
        scans = self.ui.scanFoldersList
        return [scans.item(n).text() for n in range(scans.count)]

    def _choose(self, combo, text: str) -> None:
        """Choose an entry by its text; a recipe that is a file gets an entry of its own."""
        if combo.findText(text) < 0:
            combo.addItem(text)
        combo.currentIndex = combo.findText(text)

    def _onAdd(self) -> None:
        folders = self._folders()
        start = folders[-1] if folders else ""
        chosen = qt.QFileDialog.getExistingDirectory(self.ui.scansSection, _("Folder of CTs"), start)
        if chosen and chosen not in folders:
            self.show(replace(self.settings(), scanFolders=(*folders, chosen)))

    def _onRemove(self) -> None:
        scans = self.ui.scanFoldersList
        kept = [scans.item(n).text() for n in range(scans.count) if not scans.item(n).isSelected()]
        self.show(replace(self.settings(), scanFolders=tuple(kept)))

    def _onChanged(self, *_value) -> None:
        if self._showing:
            return
        self._showRecipe()
        self._showRemove()
        self.changed.emit()

    def _showRecipe(self) -> None:
        recipe = self.ui.recipeCombo.currentText
        own = _("A recipe of your own.")
        self.ui.recipeLabel.text = recipeSentences()[recipe] if recipe in RECIPES else own

    def _showRemove(self) -> None:
        scans, button = self.ui.scanFoldersList, self.ui.removeFolderButton
        button.enabled = scans.enabled and bool(scans.selectedItems())
        button.toolTip = (
            _("Remove the selected folders from the list.") if button.enabled else _("Select a folder first.")
        )
