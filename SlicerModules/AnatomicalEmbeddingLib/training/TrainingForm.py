"""The settings of a training run in the widgets of the panel."""

from __future__ import annotations

from dataclasses import replace

import qt
from slicer.i18n import tr as _

from ..shared.Flag import Flag
from ..shared.maps.Engine import DEVICES
from ..shared.panels.Widgets import connectPath
from ..shared.Signal import Signal
from .TrainingSettings import RECIPES, TrainingSettings

_WIDGETS = {  # setting -> the widget that shows it, and the widget's property
    "validationFolder": ("validationFolderEdit", "currentPath"),
    "minutes": ("minutesSpin", "value"),
    "steps": ("stepsSpin", "value"),
    "validateEvery": ("validateSpin", "value"),
    "threads": ("threadsSpin", "value"),
    "furtherOptions": ("optionsEdit", "text"),
    "runFolder": ("runFolderEdit", "currentPath"),
}
_OTHERS = ("scanFoldersList", "addFolderButton", "recipeCombo", "startCombo", "deviceCombo")


def recipeSentences() -> dict[str, str]:
    """For each recipe a sentence about what it learns."""
    return {
        "hybrid": _("The place in the body and a local descriptor; the recipe of the shipped weights."),
        "ape": _("The place in the body alone: a smaller network, a little less precise."),
    }


class TrainingForm:
    """Widgets of the sections "Scans" and "Training" and the folder of the run.

    changed(): the user, or `show`, has changed a setting. ui: the panel's widgets by name.
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
        """The settings that the widgets show."""
        plain = {name: getattr(getattr(self.ui, widget), key) for name, (widget, key) in _WIDGETS.items()}
        return TrainingSettings(
            scanFolders=tuple(self._folders()),
            recipe=self.ui.recipeCombo.currentText,
            fineTune=self.ui.startCombo.currentIndex == 0,
            device=self.ui.deviceCombo.currentText,
            **plain,
        )

    def show(self, settings: TrainingSettings) -> None:
        """Put settings into the widgets; emits `changed` once if that changes any."""
        if settings == self.settings():
            return
        ui = self.ui
        with self._showing:
            if settings.scanFolders != tuple(self._folders()):
                ui.scanFoldersList.clear()
                for folder in settings.scanFolders:
                    ui.scanFoldersList.addItem(folder)
            self._choose(ui.recipeCombo, settings.recipe)
            self._choose(ui.deviceCombo, settings.device)
            ui.startCombo.currentIndex = 0 if settings.fineTune else 1
            for name, (widget, key) in _WIDGETS.items():
                setattr(getattr(ui, widget), key, getattr(settings, name))
        self._onChanged()

    def setEnabled(self, enabled: bool) -> None:
        """Allow changes, or not: a run that is under way keeps its settings."""
        for name in (*_OTHERS, *(widget for widget, _key in _WIDGETS.values())):
            getattr(self.ui, name).enabled = enabled
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
        if not self._showing:
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
