"""The form of the panel: widgets that show and change the settings of a training run."""

from __future__ import annotations

from dataclasses import replace

import qt
from slicer.i18n import tr as _

from ..shared.maps.Engine import DEVICES
from ..shared.panels.Widgets import connectPath
from ..shared.Signal import Flag, Signal
from .TrainingSettings import TrainingSettings

_WIDGETS = {  # setting -> the widget that shows it, and the widget's property
    "validationFolder": ("validationFolderEdit", "currentPath"),
    "minutes": ("minutesSpin", "value"),
    "steps": ("stepsSpin", "value"),
    "validateEvery": ("validateSpin", "value"),
    "threads": ("threadsSpin", "value"),
    "furtherOptions": ("optionsEdit", "text"),
    "runFolder": ("runFolderEdit", "currentPath"),
}
_CHANGED = {"value": "valueChanged(int)", "text": "textChanged(QString)"}
_OTHERS = ("scanFoldersList", "addFolderButton", "removeFolderButton", "recipeCombo", "startCombo", "deviceCombo")


class TrainingForm:
    """Widgets of the sections "Scans" and "Training", and of the run's folder.

    Signal changed(): emitted when the user or `show` has changed a setting. ui: the panel's widgets by name.
    """

    def __init__(self, ui) -> None:
        self.ui = ui
        self.changed = Signal()
        self._showing = Flag()
        self._recipes = {
            "hybrid": _("The place in the body and a local descriptor; the recipe of the shipped weights."),
            "ape": _("The place in the body alone: a smaller network, a little less precise."),
        }
        ui.recipeCombo.addItems(list(self._recipes))
        ui.startCombo.addItems([_("the shipped weights (fine-tune)"), _("scratch")])
        ui.deviceCombo.addItems(list(DEVICES))
        ui.addFolderButton.connect("clicked(bool)", self._onAdd)
        ui.removeFolderButton.connect("clicked(bool)", self._onRemove)
        for combo in (ui.recipeCombo, ui.startCombo, ui.deviceCombo):
            combo.connect("currentIndexChanged(int)", self._onChanged)
        for name, key in _WIDGETS.values():
            if key == "currentPath":
                connectPath(getattr(ui, name), self._onChanged)
            else:
                getattr(ui, name).connect(_CHANGED[key], self._onChanged)
        self._showRecipe()

    def settings(self) -> TrainingSettings:
        plain = {name: getattr(getattr(self.ui, widget), key) for name, (widget, key) in _WIDGETS.items()}
        return TrainingSettings(
            scanFolders=tuple(self._folders()),
            recipe=self.ui.recipeCombo.currentText,
            fineTune=self.ui.startCombo.currentIndex == 0,
            device=self.ui.deviceCombo.currentText,
            **plain,
        )

    def show(self, settings: TrainingSettings) -> None:
        """Show settings in the widgets. Emits `changed` once if any setting differs from the shown ones."""
        if settings == self.settings():
            return
        ui = self.ui
        with self._showing:
            if settings.scanFolders != tuple(self._folders()):
                ui.scanFoldersList.clear()
                ui.scanFoldersList.addItems(list(settings.scanFolders))
            for combo, text in ((ui.recipeCombo, settings.recipe), (ui.deviceCombo, settings.device)):
                if combo.findText(text) < 0:  # the recipe is a file, not a listed name
                    combo.addItem(text)
                combo.currentIndex = combo.findText(text)
            ui.startCombo.currentIndex = 0 if settings.fineTune else 1
            for name, (widget, key) in _WIDGETS.items():
                setattr(getattr(ui, widget), key, getattr(settings, name))
        self._onChanged()

    def setEnabled(self, enabled: bool) -> None:
        """Enable or disable all widgets. They are disabled during a run, because its settings cannot change."""
        for name in (*_OTHERS, *(widget for widget, _key in _WIDGETS.values())):
            getattr(self.ui, name).enabled = enabled

    def _folders(self) -> list[str]:
        scans = self.ui.scanFoldersList
        return [scans.item(n).text() for n in range(scans.count)]

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
            self.changed.emit()

    def _showRecipe(self) -> None:
        recipe = self.ui.recipeCombo.currentText
        self.ui.recipeLabel.text = self._recipes.get(recipe, _("A recipe of your own."))
