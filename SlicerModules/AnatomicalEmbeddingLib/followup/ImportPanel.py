"""The menu of lesions to import: files, and point lists of the scene."""

from __future__ import annotations

from collections.abc import Callable

import qt
import slicer
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from ..shared.panels import ModuleSettings
from ..shared.Signal import Listener
from .LesionActions import LesionActions
from .LesionImport import importFiles, importPoints, pointLists, studiesOfPoints

_FOLDER = "followUpFolder"  # setting: the folder of the last files


class ImportPanel(Listener):
    """ui: holds importButton. say(sentence): the result of an import."""

    def __init__(self, ui, choice: LesionActions, say: Callable[[str], None]) -> None:
        self.ui, self.logic, self.choice, self._say = ui, choice.logic, choice, say
        self._menu = qt.QMenu(ui.importButton)
        ui.importButton.connect("clicked(bool)", self._onClicked)
        self.listen(self.logic.changed, self.update)
        self.update()

    def update(self) -> None:
        """Enable the button where a patient is loaded."""
        self.ui.importButton.enabled = bool(self.logic.volumes)
        self.ui.importButton.toolTip = (
            _("Lesions from point lists of the scene, DICOM structured reports, or a record of an earlier session.")
            if self.logic.volumes
            else _("Load CTs of a patient first.")
        )

    def menu(self):
        """A menu of the files and point lists that can be imported now."""
        logic, study = self.logic, self.choice.study
        study = study if study in logic.volumes else self.choice.usual
        self._menu.clear()
        self._add(_("Files (DICOM SR, .followup.json)..."), self._importFiles)
        for node in pointLists(logic.scene):
            labels = [logic.record.study(key).label for key in studiesOfPoints(logic, node, study)]
            text = _("Points of {name} as lesions in {studies}").format(name=node.GetName(), studies=", ".join(labels))
            self._add(text, lambda node=node: self._run(lambda: importPoints(logic, node, study)))
        return self._menu

    def _add(self, text: str, run: Callable[[], None]) -> None:
        self._menu.addAction(text.replace("&", "&&")).connect("triggered()", run)

    def _onClicked(self) -> None:
        self.menu().popup(self.ui.importButton.mapToGlobal(qt.QPoint(0, self.ui.importButton.height)))

    def _importFiles(self) -> None:
        paths = qt.QFileDialog.getOpenFileNames(
            self.ui.importButton,
            _("Lesions of an earlier session"),
            ModuleSettings.value(_FOLDER, ""),
            _("Structured reports and records (*.dcm *.followup.json)") + ";;" + _("All files (*)"),
        )
        if paths:
            self._run(lambda: importFiles(self.logic, paths))

    def _run(self, load: Callable[[], list[str]]) -> None:
        try:
            with slicer.util.WaitCursor():
                sentences = load()
        except AnatomicalEmbeddingError as error:
            sentences = [str(error)]
        if sentences:
            self._say("\n".join(sentences))
