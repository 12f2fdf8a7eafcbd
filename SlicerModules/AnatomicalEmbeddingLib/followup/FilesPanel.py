"""Two panels: a menu to import lesions, and check boxes with a button to export files."""

from collections.abc import Callable

import qt
import slicer
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from ..shared.DicomFiles import whyNoReports
from ..shared.panels import ModuleSettings
from ..shared.panels.FileForm import askForFile
from ..shared.panels.PackageSetup import InstallError, install, missingForReport
from ..shared.panels.Widgets import GOOD, WARNING, coloured, showText
from ..shared.Signal import Listener
from .FollowUpFiles import (
    exportFollowUp,
    importPoints,
    importRecord,
    pointLists,
    studiesOfPoints,
)
from .FollowUpLogic import FollowUpLogic
from .LesionActions import LesionActions

_FOLDER = "followUpFolder"  # name of the setting that stores the last folder for import and export


class ImportPanel(Listener):
    """Shows the import menu when the user presses `ui.importButton`. say(text): shows the result of an import."""

    def __init__(self, ui, choice: LesionActions, say: Callable[[str], None]) -> None:
        self.ui = ui
        self.logic = choice.logic
        self.choice = choice
        self._say = say
        self._menu = qt.QMenu(ui.importButton)
        ui.importButton.connect("clicked(bool)", self._onClicked)
        self.updateAt(self.logic.changed)

    def update(self) -> None:
        """Enable the import button if a study of the patient is loaded."""
        self.ui.importButton.enabled = bool(self.logic.volumes)

    def menu(self):
        """Fill and return the menu. Its first entry imports a record, each other entry the points of one list."""
        logic = self.logic
        study = self.choice.study
        study = study if study in logic.volumes else self.choice.usual
        self._menu.clear()
        self._add(_("Record (.followup.json)..."), self._importRecord)
        for node in pointLists(logic.scene):
            labels = [logic.record.study(key).label for key in studiesOfPoints(logic, node, study)]
            text = _("Points of {name} as lesions in {studies}").format(
                name=node.GetName(), studies=", ".join(labels)
            )
            self._add(text, lambda node=node: self._run(lambda: importPoints(logic, node, study)))
        return self._menu

    def _add(self, text: str, run: Callable[[], None]) -> None:
        self._menu.addAction(text.replace("&", "&&")).connect("triggered()", run)

    def _onClicked(self) -> None:
        self.menu().popup(
            self.ui.importButton.mapToGlobal(qt.QPoint(0, self.ui.importButton.height))
        )

    def _importRecord(self) -> None:
        """Ask for a file of an earlier session, and import it."""
        path = askForFile(
            self.ui.importButton,
            _("Lesions of an earlier session"),
            _("Records (*.followup.json)"),
            _FOLDER,
        )
        if path:
            self._run(lambda: importRecord(self.logic, path))

    def _run(self, load: Callable[[], list[str]]) -> None:
        """Call `load`, and show the sentences that it returns, or its error."""
        try:
            with slicer.util.WaitCursor():
                sentences = load()
        except AnatomicalEmbeddingError as error:
            sentences = [str(error)]
        if sentences:
            self._say("\n".join(sentences))


class ExportPanel(Listener):
    """Exports files. ui: has exportButton, exportLabel, exportedLabel, and a check box for each kind of file."""

    def __init__(self, ui, logic: FollowUpLogic) -> None:
        self.ui = ui
        self.logic = logic
        self._boxes = {
            "csv": ui.csvBox,
            "html": ui.reportBox,
            "sr": ui.srBox,
            "record": ui.recordBox,
        }
        for box in self._boxes.values():
            box.connect("toggled(bool)", self._showButton)
        ui.exportButton.connect("clicked(bool)", self._onExport)
        self._patient = ""
        self.updateAt(logic.changed)

    def update(self) -> None:
        """Enable the box for structured reports if they can be written. Show the number of unreviewed proposals."""
        ui = self.ui
        record = self.logic.record
        patient = "" if self.logic.patient is None else self.logic.patient.key
        if patient != self._patient:
            self._patient = patient
            showText(ui.exportedLabel, "")  # of the patient before
        reason = whyNoReports(self.logic.volumes.values())
        ui.srBox.enabled = not reason
        ui.srBox.toolTip = reason or _(
            "A structured report (TID 1500) for each study that was loaded from DICOM."
        )
        text = _(
            "Unreviewed proposals: {count}. CSV and report mark proposals UNCONFIRMED, DICOM SR omits them."
        )
        count = len(record.unreviewed())
        done = coloured(_("A person has reviewed all proposals."), GOOD)
        sentence = coloured(text.format(count=count), WARNING) if count else done
        showText(ui.exportLabel, sentence if record.lesions else "")
        self._showButton()

    def _showButton(self) -> None:
        """Enable the button if there is something to export; otherwise its tool tip says what is missing."""
        missing = ""
        if not self.logic.record.lesions:
            missing = _("Mark a lesion first.")
        elif not self._kinds():
            missing = _("Tick a kind of file first.")
        self.ui.exportButton.enabled = not missing
        self.ui.exportButton.toolTip = missing or _(
            "Choose a folder. Existing files with the same names are replaced."
        )

    def _kinds(self) -> list[str]:
        return [kind for kind, box in self._boxes.items() if box.enabled and box.checked]

    def _onExport(self) -> None:
        """Ask for a folder, install missing packages, and write the ticked kinds of files that can be written."""
        before = ModuleSettings.value(_FOLDER, "")
        folder = qt.QFileDialog.getExistingDirectory(
            self.ui.exportButton, _("Folder for the files"), before
        )
        if not folder:
            return
        ModuleSettings.setValue(_FOLDER, folder)
        kinds = self._kinds()
        notes = []
        packages = {kind: missingForReport(kind) for kind in kinds}
        missing = {kind: names for kind, names in packages.items() if names}
        try:
            if missing:
                install([name for names in missing.values() for name in names])
        except InstallError as error:
            kinds = [kind for kind in kinds if kind not in missing]
            text = _("{kind} was not written: it needs {names}. {reason}")
            for kind, names in missing.items():
                title = self._boxes[kind].text
                notes.append(text.format(kind=title, names=", ".join(names), reason=error))
        if kinds:
            notes = [*self._written(folder, kinds), *notes]
        showText(self.ui.exportedLabel, "\n".join(notes))

    def _written(self, folder: str, kinds: list[str]) -> list[str]:
        """Write the files. Returns sentences for the user."""
        try:
            with slicer.util.WaitCursor():
                written, notes = exportFollowUp(self.logic, folder, kinds)
        except AnatomicalEmbeddingError as error:
            return [str(error)]
        return [_("Written: {path}").format(path=path) for path in written] + notes
