"""Module Anatomical Landmarks: the user clicks a point in one CT and gets the same point in all other CTs."""

import qt
import slicer
from slicer import vtkMRMLMarkupsNode, vtkMRMLScalarVolumeNode
from slicer.i18n import tr as _
from slicer.i18n import translate
from slicer.parameterNodeWrapper import parameterNodeWrapper
from slicer.ScriptedLoadableModule import (
    ScriptedLoadableModule,
    ScriptedLoadableModuleLogic,
    ScriptedLoadableModuleTest,
    ScriptedLoadableModuleWidget,
)

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.resources import resource
from AnatomicalEmbeddingLib.alignment.AlignmentLogic import AlignmentLogic
from AnatomicalEmbeddingLib.alignment.AlignPanel import AlignPanel
from AnatomicalEmbeddingLib.cohort.CohortHits import CohortHits
from AnatomicalEmbeddingLib.cohort.CohortPanel import CohortPanel
from AnatomicalEmbeddingLib.landmarks.AnatomicalCrosshair import AnatomicalCrosshair
from AnatomicalEmbeddingLib.landmarks.AnswerList import isAnswers
from AnatomicalEmbeddingLib.landmarks.LandmarkLogic import LandmarkLogic
from AnatomicalEmbeddingLib.landmarks.MatchTable import MatchTable
from AnatomicalEmbeddingLib.landmarks.PointReports import writeReports
from AnatomicalEmbeddingLib.landmarks.ResultsTable import writeResults
from AnatomicalEmbeddingLib.landmarks.SetScans import openSet, saveSet
from AnatomicalEmbeddingLib.shared.DicomFiles import whyNoReports
from AnatomicalEmbeddingLib.shared.panels import ModuleSettings
from AnatomicalEmbeddingLib.shared.panels.EnginePanel import EnginePanel
from AnatomicalEmbeddingLib.shared.panels.PackageSetup import (
    InstallError,
    install,
    missingForReport,
)
from AnatomicalEmbeddingLib.shared.panels.PatientForm import PatientForm
from AnatomicalEmbeddingLib.shared.panels.PreparationPanel import PreparationPanel
from AnatomicalEmbeddingLib.shared.panels.ScanForm import ScanForm
from AnatomicalEmbeddingLib.shared.panels.SelfTests import SelfTest
from AnatomicalEmbeddingLib.shared.panels.ViewPanel import (
    ViewPanel,
    offerLayouts,
    writeInViews,
    writeLevels,
)
from AnatomicalEmbeddingLib.shared.SampleScans import registerSampleData
from AnatomicalEmbeddingLib.shared.SideBySide import AXIAL, ROWS
from AnatomicalEmbeddingLib.shared.VolumeNodes import films, scans
from AnatomicalEmbeddingLib.words.FindPanel import FindPanel
from AnatomicalEmbeddingLib.words.WordSearch import WordSearch

_SET_FILE = "landmarkSet"  # key of the setting: path of the last landmark set
_REPORT_FOLDER = "landmarkReports"  # key of the setting: folder of the last DICOM reports


class AnatomicalLandmarks(ScriptedLoadableModule):
    def __init__(self, parent):
        ScriptedLoadableModule.__init__(self, parent)
        self.parent.title = _("Anatomical Landmarks")
        self.parent.categories = [translate("qSlicerAbstractCoreModule", "Registration")]
        self.parent.dependencies = ["Markups"]
        self.parent.contributors = ["AnatomicalEmbedding developers"]
        self.parent.helpText = _(
            "Click a point in one CT. The same anatomical point then appears in all other CTs, with its expected "
            "error. Chest films are matched in the same way. If a scan does not show the point, the module reports "
            "this. Needs Slicer 5.12 or newer. Research "
            'software, not a medical device. See the <a href="{url}">documentation</a>.'
        ).format(url="https://github.com/AnatomicalEmbedding/SlicerAnatomicalEmbedding")
        self.parent.acknowledgementText = _(
            "The method follows APE (Goncharov et al., MICCAI 2024) and SAM (Yan et al., IEEE TMI 2022)."
        )
        slicer.app.connect("startupCompleted()", registerSampleData)
        slicer.app.connect("startupCompleted()", offerLayouts)


@parameterNodeWrapper
class AnatomicalLandmarksParameterNode:
    """The choices of the user.

    template: scan in which the user places points. allTargets: True to find the points in all other scans. targets:
    the scans in which points are found if allTargets is False. points: the template's point list, line, angle, curve,
    plane or box. jump: True to move all views to each placed point. alignFixed: the scan that stays in place; None for
    the template. alignMoving: the scan that is moved; None for the first scan that is not the fixed scan.
    alignKind: kind of transform, such as "rigid". alignResample: True to also create a resampled copy of the moving
    scan. alignColours: True to show the two scans in two colours.
    """

    template: vtkMRMLScalarVolumeNode
    targets: list[vtkMRMLScalarVolumeNode]
    allTargets: bool = True
    points: vtkMRMLMarkupsNode
    jump: bool = True
    alignFixed: vtkMRMLScalarVolumeNode
    alignMoving: vtkMRMLScalarVolumeNode
    alignKind: str = "deformable"
    alignResample: bool = False
    alignColours: bool = True


class AnatomicalLandmarksWidget(ScriptedLoadableModuleWidget, EnginePanel):
    def __init__(self, parent=None):
        ScriptedLoadableModuleWidget.__init__(self, parent)
        EnginePanel.__init__(self)
        self.logic = self.crosshair = self.alignment = self.words = self.hits = None

    def setup(self):
        ScriptedLoadableModuleWidget.setup(self)
        uiWidget = self.openPanel(self.resourcePath("UI/AnatomicalLandmarks.ui"))
        ui = self.ui
        scene = slicer.mrmlScene
        store = self.session.store
        self.logic = self.closing(LandmarkLogic(scene, self.session.relations))
        self.crosshair = self.closing(AnatomicalCrosshair(scene, self.session.relations))
        self.words = self.closing(WordSearch(scene, store))
        self.findPanel = self.closing(FindPanel(ui, self.words, self.session))
        self.hits = self.closing(CohortHits(scene))
        self.cohortPanel = self.closing(CohortPanel(ui, self.hits, self.session))
        self.scanChoice = ScanForm(scene, ui.targetSelector, films=True)
        self._targets = []
        self.preparation = self.closing(PreparationPanel(ui.preparationArea.layout(), self.session))
        self.patientForm = self.closing(PatientForm(ui.patientCheckBox, self.session, self._scans))
        self.matchTable = self.closing(MatchTable(ui.matchTable, self.logic))
        ui.statusLabel.visible = ui.nameLabel.visible = False
        self.alignment = self.closing(AlignmentLogic(scene, store))
        self.alignPanel = self.closing(AlignPanel(ui, self.alignment, self.session))
        self.alignPanel.kindChosen.connect(self._onAlignKind)
        self.viewButtons = ViewPanel(ui.windowArea.layout(), store, self._scans, self.logic.placeIn)
        self.viewButtons.laidOut.connect(self._onLaidOut)
        self.hits.layOut = self.viewButtons.layOutWith
        self.logic.reported.connect(self.say)
        self.logic.shown.connect(lambda pointId: writeInViews(scene, self.logic.absences(pointId)))
        self.logic.changed.connect(self._showButtons)
        self.words.changed.connect(lambda: writeInViews(scene, self.words.absences()))
        self.words.named.connect(lambda: setattr(ui.nameLabel, "text", self.words.name))
        self.crosshair.moved.connect(self.words.nameAt)
        self.listen(self.session.ticked, self._onTick)

        self.addObserver(scene, scene.NodeAddedEvent, self._onNodes)
        self.addObserver(scene, scene.NodeRemovedEvent, self._onNodes)
        ui.targetSelector.connect("checkedNodesChanged()", self._onTargetsChecked)
        # connected here, because the connection by name would offer every kind of markup
        ui.pointsSelector.connect("currentNodeChanged(vtkMRMLNode*)", self._onPointsChosen)
        ui.pointsSelector.connect(
            "nodeAddedByUser(vtkMRMLNode*)", lambda node: node.CreateDefaultDisplayNodes()
        )
        ui.gridButton.connect("clicked(bool)", lambda: self.viewButtons.layOut(ROWS))
        ui.axialButton.connect("clicked(bool)", lambda: self.viewButtons.layOut(AXIAL))
        ui.crosshairCheckBox.connect("toggled(bool)", self._onCrosshair)
        ui.undoButton.connect("clicked(bool)", lambda: self.logic.undo())
        ui.redoButton.connect("clicked(bool)", lambda: self.logic.redo())
        ui.againButton.connect("clicked(bool)", lambda: self.logic.matchAgain())
        ui.exportButton.connect("clicked(bool)", self.onExport)
        ui.reportsButton.connect("clicked(bool)", self.onSaveReports)
        shipped = str(resource("Landmarks/trunk.landmarks.json"))
        ui.setFileEdit.currentPath = ModuleSettings.value(_SET_FILE, "") or shipped
        ui.openSetButton.connect("clicked(bool)", self.onOpenSet)
        ui.saveSetButton.connect("clicked(bool)", self.onSaveSet)
        keys = {
            "Ctrl+Shift+X": ui.crosshairCheckBox.click,  # `toggle` would also change a disabled box
            "Ctrl+Z": ui.undoButton.click,
            "Ctrl+Y": ui.redoButton.click,
            "N": lambda: self.logic.step(1),
            "P": lambda: self.logic.step(-1),
            "Y": self.matchTable.confirm,
            "X": self.matchTable.reject,
        }
        for key, slot in keys.items():
            # Qt ignores the key while the panel is hidden
            shortcut = qt.QShortcut(qt.QKeySequence(key), uiWidget)
            shortcut.setContext(qt.Qt.ApplicationShortcut)
            shortcut.connect("activated()", slot)
        self.followScene(scene, AnatomicalLandmarksLogic().getParameterNode)

    def cleanup(self):
        self.end()

    def enter(self):
        self.enterPanel()

    def exit(self):
        if not self.isSetUp:
            return
        self.ui.crosshairCheckBox.checked = False
        self.ui.placeWidget.setPlaceModeEnabled(False)
        self.words.clear()
        writeLevels(slicer.mrmlScene, None)

    def onSceneStartClose(self, caller, event):
        self.ui.crosshairCheckBox.checked = False
        super().onSceneStartClose(caller, event)
        self.scanChoice.clear()
        self._targets = []
        self.alignPanel.clear()
        self.findPanel.clear()
        self.say("")

    def initializeParameterNode(self):
        super().initializeParameterNode()
        self._chooseTemplate()

    def _chooseTemplate(self):
        if self._parameterNode.template is None:
            volumes = scans(slicer.mrmlScene) or films(slicer.mrmlScene)
            if volumes:
                self._parameterNode.template = volumes[0]

    def _scans(self):
        return [node for node in [self.logic.template, *self.logic.targets] if node is not None]

    def _onLaidOut(self, sentence):
        self.logic.showInOwnViews()
        self.say(sentence)

    def onExport(self):
        node = writeResults(slicer.mrmlScene, self.logic)
        self.say(
            _(
                'The matches are in the table "{name}". Save it with the module Tables or Data.'
            ).format(name=node.GetName())
        )

    def onSaveReports(self):
        folder = qt.QFileDialog.getExistingDirectory(
            self.ui.reportsButton,
            _("Folder for the DICOM reports"),
            ModuleSettings.value(_REPORT_FOLDER, ""),
        )
        if not folder:
            return
        ModuleSettings.setValue(_REPORT_FOLDER, folder)
        missing = missingForReport("sr")
        try:
            if missing:
                install(missing)
            with slicer.util.WaitCursor():
                self.say(writeReports(self.logic, folder))
        except (AnatomicalEmbeddingError, InstallError) as error:
            self.say(str(error))

    def onOpenSet(self):
        try:
            nodes, sentence = openSet(
                slicer.mrmlScene, self.session.store, self._setFile(), self.logic.template
            )
        except AnatomicalEmbeddingError as error:
            self.say(str(error))
            return
        for node in reversed(nodes):  # each is found in the other scans; the first stays chosen
            self._parameterNode.points = node
        self.say(sentence)

    def onSaveSet(self):
        logic = self.logic
        try:
            sentence = saveSet(
                slicer.mrmlScene, logic.store, self._setFile(), logic.template, logic.points
            )
        except AnatomicalEmbeddingError as error:
            sentence = str(error)
        self.say(sentence)

    def _setFile(self):
        path = self.ui.setFileEdit.currentPath
        ModuleSettings.setValue(_SET_FILE, path)
        return path

    def _onNodes(self, caller=None, event=None):
        # the logic removes a target whose list of answers was deleted; then its targets differ from `_targets`
        if not self.scanChoice.isCurrent or self.logic.targets != self._targets:
            if not self._scans() and self.takesInput and not slicer.mrmlScene.IsBatchProcessing():
                self._chooseTemplate()  # until now, no scan was in use
            self._onParameters()

    def _onTick(self):
        self.logic.poll()
        self.crosshair.poll()
        self.words.poll()
        self.hits.poll()
        if self.parent.isEntered:
            self._onNodes()  # checked regularly: a volume node may get its voxels after it was added
            self.viewButtons.poll()
            writeLevels(slicer.mrmlScene, self.session.store)

    def _onCrosshair(self, on):
        if on:
            self.logic.prepare()
        self.crosshair.setEnabled(on)
        self.ui.nameLabel.text = ""
        self.ui.nameLabel.visible = on

    def _onTargetsChecked(self):
        if self.takesInput:
            self.scanChoice.write(self._parameterNode)

    def _onPointsChosen(self, node):
        if self.takesInput:
            self._parameterNode.points = node

    def _onAlignKind(self, kind):
        if self.takesInput:
            self._parameterNode.alignKind = kind

    def showParameters(self, node):
        logic = self.logic
        template = _ifHere(node.template)
        points = _ifHere(node.points)
        if points is not logic.points:
            self.say("")  # removes messages about the previous point list
            writeInViews(slicer.mrmlScene, {})
        if points is not None and isAnswers(points):
            text = _("{name}: contains answers; choose or create other points for the template.")
            self.say(text.format(name=points.GetName()))
            node.points = points = None
        self.ui.pointsSelector.setCurrentNode(points)
        # placing goes on in a list of points alone: after a line or a box, Slicer would begin another that nobody lists
        goesOn = points is not None and points.IsA("vtkMRMLMarkupsFiducialNode")
        kinds = slicer.qSlicerMarkupsPlaceWidget
        self.ui.placeWidget.placeMultipleMarkups = (
            kinds.ForcePlaceMultipleMarkups if goesOn else kinds.ForcePlaceSingleMarkup
        )
        logic.jumps = node.jump
        self._targets = self.scanChoice.show(node, without=template)
        logic.setScans(template, self._targets)
        logic.setPoints(points if template is not None else None)
        self.crosshair.volumes = self._scans()
        self.words.volumes = self._scans()
        self.preparation.setVolumes(self.crosshair.volumes)
        self.patientForm.update()
        self.findPanel.update()
        self.alignPanel.show(node.alignKind, template, logic.targets)
        self._showButtons()

    def _showButtons(self):
        ui = self.ui
        logic = self.logic
        isReady = logic.template is not None and bool(logic.targets)
        hasPoints = logic.points is not None and logic.points.GetNumberOfControlPoints() > 0
        ui.placeWidget.setEnabled(logic.template is not None and logic.points is not None)
        self.viewButtons.update()
        ui.gridButton.enabled = ui.axialButton.enabled = ui.crosshairCheckBox.enabled = isReady
        ui.againButton.enabled = ui.exportButton.enabled = isReady and hasPoints
        why = whyNoReports(self._scans()) if hasPoints else _("Place a point first.")
        ui.reportsButton.enabled = not why
        ui.reportsButton.toolTip = why or _(
            "Write the points, with their expected errors, and the length, angle or area, as DICOM structured reports "
            "(TID 1500): one for each scan that was loaded from DICOM. Existing files with the same names are replaced."
        )
        ui.openSetButton.enabled = logic.template is not None
        ui.saveSetButton.enabled = logic.template is not None and hasPoints
        ui.undoButton.enabled = logic.history.canUndo
        ui.redoButton.enabled = logic.history.canRedo


def _ifHere(node):
    """Return `node` if the scene contains it, otherwise None, because a parameter node may refer to a removed node."""
    return node if node is not None and node.GetScene() is slicer.mrmlScene else None


class AnatomicalLandmarksLogic(ScriptedLoadableModuleLogic):
    """Provides the parameter node. Scripts use `LandmarkLogic(scene, SceneRelations(scene, MapStore(scene)))`."""

    def getParameterNode(self):
        return AnatomicalLandmarksParameterNode(super().getParameterNode())


class AnatomicalLandmarksTest(SelfTest, ScriptedLoadableModuleTest):
    """Self-test in Slicer (Reload and Test); see `SelfTest`."""
