"""The user's own examples: a form to add an example, and a table of all examples with check boxes."""

import qt
import slicer
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import PointsError

from ..shared.panels.CellTable import putCell
from ..shared.panels.Widgets import fillComboBox
from ..shared.Signal import Flag, Listener, Signal
from .BoxNodes import STRUCTURE, VOLUME_ROLE
from .Segments import segmentIds, segmentName
from .StructureExamples import BOX, SEGMENT, MarkedExample, StructureExamples
from .StructureNames import readable, titled

_ALL_SEGMENTS = "*"


class ExamplePanel(Listener):
    """The form and the table of examples.

    Signal reported(sentence): a message for the user. Signal changed(): emitted when the user adds or removes an
    example, or ticks or unticks the structure of an example. ui: the widgets of the module by name.
    """

    def __init__(self, ui, examples: StructureExamples) -> None:
        self.ui = ui
        self.examples = examples
        self.reported = Signal()
        self.changed = Signal()
        self._rows: list[MarkedExample] = []
        self._chosen: set[str] = set()
        self._filling = Flag()
        self._kinds = {BOX: _("box"), SEGMENT: _("segment")}
        self.table = ui.exampleTable
        self.table.horizontalHeader().setSectionResizeMode(qt.QHeaderView.Stretch)
        self.table.verticalHeader().setSectionResizeMode(qt.QHeaderView.ResizeToContents)
        self.table.connect("itemChanged(QTableWidgetItem*)", self._onItem)
        self.table.connect("itemSelectionChanged()", self._showButtons)
        ui.markingSelector.connect("currentNodeChanged(vtkMRMLNode*)", self._onMarking)
        ui.newBoxButton.connect("clicked(bool)", self._onNewBox)
        ui.segmentSelector.connect("currentIndexChanged(int)", self._showButtons)
        ui.structureEdit.connect("returnPressed()", ui.addExampleButton.click)
        ui.addExampleButton.connect("clicked(bool)", self._onAdd)
        ui.removeExampleButton.connect("clicked(bool)", self._onRemove)
        self._onMarking(ui.markingSelector.currentNode())
        self.updateAt(examples.changed)

    @property
    def names(self) -> list[str]:
        """Names of the structures that have an example."""
        return list(dict.fromkeys(example.structure for example in self._rows))

    @property
    def chosen(self) -> list[str]:
        """Names of the structures that have an example and are ticked."""
        return [name for name in self.names if name in self._chosen]

    def setChosen(self, names) -> None:
        """Tick only these structures. `changed` is not emitted."""
        if set(names) != self._chosen:
            self._chosen = set(names)
            self.update()

    def update(self) -> None:
        """Fill the table again, tick the chosen structures, and write the number of examples into the tab."""
        self._rows = self.examples.all()
        with self._filling:
            self.table.setRowCount(len(self._rows))
            for row, example in enumerate(self._rows):
                marked = f"{example.name} ({self._kinds[example.kind]})"
                texts = (titled(example.structure), marked, example.volumeNode.GetName())
                for column, text in enumerate(texts):
                    putCell(self.table, row, column, text, text)
                item = self.table.item(row, 0)
                item.setFlags(
                    qt.Qt.ItemIsSelectable | qt.Qt.ItemIsEnabled | qt.Qt.ItemIsUserCheckable
                )
                isChosen = example.structure in self._chosen
                item.setCheckState(qt.Qt.Checked if isChosen else qt.Qt.Unchecked)
        count = len(self._rows)
        title = _("My examples ({count})").format(count=count) if count else _("My examples")
        self.ui.structureTabs.setTabText(self.ui.structureTabs.indexOf(self.ui.examplesTab), title)
        self._showButtons()

    def _onItem(self, item) -> None:
        """Tick or untick a structure, in all rows of its examples."""
        if self._filling or item.column() != 0 or item.row() >= len(self._rows):
            return
        structure = self._rows[item.row()].structure
        if item.checkState() == qt.Qt.Checked:
            self._chosen.add(structure)
        else:
            self._chosen.discard(structure)
        self.update()
        self.changed.emit()

    def _onMarking(self, node) -> None:
        """Prepare the form for the ROI or segmentation with which the user marks a structure; None for no node."""
        ui = self.ui
        isSegmentation = node is not None and node.IsA("vtkMRMLSegmentationNode")
        ui.placeWidget.setCurrentNode(None if isSegmentation else node)
        ui.placeWidget.enabled = node is not None and not isSegmentation
        segments = []
        if isSegmentation:
            segments = [(_ALL_SEGMENTS, _("All segments, with their names"))]
            segments += [(entry, segmentName(node, entry)) for entry in segmentIds(node)]
        fillComboBox(ui.segmentSelector, segments, _ALL_SEGMENTS)
        ui.segmentLabel.visible = ui.segmentSelector.visible = isSegmentation
        if node is not None:  # suggest its scan and its structure
            role = node.GetReferenceImageGeometryReferenceRole() if isSegmentation else VOLUME_ROLE
            volume = node.GetNodeReference(role)
            if volume is not None:
                ui.exampleVolumeSelector.setCurrentNode(volume)
            if node.GetAttribute(STRUCTURE):
                ui.structureEdit.text = readable(node.GetAttribute(STRUCTURE))
        self._showButtons()

    def _onNewBox(self) -> None:
        """Add an ROI, and let the user draw it in a view."""
        scene = slicer.mrmlScene
        node = scene.AddNewNodeByClass(
            "vtkMRMLMarkupsROINode", scene.GenerateUniqueName(_("Example box"))
        )
        node.CreateDefaultDisplayNodes()
        node.GetDisplayNode().SetFillVisibility(False)
        self.ui.markingSelector.setCurrentNode(node)
        # otherwise Slicer starts a new box after each box
        self.ui.placeWidget.setPlaceModePersistency(False)
        self.ui.placeWidget.setPlaceModeEnabled(True)

    def _onAdd(self) -> None:
        """Add the box, the chosen segment, or all segments of the form as examples, and tick their structures."""
        ui = self.ui
        node = ui.markingSelector.currentNode()
        volume = ui.exampleVolumeSelector.currentNode()
        segmentId = ui.segmentSelector.currentData or ""
        ui.placeWidget.setPlaceModeEnabled(False)
        try:
            if segmentId == _ALL_SEGMENTS:
                added, refused = self.examples.addSegments(node, volume)
            else:
                added = [self.examples.add(ui.structureEdit.text, node, volume, segmentId)]
                refused = []
        except PointsError as error:
            self.reported.emit(str(error))
            return
        self._chosen |= {example.structure for example in added}
        self.update()
        for sentence in refused:
            self.reported.emit(sentence)
        if added:
            names = ", ".join(readable(example.structure) for example in added)
            self.reported.emit(
                _("Added examples in {scan}: {names}.").format(scan=volume.GetName(), names=names)
            )
            self.changed.emit()

    def _onRemove(self) -> None:
        rows = {item.row() for item in self.table.selectedItems()}
        for example in [self._rows[row] for row in sorted(rows) if row < len(self._rows)]:
            self.examples.remove(example)
        self.changed.emit()

    def _showButtons(self) -> None:
        self.ui.structureEdit.enabled = self.ui.segmentSelector.currentData != _ALL_SEGMENTS
        self.ui.removeExampleButton.enabled = bool(self.table.selectedItems())
