"""The files of a follow-up to write, and how many of its proposals are unreviewed."""

from __future__ import annotations

import qt
import slicer
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from ..shared.panels import ModuleSettings
from ..shared.panels.PackageSetup import InstallError, install, missingForReport
from ..shared.panels.Widgets import GOOD, WARNING, coloured, showText
from ..shared.Signal import Listener
from .FollowUpExport import exportFollowUp, whyNoReports
from .FollowUpLogic import FollowUpLogic

_FOLDER = "followUpFolder"  # setting: the folder of the last files


class ExportPanel(Listener):
    """ui: holds a check box for each kind, exportButton, exportLabel and exportedLabel."""

    def __init__(self, ui, logic: FollowUpLogic) -> None:
        self.ui, self.logic = ui, logic
        self._patient = ""
        self._boxes = {"csv": ui.csvBox, "html": ui.reportBox, "sr": ui.srBox, "record": ui.recordBox}
        for box in self._boxes.values():
            box.connect("toggled(bool)", self._showButton)
        ui.exportButton.connect("clicked(bool)", self._onExport)
        ui.exportedLabel.visible = False
        self.listen(logic.changed, self.update)
        self.update()

    def update(self, *_arguments: object) -> None:
        """Show which kinds can be written, and how many proposals are unreviewed."""
        ui, record = self.ui, self.logic.record
        patient = "" if self.logic.patient is None else self.logic.patient.key
        if patient != self._patient:
            self._patient = patient
            self._say([])
        reason = whyNoReports(self.logic.volumes.values())
        ui.srBox.enabled = not reason
        ui.srBox.toolTip = reason or _("A structured report (TID 1500) for each study that was loaded from DICOM.")
        ui.exportLabel.text = self._sentence(len(record.unreviewed())) if record.lesions else ""
        ui.exportLabel.visible = bool(record.lesions)
        self._showButton()

    def _showButton(self) -> None:
        missing = "" if self._kinds() else _("Choose a kind of file first.")
        missing = missing if self.logic.record.lesions else _("Mark a lesion first.")
        self.ui.exportButton.enabled = not missing
        self.ui.exportButton.toolTip = missing or _("Choose a folder; files of the same names are replaced.")

    def _kinds(self) -> list[str]:
        return [kind for kind, box in self._boxes.items() if box.enabled and box.checked]

    def _sentence(self, todo: int) -> str:
        if todo:
            text = _("Unreviewed proposals: {count}. CSV and report flag them, DICOM SR leaves them out.")
            return coloured(text.format(count=todo), WARNING)
        return coloured(_("A person has reviewed every place."), GOOD)

    def _onExport(self) -> None:
        before = ModuleSettings.value(_FOLDER, "")
        folder = qt.QFileDialog.getExistingDirectory(self.ui.exportButton, _("Folder for the files"), before)
        if not folder:
            return
        ModuleSettings.setValue(_FOLDER, folder)
        kinds, notes = self._installed(self._kinds())
        if kinds:
            notes = [*self._written(folder, kinds), *notes]
        self._say(notes)

    def _installed(self, kinds: list[str]) -> tuple[list[str], list[str]]:
        """Offer to install missing packages. Returns the kinds that can be written, and sentences on the others."""
        notes = []
        for kind in kinds:
            if not (missing := missingForReport(kind)):
                continue
            reason = ""
            try:
                install(missing, ModuleSettings.wheelFolder())
            except InstallError as error:
                reason = str(error)
            if missing := missingForReport(kind):
                text = _("{kind} was not written: it needs {names}. {reason}")
                names = ", ".join(missing)
                notes.append(text.format(kind=self._boxes[kind].text, names=names, reason=reason).rstrip())
        return [kind for kind in kinds if not missingForReport(kind)], notes

    def _written(self, folder: str, kinds: list[str]) -> list[str]:
        """Write the files. Returns a sentence for each, and for each that could not be written."""
        try:
            with slicer.util.WaitCursor():
                written, notes = exportFollowUp(self.logic, folder, kinds)
        except AnatomicalEmbeddingError as error:
            return [str(error)]
        return [_("Written: {path}").format(path=path) for path in written] + notes

    def _say(self, sentences: list[str]) -> None:
        showText(self.ui.exportedLabel, "\n".join(sentences))
