"""The form of the training panel: its widgets show and change the settings of a run."""

from dataclasses import replace

import qt
from slicer.i18n import tr as _

from ..shared.panels.Widgets import connectPath
from ..shared.Signal import Flag, Signal
from .TrainingSettings import KINDS, TrainingSettings

_WIDGETS = {  # setting -> (name of its widget, the widget's property)
    "validationFolder": ("validationFolderEdit", "currentPath"),
    "recipe": ("recipeCombo", "currentText"),
    "minutes": ("minutesSpin", "value"),
    "steps": ("stepsSpin", "value"),
    "validateEvery": ("validateSpin", "value"),
    "device": ("deviceCombo", "currentText"),
    "threads": ("threadsSpin", "value"),
    "furtherOptions": ("optionsEdit", "text"),
    "runFolder": ("runFolderEdit", "currentPath"),
}
_CHANGED = {
    "value": "valueChanged(int)",
    "text": "textChanged(QString)",
    "currentText": "currentIndexChanged(int)",
}


class TrainingForm:
    """The widgets of the sections "Scans" and "Training", and the field for the run's folder. ui: the widgets by name.

    Signal changed(): emitted when the user or `show` has changed a setting.
    """

    def __init__(self, ui) -> None:
        self.ui = ui
        self.changed = Signal()
        self._showing = Flag()
        ui.addFolderButton.connect("clicked(bool)", self._onAdd)
        ui.removeFolderButton.connect("clicked(bool)", self._onRemove)
        ui.startCombo.connect("currentIndexChanged(int)", self._onChanged)
        ui.kindCombo.connect("currentIndexChanged(int)", self._onChanged)
        for name, key in _WIDGETS.values():
            if key == "currentPath":
                connectPath(getattr(ui, name), self._onChanged)
            else:
                getattr(ui, name).connect(_CHANGED[key], self._onChanged)

    def settings(self) -> TrainingSettings:
        """Return the settings that the widgets show."""
        values = {
            name: getattr(getattr(self.ui, widget), key) for name, (widget, key) in _WIDGETS.items()
        }
        return TrainingSettings(
            KINDS[self.ui.kindCombo.currentIndex],
            tuple(self._folders()),
            fineTune=self.ui.startCombo.currentIndex == 0,
            **values,
        )

    def show(self, settings: TrainingSettings) -> None:
        """Show settings in the widgets. Emits `changed` once if a setting differs from the settings shown before."""
        if settings == self.settings():
            return
        ui = self.ui
        with self._showing:
            ui.scanFoldersList.clear()
            ui.scanFoldersList.addItems(list(settings.scanFolders))
            ui.startCombo.currentIndex = 0 if settings.fineTune else 1
            ui.kindCombo.currentIndex = KINDS.index(settings.kind)
            for name, (widget, key) in _WIDGETS.items():
                setattr(getattr(ui, widget), key, getattr(settings, name))
        self._onChanged()

    def setEnabled(self, enabled: bool) -> None:
        """Enable or disable all widgets. They are disabled during a run, because its settings cannot change."""
        for widget in (self.ui.scansSection, self.ui.trainingSection, self.ui.runFolderEdit):
            widget.enabled = enabled

    def _folders(self) -> list[str]:
        scans = self.ui.scanFoldersList
        return [scans.item(n).text() for n in range(scans.count)]

    def _onAdd(self) -> None:
        folders = self._folders()
        start = folders[-1] if folders else ""
        chosen = qt.QFileDialog.getExistingDirectory(
            self.ui.scansSection, _("Folder of scans"), start
        )
        if chosen and chosen not in folders:
            self.show(replace(self.settings(), scanFolders=(*folders, chosen)))

    def _onRemove(self) -> None:
        scans = self.ui.scanFoldersList
        folders = [
            scans.item(n).text() for n in range(scans.count) if not scans.item(n).isSelected()
        ]
        self.show(replace(self.settings(), scanFolders=tuple(folders)))

    def _onChanged(self, *_value) -> None:
        if not self._showing:
            self.changed.emit()
