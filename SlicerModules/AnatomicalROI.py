"""Module Anatomical ROI: finds boxes of organs and other structures in CTs, and crops scans to the boxes."""

from typing import Annotated

import qt
import slicer
from slicer import vtkMRMLScalarVolumeNode, vtkMRMLSegmentationNode
from slicer.i18n import tr as _
from slicer.i18n import translate
from slicer.parameterNodeWrapper import WithinRange, parameterNodeWrapper
from slicer.ScriptedLoadableModule import (
    ScriptedLoadableModule,
    ScriptedLoadableModuleLogic,
    ScriptedLoadableModuleTest,
    ScriptedLoadableModuleWidget,
)

from AnatomicalEmbedding.anatomy.names import canonical_name
from AnatomicalEmbeddingLib.boxes.BoxLogic import BoxLogic
from AnatomicalEmbeddingLib.boxes.BoxTable import BoxTable
from AnatomicalEmbeddingLib.boxes.CoverageLogic import CoverageLogic
from AnatomicalEmbeddingLib.boxes.CoverageTable import CoverageTable
from AnatomicalEmbeddingLib.boxes.Crops import cropAll
from AnatomicalEmbeddingLib.boxes.ExamplePanel import ExamplePanel
from AnatomicalEmbeddingLib.boxes.StructurePanel import StructurePanel
from AnatomicalEmbeddingLib.outlines.OutlineLogic import OutlineLogic
from AnatomicalEmbeddingLib.outlines.OutlinePanel import OutlinePanel
from AnatomicalEmbeddingLib.shared.panels.EnginePanel import EnginePanel
from AnatomicalEmbeddingLib.shared.panels.PreparationPanel import PreparationPanel
from AnatomicalEmbeddingLib.shared.panels.ScanForm import ScanForm
from AnatomicalEmbeddingLib.shared.panels.SelfTests import SelfTest
from AnatomicalEmbeddingLib.shared.panels.ViewPanel import ViewPanel
from AnatomicalEmbeddingLib.shared.panels.Widgets import StatusLines, connectPath, showProgress
from AnatomicalEmbeddingLib.shared.processes.EngineProcess import pythonCommand
from AnatomicalEmbeddingLib.shared.SampleScans import registerSampleData
from AnatomicalEmbeddingLib.shared.SideBySide import AXIAL, ROWS
from AnatomicalEmbeddingLib.shared.Views import show, viewsOf
from AnatomicalEmbeddingLib.shared.VolumeNodes import SOURCE_ROLE

# pixels: tabs get up to _SPARE extra height in a window higher than _SMALL_WINDOW
_SMALL_WINDOW = 800
_SPARE = 150


class AnatomicalROI(ScriptedLoadableModule):
    def __init__(self, parent):
        ScriptedLoadableModule.__init__(self, parent)
        self.parent.title = _("Anatomical ROI")
        self.parent.categories = [translate("qSlicerAbstractCoreModule", "Registration")]
        self.parent.dependencies = ["Markups", "Segmentations"]
        self.parent.contributors = ["AnatomicalEmbedding developers"]
        self.parent.helpText = _(
            "Finds boxes of organs and other structures in CTs. Structures in the shipped library need no example. For "
            "other structures, give one to five examples. Boxes are enlarged until they are expected to contain the "
            "fraction of a structure that you choose. Crops scans to boxes without changing any voxel. States which "
            "part of the body a scan shows, and warns if a scan is mirrored. Needs Slicer 5.12 or newer. Research "
            'software, not a medical device. See the <a href="{url}">documentation</a>.'
        ).format(url="https://github.com/AnatomicalEmbedding/SlicerAnatomicalEmbedding")
        self.parent.acknowledgementText = _(
            "The method follows APE (Goncharov et al., MICCAI 2024) and SAM (Yan et al., IEEE TMI 2022)."
        )
        slicer.app.connect("startupCompleted()", registerSampleData)


@parameterNodeWrapper
class AnatomicalROIParameterNode:
    """The choices of the user.

    allTargets: True to use all scans. targets: the scans to search and crop if allTargets is False. structures: names
    of the structures that are ticked in the library or the examples. recall: fraction of a structure that its box
    should contain. replaceEdited: True to replace boxes that the user changed. separately: True to make one crop for
    each structure; False for one crop around all structures. marginMm: margin around crops, mm. exampleVolume: scan
    in which the user marks the next example. libraryFile: path of a structure library; "" for the library that ships
    with the weights. outlineExamples: segmentations from which the program learns to segment other scans.
    """

    targets: list[vtkMRMLScalarVolumeNode]
    allTargets: bool = True
    structures: list[str]
    recall: Annotated[float, WithinRange(0.5, 0.995)] = 0.95
    replaceEdited: bool = False
    separately: bool = False
    marginMm: Annotated[float, WithinRange(0.0, 500.0)] = 0.0
    exampleVolume: vtkMRMLScalarVolumeNode
    libraryFile: str = ""
    outlineExamples: list[vtkMRMLSegmentationNode]


class AnatomicalROIWidget(ScriptedLoadableModuleWidget, EnginePanel):
    def __init__(self, parent=None):
        ScriptedLoadableModuleWidget.__init__(self, parent)
        EnginePanel.__init__(self)
        self._targets = []

    def setup(self):
        ScriptedLoadableModuleWidget.setup(self)
        self.openPanel(self.resourcePath("UI/AnatomicalROI.ui"))
        ui = self.ui
        scene = slicer.mrmlScene
        store = self.session.store
        self.boxes = BoxLogic(scene, store)
        self.outlines = OutlineLogic(scene, pythonCommand())
        self.status = StatusLines(ui.statusLabel)
        self.atEnd(self.outlines.close, self.boxes.close)
        self.atEnd(self.session.addWork(lambda: self.boxes.busy or self.outlines.busy))
        self.scanChoice = ScanForm(scene, ui.targetSelector)
        self.preparation = PreparationPanel(ui.preparationArea.layout(), self.session)
        self.structurePanel = StructurePanel(ui)
        self.examplePanel = ExamplePanel(ui, self.boxes.examples)
        self.boxTable = BoxTable(ui.boxTable, self.boxes)
        self.coverageTable = CoverageTable(ui.coverageTable, CoverageLogic(store))
        self.outlinePanel = OutlinePanel(ui, self.outlines)
        self.atEnd(
            self.preparation.close,
            self.examplePanel.close,
            self.boxTable.close,
            self.outlinePanel.close,
        )
        for source in (self.boxes, self.examplePanel, self.boxTable):
            source.reported.connect(self.status.say)
        self.boxes.changed.connect(self._showState)
        self.viewButtons = ViewPanel(ui.windowArea.layout(), store, lambda: self._targets)
        self.viewButtons.laidOut.connect(self._onLaidOut)
        ui.gridButton.connect("clicked(bool)", lambda: self.viewButtons.layOut(ROWS))
        ui.axialButton.connect("clicked(bool)", lambda: self.viewButtons.layOut(AXIAL))
        self.structurePanel.changed.connect(lambda: self._onStructures(self.structurePanel))
        self.examplePanel.changed.connect(lambda: self._onStructures(self.examplePanel))
        self.outlinePanel.changed.connect(
            lambda: self._write("outlineExamples", self.outlinePanel.examples)
        )
        self.listen(self.session.ticked, self._onTick)
        self.listen(self.session.chosen, lambda _key: self._showState())

        self.addObserver(scene, scene.NodeAddedEvent, self._onNodes)
        self.addObserver(scene, scene.NodeRemovedEvent, self._onNodes)
        ui.targetSelector.connect("checkedNodesChanged()", self._onTargets)
        connectPath(ui.libraryFileEdit, lambda path: self._write("libraryFile", path.strip()))
        ui.findButton.connect("clicked(bool)", self.onFind)
        ui.removeBoxesButton.connect("clicked(bool)", lambda: self.boxes.removeBoxes(self._targets))
        ui.cropButton.connect("clicked(bool)", self.onCrop)
        ui.coverageSection.connect("contentsCollapsed(bool)", self._showCoverage)
        ui.structureTabs.connect("currentChanged(int)", self._fitTab)
        self._fitTab()
        self.followScene(scene, AnatomicalROILogic().getParameterNode)

    def cleanup(self):
        self.end()

    def enter(self):
        self.enterPanel()
        self.examplePanel.update()
        self._fitTab(self.ui.structureTabs.currentIndex)

    def exit(self):
        if self.isSetUp:
            self.ui.placeWidget.setPlaceModeEnabled(False)

    def onSceneStartClose(self, caller, event):
        super().onSceneStartClose(caller, event)
        self.scanChoice.clear()
        self._setTargets([])
        self.status.clear()

    # -- actions of the user

    def onFind(self):
        """Start to find boxes; if a search is running, stop the search."""
        if self.boxes.busy:
            self.boxes.cancel()
            return
        self.status.clear()
        node = self._parameterNode
        self.boxes.find(self._targets, self._ticked(), node.recall, node.replaceEdited)

    def onCrop(self):
        """Crop the scans. Show the first crop of each scan in the views of this scan.

        If no view shows any of these scans, all views show the first crop of the first scan.
        """
        self.status.clear()
        scene = slicer.mrmlScene
        node = self._parameterNode
        crops = cropAll(self.boxes, self._targets, self._ticked(), node.separately, node.marginMm)
        firstOf = {}  # scan -> its first crop
        for crop in crops:
            firstOf.setdefault(crop.GetNodeReference(SOURCE_ROLE), crop)
        inViews = [(source, crop) for source, crop in firstOf.items() if viewsOf(scene, source)]
        for source, crop in inViews or list(firstOf.items())[:1]:
            show(scene, crop, insteadOf=source)
        self._showState()

    def _onLaidOut(self, sentence):
        self.status.clear()
        self.status.say(sentence)

    def _onStructures(self, source):
        """Store the ticked structures after the user has changed the ticks in the panel `source`."""
        if self.takesInput:
            remaining = [
                name for name in self._parameterNode.structures if name not in source.names
            ]
            self._write("structures", [*remaining, *source.chosen])

    def _ticked(self):
        """Return the names of all structures that are ticked in the library or in the examples, each name once."""
        return list(dict.fromkeys([*self.structurePanel.chosen, *self.examplePanel.chosen]))

    def _onTargets(self):
        if self.takesInput:
            self.scanChoice.write(self._parameterNode)

    def _write(self, name, value):
        if self.takesInput:
            setattr(self._parameterNode, name, value)

    # -- following the scene

    def _onNodes(self, caller=None, event=None):
        if not self.scanChoice.isCurrent:
            self._onParameters()

    def showParameters(self, node):
        """Show the choices of the user, which the parameter node stores."""
        self._setTargets(self.scanChoice.show(node))
        if self.ui.libraryFileEdit.currentPath != node.libraryFile:
            self.ui.libraryFileEdit.currentPath = node.libraryFile
        self.boxes.libraryPath = node.libraryFile
        self.outlinePanel.setExamples(list(node.outlineExamples))
        self._showState()

    def _setTargets(self, volumes):
        self._targets = volumes
        for part in (self.preparation, self.boxTable, self.coverageTable, self.outlinePanel):
            part.setVolumes(volumes)

    def _onTick(self):
        """Continue all work, and follow the scene."""
        self.boxes.poll()
        self.outlinePanel.poll()
        if self.parent.isEntered:
            self._onNodes()  # checked regularly: a volume node may get its voxels after it was added
            self.viewButtons.poll()
        showProgress(self.ui.findProgressBar, self.boxes)
        self._showCoverage()

    # -- showing

    def _fitTab(self, current=0):
        """Fit the height of the tabs to page number `current`, so that the button Find boxes stays on the screen."""
        tabs = self.ui.structureTabs
        for number in range(tabs.count):
            height = qt.QSizePolicy.Preferred if number == current else qt.QSizePolicy.Ignored
            tabs.widget(number).setSizePolicy(qt.QSizePolicy.Preferred, height)
        least = tabs.widget(current).minimumSizeHint.height() + tabs.tabBar().sizeHint.height()
        manager = slicer.app.layoutManager()
        over = _SPARE if manager is None else manager.viewport().window().height - _SMALL_WINDOW
        tabs.setMaximumHeight(least + min(max(over, 0), _SPARE))
        tabs.updateGeometry()

    def _showState(self):
        """Show the ticked structures, and what the buttons do now; tool tips say what is missing."""
        self.structurePanel.setNames(self.boxes.libraryStructures())
        ui = self.ui
        node = self._parameterNode
        busy = self.boxes.busy
        if node is not None:
            structures = list(map(canonical_name, node.structures))
            self.structurePanel.setChosen(structures)
            self.examplePanel.setChosen(structures)
        scans = len(self._targets)
        missing = ""
        if node is None or not scans:
            missing = _("Load a CT, or tick the scans to search.")
        elif not self._ticked():
            missing = _("Tick at least one structure, in the library or among your examples.")
        ui.findButton.enabled = busy or not missing
        if busy:
            ui.findButton.text = _("Cancel")
            ui.findButton.toolTip = _("Stop the search. Boxes that are already found stay.")
        else:
            ui.findButton.text = _("Find boxes")
            ui.findButton.toolTip = missing or _(
                "Find boxes of the structures ticked above. The scans are prepared first."
            )
        text = _("Crop 1 scan") if scans == 1 else _("Crop {count} scans").format(count=scans)
        if node is not None and len(self._ticked()) > 1:
            text += _(" to each structure") if node.separately else _(" around all structures")
        ui.cropButton.text = text
        ui.cropButton.enabled = not missing
        ui.cropButton.toolTip = missing or _(
            "Crop the scans to the boxes in their current form. Each crop is a new volume with unchanged voxels."
        )
        self.viewButtons.update()
        ui.gridButton.enabled = ui.axialButton.enabled = bool(scans)
        ui.removeBoxesButton.enabled = bool(self.boxTable.structures) and not busy
        showProgress(self.ui.findProgressBar, self.boxes)
        self._showCoverage()

    def _showCoverage(self):
        if not self.ui.coverageSection.collapsed:
            self.coverageTable.update()


class AnatomicalROILogic(ScriptedLoadableModuleLogic):
    """Provides the parameter node. Scripts use `BoxLogic(scene, store)`, `crop` and `CoverageLogic(store)` instead."""

    def getParameterNode(self):
        return AnatomicalROIParameterNode(super().getParameterNode())


class AnatomicalROITest(SelfTest, ScriptedLoadableModuleTest):
    """Self-test in Slicer (Reload and Test); see `SelfTest`."""
