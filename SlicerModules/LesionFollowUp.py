"""Lesion Follow-up: lesions marked in a prior CT are found in the patient's other studies, in order of date."""

import slicer
import vtk
from slicer import vtkMRMLMarkupsFiducialNode, vtkMRMLScalarVolumeNode
from slicer.i18n import tr as _
from slicer.i18n import translate
from slicer.parameterNodeWrapper import parameterNodeWrapper
from slicer.ScriptedLoadableModule import (
    ScriptedLoadableModule,
    ScriptedLoadableModuleLogic,
    ScriptedLoadableModuleTest,
    ScriptedLoadableModuleWidget,
)
from slicer.util import VTKObservationMixin

from AnatomicalEmbeddingLib.FollowUp.LesionLists import LABEL_FORMAT, belongTo, holdsAnswers, listOf, priorOf
from AnatomicalEmbeddingLib.FollowUp.StudyOrder import Patient, patients
from AnatomicalEmbeddingLib.FollowUp.StudyTable import StudyTable, notesOn, studyEntries
from AnatomicalEmbeddingLib.Landmarks.LandmarkLogic import LandmarkLogic
from AnatomicalEmbeddingLib.Landmarks.MatchTable import MatchTable
from AnatomicalEmbeddingLib.Panels.ComboBoxes import fillComboBox
from AnatomicalEmbeddingLib.Panels.ParameterGui import connectGui
from AnatomicalEmbeddingLib.Panels.PreparationBar import PreparationBar
from AnatomicalEmbeddingLib.Panels.SampleScans import registerSampleData
from AnatomicalEmbeddingLib.Panels.Session import sharedSession
from AnatomicalEmbeddingLib.Panels.SetupPanel import SetupPanel
from AnatomicalEmbeddingLib.Panels.StatusText import WARNING, coloured
from AnatomicalEmbeddingLib.Views import offerGrid, showGrid

_TICKS_BETWEEN_LOOKS = 5  # at the subject hierarchy, which tells of changes in storms of events


class LesionFollowUp(ScriptedLoadableModule):
    def __init__(self, parent):
        ScriptedLoadableModule.__init__(self, parent)
        self.parent.title = _("Lesion Follow-up")
        self.parent.categories = [translate("qSlicerAbstractCoreModule", "Registration")]
        self.parent.dependencies = []
        self.parent.contributors = ["AnatomicalEmbedding developers"]
        self.parent.helpText = _(
            "Mark lesions in a prior CT: their places in the patient's other studies appear beside it, in the order of "
            "the studies' dates, with the error to expect. Patients and dates come from DICOM; dates can also be "
            "typed. Every place is a proposal that you check and correct. This version follows places: it does not "
            "measure lesions, classify them (new, gone, growing) or write reports such as RECIST. "
            'Research software, not a medical device. See the <a href="{url}">documentation</a>.'
        ).format(url="https://github.com/AnatomicalEmbedding/SlicerAnatomicalEmbedding")
        self.parent.acknowledgementText = _(
            "After APE (Goncharov et al., MICCAI 2024) and SAM (Yan et al., IEEE Transactions on Medical Imaging 2022)."
        )
        slicer.app.connect("startupCompleted()", registerSampleData)
        slicer.app.connect("startupCompleted()", lambda: offerGrid(slicer.mrmlScene))


@parameterNodeWrapper
class LesionFollowUpParameterNode:
    """prior: the study that lesions are marked in. current: the study shown beside it. lesions: their list."""

    prior: vtkMRMLScalarVolumeNode
    current: vtkMRMLScalarVolumeNode
    lesions: vtkMRMLMarkupsFiducialNode


class LesionFollowUpWidget(ScriptedLoadableModuleWidget, VTKObservationMixin):
    def __init__(self, parent=None):
        ScriptedLoadableModuleWidget.__init__(self, parent)
        VTKObservationMixin.__init__(self)
        self.logic = None
        self.patients: list[Patient] = []
        self._parameterNode = self._parameterNodeGuiTag = None
        self._reading = False
        self._ticks = 0
        self._seen = None

    def setup(self):
        ScriptedLoadableModuleWidget.setup(self)
        self.session = sharedSession()
        self.session.attach(self)
        uiWidget = slicer.util.loadUI(self.resourcePath("UI/LesionFollowUp.ui"))
        self.setupPanel = SetupPanel(self.layout, self.session)
        self.layout.addWidget(uiWidget)
        self.ui = ui = slicer.util.childWidgetVariables(uiWidget)
        uiWidget.setMRMLScene(slicer.mrmlScene)

        scene = slicer.mrmlScene
        self.logic = LesionFollowUpLogic().landmarks(scene, self.session.store)
        self.studyTable = StudyTable(ui.studyArea.layout(), self.session)
        self.preparation = PreparationBar(ui.preparationArea.layout(), self.session)
        self.matchTable = MatchTable(ui.matchArea.layout(), self.logic, _("Lesion"), self._studyName)
        self.studyTable.changed.connect(self._onParameters)
        self.studyTable.said.connect(self.say)
        self.logic.said.connect(self.say)
        self.logic.changed.connect(self._showButtons)
        self.session.ticked.connect(self._onTick)

        self.addObserver(scene, scene.StartCloseEvent, self.onSceneStartClose)
        self.addObserver(scene, scene.EndCloseEvent, self.onSceneEndClose)
        self.addObserver(scene, scene.EndBatchProcessEvent, self._onParameters)
        ui.patientSelector.connect("activated(int)", self._onPatient)
        ui.priorSelector.connect("activated(int)", self._onPrior)
        ui.currentSelector.connect("activated(int)", self._onCurrent)
        ui.lesionsSelector.connect("nodeAddedByUser(vtkMRMLNode*)", self._onListAdded)
        ui.showButton.connect("clicked(bool)", self.onShow)
        ui.undoButton.connect("clicked(bool)", lambda: self.logic.undo())
        ui.redoButton.connect("clicked(bool)", lambda: self.logic.redo())
        self.initializeParameterNode()

    def _studyName(self, volumeNode) -> str:
        """A study's date, or its name where it has none."""
        studies = [study for patient in patients(slicer.mrmlScene) for study in patient.studies]
        text = next((study.dateText for study in studies if study.volume is volumeNode), "")
        return text or volumeNode.GetName()

    def cleanup(self):
        self.setParameterNode(None)
        self.removeObservers()
        self.session.ticked.disconnect(self._onTick)
        self.matchTable.close()
        self.preparation.close()
        self.studyTable.close()
        self.setupPanel.close()
        self.logic.close()
        self.session.detach(self)

    def enter(self):
        self.setupPanel.refresh()
        self.initializeParameterNode()

    def exit(self):
        self.ui.placeWidget.setPlaceModeEnabled(False)

    def onSceneStartClose(self, caller, event):
        self.setParameterNode(None)
        self.say("")

    def onSceneEndClose(self, caller, event):
        if self.parent.isEntered:
            self.initializeParameterNode()

    def initializeParameterNode(self):
        """Take up what the scene holds."""
        self.setParameterNode(LesionFollowUpLogic().getParameterNode())

    def setParameterNode(self, parameterNode):
        """Bind the panel to a parameter node, or to none."""
        if self._parameterNode is not None:
            self._parameterNode.disconnectGui(self._parameterNodeGuiTag)
            self.removeObserver(self._parameterNode, vtk.vtkCommand.ModifiedEvent, self._onParameters)
        self._parameterNode = parameterNode
        if parameterNode is None:
            self._showStudies([], None)
            return
        self._parameterNodeGuiTag = connectGui(parameterNode, self.ui)
        self.addObserver(parameterNode, vtk.vtkCommand.ModifiedEvent, self._onParameters)
        self._onParameters()

    def say(self, sentence):
        """Show a sentence below the table."""
        self.ui.statusLabel.text = sentence

    def onShow(self):
        """Prior and current study, a row of views each."""
        if not showGrid(slicer.mrmlScene, [self._parameterNode.prior, self._parameterNode.current]):
            self.say(_("There are no views to lay out."))
            return
        slicer.util.resetSliceViews()
        self.logic.showInOwnViews()

    # -- what the user chooses ---------------------------------------------------------------------------------------

    def _onPatient(self, index):
        patient = self.patients[index]
        self._choose(patient.volumes[0], None)

    def _onPrior(self, index):
        self._choose(self._patient().volumes[index], self._parameterNode.current)

    def _onCurrent(self, index):
        self._parameterNode.current = slicer.mrmlScene.GetNodeByID(self.ui.currentSelector.itemData(index))

    def _choose(self, prior, current):
        """Another prior, with the lesions that were marked in it."""
        self._reading = True
        try:
            self._parameterNode.prior, self._parameterNode.current = prior, current
            self._parameterNode.lesions = listOf(slicer.mrmlScene, prior)
        finally:
            self._reading = False
        self.say("")
        self._onParameters()

    def _onListAdded(self, node):
        node.CreateDefaultDisplayNodes()
        node.SetControlPointLabelFormat(LABEL_FORMAT)

    # -- what follows from it ----------------------------------------------------------------------------------------

    def _onTick(self):
        self.logic.poll()
        self._ticks += 1
        if self._ticks % _TICKS_BETWEEN_LOOKS == 0 and self._parameterNode is not None and self.parent.isEntered:
            found = patients(slicer.mrmlScene)
            if self._seen != _described(found):
                self._onParameters()

    def _onParameters(self, caller=None, event=None):
        """The parameter node, or a study, has changed: bring logic and panel in line with it."""
        if self._parameterNode is None or self._reading or slicer.mrmlScene.IsBatchProcessing():
            return  # of a scene that is being loaded, volumes may not be there yet
        self._reading = True
        try:
            found = patients(slicer.mrmlScene)
            self._settleLesions()
            self._settleStudies(found)
            self._showStudies(found, self._patient(found))
        finally:
            self._reading = False

    def _settleLesions(self):
        """A list of lesions goes with the prior that they were marked in."""
        node = self._parameterNode
        if node.lesions is None:
            return
        if holdsAnswers(node.lesions):
            self.say(
                _("{name}: holds answers; choose the list of the lesions in the prior.").format(
                    name=node.lesions.GetName()
                )
            )
            node.lesions = None
            return
        prior = priorOf(node.lesions)
        if prior is not None and prior is not node.prior and node.lesions.GetNumberOfControlPoints():
            node.prior = prior
            self.say(
                _("{list}: was marked in {scan}, which is the prior now.").format(
                    list=node.lesions.GetName(), scan=prior.GetName()
                )
            )

    def _settleStudies(self, found):
        """Choose the patient's first and last study where nothing is chosen, or what was chosen is gone."""
        node, patient = self._parameterNode, self._patient(found)
        if patient is None:
            patient = next((each for each in found if len(each.studies) > 1), found[0] if found else None)
            node.prior = patient.volumes[0] if patient is not None else None
            node.lesions = listOf(slicer.mrmlScene, node.prior) if node.prior is not None else None
        others = patient.after(node.prior) if patient is not None else []
        if node.current not in [study.volume for study in others]:
            dated = [study for study in others if study.date is not None]
            node.current = (dated or others)[-1].volume if others else None
        if node.lesions is not None and node.prior is not None:
            belongTo(node.lesions, node.prior)

    def _patient(self, found=None):
        """The patient of the prior, or None."""
        found = self.patients if found is None else found
        return next((each for each in found if self._parameterNode.prior in each.volumes), None)

    def _showStudies(self, found, patient):
        node = self._parameterNode
        prior, current, lesions = (None,) * 3 if patient is None else (node.prior, node.current, node.lesions)
        self.patients, self._seen = found, _described(found)
        others = patient.after(prior) if patient is not None else []
        self.logic.setScans(prior, [study.volume for study in others])
        self.logic.setPoints(lesions)
        self.studyTable.show(patient, prior, current)
        self.preparation.setVolumes(patient.volumes if patient is not None else [])
        names = [(each.key, each.name or _("(no patient in the subject hierarchy)")) for each in found]
        fillComboBox(self.ui.patientSelector, names, patient.key if patient is not None else None)
        fillComboBox(self.ui.priorSelector, studyEntries(patient.studies if patient is not None else []), _idOf(prior))
        fillComboBox(self.ui.currentSelector, studyEntries(others), _idOf(current))
        notes = notesOn(patient)
        self.ui.noteLabel.text = coloured("\n".join(notes), WARNING).replace("\n", "<br>")
        self.ui.noteLabel.visible = bool(notes)
        self._showButtons()

    def _showButtons(self):
        """What can be done now; a tool tip tells what is missing where it cannot."""
        ui, logic, node = self.ui, self.logic, self._parameterNode
        pair = node is not None and node.prior is not None and node.current is not None
        ui.showButton.enabled = pair
        ui.showButton.toolTip = (
            _("A row of views for the prior and one for the current study.")
            if pair
            else _("Load two studies of a patient first.")
        )
        ui.placeWidget.setEnabled(logic.template is not None and logic.points is not None)
        ui.placeWidget.setToolTip(
            _("Mark lesions in the prior.") if logic.points is not None else _("Choose or create a list first.")
        )
        ui.undoButton.enabled, ui.redoButton.enabled = logic.history.canUndo, logic.history.canRedo


class LesionFollowUpLogic(ScriptedLoadableModuleLogic):
    """Use from Python: `patients(slicer.mrmlScene)` of AnatomicalEmbeddingLib.FollowUp.StudyOrder tells the studies in
    their order; `LesionFollowUpLogic().landmarks(slicer.mrmlScene, MapStore(slicer.mrmlScene))` pairs lesions with
    answers.
    """

    def getParameterNode(self):
        return LesionFollowUpParameterNode(super().getParameterNode())

    def landmarks(self, scene, store):
        """The logic that pairs lesions with their places in other studies; needs no panel."""
        return LandmarkLogic(scene, store)


def _described(found):
    """What the panel shows of the patients, to tell whether it has changed."""
    return [(each, [volume.GetName() for volume in each.volumes]) for each in found]


def _idOf(volumeNode):
    return None if volumeNode is None else volumeNode.GetID()


class LesionFollowUpTest(ScriptedLoadableModuleTest):
    """Runs in Slicer (Reload and Test); needs the packages of the set-up, and no data."""

    def setUp(self):
        slicer.mrmlScene.Clear()

    def runTest(self):
        self.setUp()
        self.test_PlaceOfOneStudyInAnotherOfTheSamePatient()

    def test_PlaceOfOneStudyInAnotherOfTheSamePatient(self):
        import time

        import numpy as np

        from AnatomicalEmbedding.phantom import make_phantom
        from AnatomicalEmbeddingLib.FollowUp.StudyOrder import setDate
        from AnatomicalEmbeddingLib.Maps.Engine import Choice, Engine
        from AnatomicalEmbeddingLib.Maps.MapStore import MapStore

        scans = [make_phantom(71, (4.0, 4.0, 4.0), (150.0, 480.0)), make_phantom(71, (3.0, 3.0, 5.0), (200.0, 480.0))]
        for scan, day in zip(scans, ("2024-06-01", "2023-06-01"), strict=True):
            volume = slicer.util.addVolumeFromArray(scan.volume.voxels, scan.volume.ijk_to_ras, name=day)
            setDate(volume, day)
        (patient,) = patients(slicer.mrmlScene)
        prior, current = patient.volumes
        self.assertEqual(prior.GetName(), "2023-06-01")
        store = MapStore(slicer.mrmlScene, Engine(Choice(device="cpu", cacheFolder=None)))
        landmarks = LesionFollowUpLogic().landmarks(slicer.mrmlScene, store)
        try:
            landmarks.setScans(prior, [current])
            landmarks.prepare()
            while store.busy:
                store.poll()
                time.sleep(0.05)
            lesions = slicer.mrmlScene.AddNewNodeByClass("vtkMRMLMarkupsFiducialNode", "Lesions")
            landmarks.setPoints(lesions)
            place = scans[1].points_ras["carina"]
            lesions.AddControlPointWorld(vtk.vtkVector3d(*place), "L1")
            answers = landmarks.answersIn(current)
            found = answers.worldOf(next(iter(answers.answers.values())))
            self.assertLess(np.linalg.norm(found - place), 10.0)
        finally:
            landmarks.close()
            store.close()
