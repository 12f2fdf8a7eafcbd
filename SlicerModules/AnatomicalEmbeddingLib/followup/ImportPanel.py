"""Where lesions that are known already are taken from: files, point lists of the scene, other follow-ups in it."""

from __future__ import annotations

from collections.abc import Callable

import qt
import slicer
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from ..shared.panels import ModuleSettings
from ..shared.Signal import Listener
from .FollowUpLogic import FollowUpLogic
from .LesionChoice import LesionChoice
from .LesionImport import importFiles, importPoints, importRecord, pointLists, studiesOfPoints
from .RecordNode import otherRecords, readRecord

_FOLDER = "followUpFolder"  # setting: where files were written last


class ImportPanel(Listener):
    """ui: holds importButton. say(sentence): what was taken in, and what not."""

    def __init__(self, ui, logic: FollowUpLogic, choice: LesionChoice, say: Callable[[str], None]) -> None:
        self.ui, self.logic, self.choice, self._say = ui, logic, choice, say
        self._menu = qt.QMenu(ui.importButton)
        ui.importButton.connect("clicked(bool)", self._onClicked)
        self.listen(logic.changed, self.update)
        self.update()

    def update(self) -> None:
        """Whether there is a patient to take anything in for."""
        self.ui.importButton.enabled = bool(self.logic.volumes)
        self.ui.importButton.toolTip = (
            _("Lesions from point lists of the scene, DICOM structured reports, or a record of an earlier session.")
            if self.logic.volumes
            else _("Load CTs of a patient first.")
        )

    def menu(self):
        """What there is to take in now."""
        self._menu.clear()
        self._add(_("Files (DICOM SR, .followup.json)..."), self._importFiles)
        for node in pointLists(self.logic.scene):
            labels = [self.logic.record.study(key).label for key in studiesOfPoints(self.logic, node, self._study())]
            text = _("Points of {name} as lesions in {studies}").format(name=node.GetName(), studies=", ".join(labels))
            self._add(text, self._asker(lambda node=node: importPoints(self.logic, node, self._study())))
        for node in otherRecords(self.logic.scene, self.logic.node):
            text = _("{name}, which the scene holds too").format(name=node.GetName())
            self._add(text, self._asker(lambda node=node: importRecord(self.logic, readRecord(node), node.GetName())))
        return self._menu

    def _study(self) -> str:
        """The study that is meant: the one that the user is at."""
        return self.choice.study if self.choice.study in self.logic.volumes else self.choice.usual

    def _add(self, text: str, run: Callable[[], None]) -> None:
        self._menu.addAction(text.replace("&", "&&")).connect("triggered()", run)

    def _asker(self, take: Callable[[], list[str]]) -> Callable[[], None]:
        return lambda: self._take(take)

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
            self._take(lambda: importFiles(self.logic, paths))

    def _take(self, take: Callable[[], list[str]]) -> None:
        try:
            with slicer.util.WaitCursor():
                sentences = take()
        except AnatomicalEmbeddingError as error:
            sentences = [str(error)]
        if sentences:
            self._say("\n".join(sentences))
