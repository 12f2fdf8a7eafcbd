"""Which files of a follow-up are written, where, and how much in them nobody has looked at."""

from __future__ import annotations

import qt
import slicer
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from ..Panels import ModuleSettings
from ..Panels.StatusText import GOOD, WARNING, coloured
from .FollowUpExport import exportFollowUp
from .FollowUpLogic import FollowUpLogic
from .InstanceFiles import instanceFiles, whyNoReports

_FOLDER = "followUpFolder"  # setting: where files were written last


class ExportPanel:
    """ui: holds a check box for each kind, exportButton, exportLabel and exportedLabel."""

    def __init__(self, ui, logic: FollowUpLogic) -> None:
        self.ui, self.logic = ui, logic
        self._boxes = {"csv": ui.csvBox, "html": ui.reportBox, "sr": ui.srBox, "record": ui.recordBox}
        for box in self._boxes.values():
            box.connect("toggled(bool)", self._showButton)
        ui.exportButton.connect("clicked(bool)", self._onExport)
        ui.exportedLabel.visible = False
        logic.changed.connect(self.update)
        self.update()

    def close(self) -> None:
        """Stop listening; the widgets stay."""
        self.logic.changed.disconnect(self.update)

    def update(self, *_arguments: object) -> None:
        """What can be written, and what of it is not confirmed."""
        ui, record = self.ui, self.logic.record
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
            text = _("Proposed and not looked at: {count}. CSV and report flag them, DICOM SR has none of them.")
            return coloured(text.format(count=todo), WARNING)
        return coloured(_("A person has looked at every place."), GOOD)

    def _onExport(self) -> None:
        before = ModuleSettings.value(_FOLDER, "")
        folder = qt.QFileDialog.getExistingDirectory(self.ui.exportButton, _("Folder for the files"), before)
        if not folder:
            return
        ModuleSettings.setValue(_FOLDER, folder)
        files = {study: instanceFiles(volume) for study, volume in self.logic.volumes.items()}
        try:
            with slicer.util.WaitCursor():
                done = exportFollowUp(self.logic, folder, self._kinds(), files)
        except AnatomicalEmbeddingError as error:
            self._say([str(error)])
            return
        self._say([_("Written: {path}").format(path=path) for path in done.written] + list(done.notes))

    def _say(self, sentences: list[str]) -> None:
        self.ui.exportedLabel.text = "\n".join(sentences)
        self.ui.exportedLabel.visible = bool(sentences)
