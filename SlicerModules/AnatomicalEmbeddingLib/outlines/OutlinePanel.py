"""The section "Segment the rest like these": examples to tick, a progress bar, and the table of outlines."""

from collections.abc import Sequence
from pathlib import Path

import qt
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import PointsError

from ..shared.Colours import NOTHING
from ..shared.panels import ModuleSettings
from ..shared.panels.CellTable import fillTable
from ..shared.panels.Widgets import StatusLines, connectPath, showProgress, showText
from ..shared.SceneNodes import nodesOf
from ..shared.Signal import Flag, Listener, Signal
from . import OutlineNodes
from .OutlineLogic import OutlineLogic

_FOLDER = "outlineFolder"  # name of the setting that stores the working folder


class OutlinePanel(Listener):
    """Shows and controls an OutlineLogic. Signal changed(): emitted when the user ticks or unticks an example.

    ui: the widgets by name.
    """

    def __init__(self, ui, logic: OutlineLogic) -> None:
        self.ui = ui
        self.logic = logic
        self.changed = Signal()
        self._volumes: list = []
        self._rows: list[OutlineNodes.OutlineRow] = []
        self._showing = Flag()
        self._status = StatusLines(ui.outlineStatusLabel)
        table = ui.outlineTable
        table.horizontalHeader().setSectionResizeMode(qt.QHeaderView.ResizeToContents)
        table.connect("cellDoubleClicked(int,int)", self._onDoubleClick)
        ui.outlineFolderEdit.currentPath = self.folder
        connectPath(
            ui.outlineFolderEdit, lambda path: ModuleSettings.setValue(_FOLDER, path.strip())
        )
        ui.outlineExamplesSelector.connect("checkedNodesChanged()", self._onChecked)
        ui.outlineButton.connect("clicked(bool)", self.onSegment)
        self.listen(logic.reported, self._status.say)
        self.updateAt(logic.changed)

    @property
    def folder(self) -> str:
        """The path of the working folder that was chosen last on this computer, or of the default folder."""
        return ModuleSettings.value(_FOLDER, "") or str(
            Path.home() / "AnatomicalEmbedding" / "outlines"
        )

    @property
    def examples(self) -> list:
        """The segmentations that the user has ticked."""
        return list(self.ui.outlineExamplesSelector.checkedNodes())

    def setVolumes(self, nodes: Sequence) -> None:
        """Set the scans that the user has chosen in the module."""
        self._volumes = list(nodes)
        self.update()

    def setExamples(self, nodes: Sequence) -> None:
        """Tick these segmentations, and untick all others."""
        selector = self.ui.outlineExamplesSelector
        with self._showing:
            for node in nodesOf(self.logic.scene, "vtkMRMLSegmentationNode"):
                state = qt.Qt.Checked if node in nodes else qt.Qt.Unchecked
                if selector.checkState(node) != state:
                    selector.setCheckState(node, state)
        self.update()

    def onSegment(self) -> None:
        """Start the training and the outlining. If the work already runs, stop it."""
        if self.logic.busy:
            self.logic.stop()
        else:
            self._status.clear()
            self.logic.segmentRest(
                self.examples, self._volumes, self.folder, ModuleSettings.choice()
            )
        self.update()

    def poll(self) -> None:
        """Continue the work and show its progress. Call `poll` a few times a second."""
        self.logic.poll()
        # the height of a wrapped text depends on the width of the panel, which the user can change
        showText(self.ui.outlinesLabel, self.ui.outlinesLabel.text)
        showProgress(self.ui.outlineProgressBar, self.logic)
        if self._rows and any(
            row.node.GetScene() is None or row.volume.GetScene() is None for row in self._rows
        ):
            self.update()

    def update(self) -> None:
        """Fill the table, and update the button."""
        self._rows = OutlineNodes.rowsIn(self.logic.scene)
        fillTable(self.ui.outlineTable, list(map(_cells, self._rows)))
        self.ui.outlineTable.setVisible(bool(self._rows))
        self._showButton()
        showProgress(self.ui.outlineProgressBar, self.logic)

    def _showButton(self) -> None:
        """State on the button how many scans it will segment; its tool tip says what is missing."""
        button = self.ui.outlineButton
        button.enabled = True
        if self.logic.busy:
            button.text = _("Cancel")
            button.toolTip = _("Stop. Finished outlines are kept.")
            return
        try:
            _examples, scans = self.logic.examplesAndRest(self.examples, self._volumes)
        except PointsError as error:
            button.text = _("Segment")
            button.toolTip = str(error)
            button.enabled = False
            return
        several = _("Segment {count} scans").format(count=len(scans))
        button.text = several if len(scans) > 1 else _("Segment 1 scan")
        button.toolTip = _(
            "Segment in the background; you can continue to work. A run that was stopped earlier continues."
        )

    def _onChecked(self) -> None:
        if not self._showing:
            self.changed.emit()
            self._showButton()

    def _onDoubleClick(self, row: int, _column: int) -> None:
        if row < len(self._rows):
            OutlineNodes.jumpTo(self.logic.scene, self._rows[row])


def _cells(row: OutlineNodes.OutlineRow) -> list[tuple]:
    """Return the cells of a row of the table, see `fillTable`."""
    remark = row.remark
    if not remark and row.status == OutlineNodes.CUT:
        remark = _("cut by the border of the scan")
    ml = f"{row.volumeMl:.1f}"
    colour = None
    if row.doubt is None:  # absent
        remark = _("absent: {reason}").format(reason=remark)
        ml = ""
        colour = NOTHING
    texts = (row.volume.GetName(), row.structure, ml)
    return [*((text, row.remark) for text in texts), (remark, row.remark, colour)]
