"""Module Lesion Follow-up: proposes the places of lesions in all CTs of a patient, for the user to confirm."""

import slicer
from slicer import vtkMRMLScalarVolumeNode
from slicer.i18n import tr as _
from slicer.i18n import translate
from slicer.parameterNodeWrapper import parameterNodeWrapper
from slicer.ScriptedLoadableModule import (
    ScriptedLoadableModule,
    ScriptedLoadableModuleLogic,
    ScriptedLoadableModuleTest,
    ScriptedLoadableModuleWidget,
)

from AnatomicalEmbeddingLib.followup.FilesPanel import ExportPanel, ImportPanel
from AnatomicalEmbeddingLib.followup.FollowUpLogic import FollowUpLogic
from AnatomicalEmbeddingLib.followup.LesionActions import LesionActions, nextStep
from AnatomicalEmbeddingLib.followup.LesionActionsPanel import LesionActionsPanel
from AnatomicalEmbeddingLib.followup.LesionForm import LesionForm
from AnatomicalEmbeddingLib.followup.LesionTable import LesionTable
from AnatomicalEmbeddingLib.followup.PairingPanel import PairingPanel
from AnatomicalEmbeddingLib.followup.ResponsePanel import ResponsePanel
from AnatomicalEmbeddingLib.followup.StudyOrder import patients
from AnatomicalEmbeddingLib.followup.StudyPanel import StudyPanel
from AnatomicalEmbeddingLib.shared.panels.EnginePanel import EnginePanel
from AnatomicalEmbeddingLib.shared.panels.PatientForm import PatientForm
from AnatomicalEmbeddingLib.shared.panels.PreparationPanel import PreparationPanel
from AnatomicalEmbeddingLib.shared.panels.SelfTests import SelfTest
from AnatomicalEmbeddingLib.shared.panels.ViewPanel import ViewPanel, offerLayouts
from AnatomicalEmbeddingLib.shared.panels.Widgets import letShrink, showText
from AnatomicalEmbeddingLib.shared.SampleScans import registerSampleData
from AnatomicalEmbeddingLib.shared.SideBySide import ROWS
from AnatomicalEmbeddingLib.shared.Views import showInstead
from AnatomicalEmbeddingLib.shared.VolumeNodes import scans

_CHECK_TICKS = 5  # ticks between two searches for changed studies in the scene; a search at each event would be slow


class LesionFollowUp(ScriptedLoadableModule):
    def __init__(self, parent):
        ScriptedLoadableModule.__init__(self, parent)
        self.parent.title = _("Lesion Follow-up")
        self.parent.categories = [translate("qSlicerAbstractCoreModule", "Registration")]
        self.parent.dependencies = ["Markups"]
        self.parent.contributors = ["AnatomicalEmbedding developers"]
        self.parent.helpText = _(
            "Mark a lesion in one CT of a patient. The module proposes its places in all other studies, earlier and "
            "later, with an expected error. You confirm, move or reject each proposal. The sums and the response of "
            "RECIST 1.1 are computed only from sizes that you have confirmed. Patients and dates are read from DICOM; "
            "you can also enter dates. The button Pair lesions joins lesions that were marked separately in two "
            "studies. The button Import reads point lists and records of earlier sessions. "
            "Needs Slicer 5.12 or newer. "
            'Research software, not a medical device. See the <a href="{url}">documentation</a>.'
        ).format(url="https://github.com/AnatomicalEmbedding/SlicerAnatomicalEmbedding")
        self.parent.acknowledgementText = _(
            "The method follows APE (Goncharov et al., MICCAI 2024) and SAM (Yan et al., IEEE Transactions on Medical "
            "Imaging 2022). RECIST 1.1: Eisenhauer et al., European Journal of Cancer 2009."
        )
        slicer.app.connect("startupCompleted()", registerSampleData)
        slicer.app.connect("startupCompleted()", offerLayouts)


@parameterNodeWrapper
class LesionFollowUpParameterNode:
    """The parameters of the module. prior, current: volumes of the two studies to compare."""

    prior: vtkMRMLScalarVolumeNode
    current: vtkMRMLScalarVolumeNode


class LesionFollowUpWidget(ScriptedLoadableModuleWidget, EnginePanel):
    def __init__(self, parent=None):
        ScriptedLoadableModuleWidget.__init__(self, parent)
        EnginePanel.__init__(self)
        self._ticks = 0
        self._shownPatients = None
        # the default (prior, current) that the module chose last; None before
        self._defaultPair = None

    def setup(self):
        ScriptedLoadableModuleWidget.setup(self)
        uiWidget = self.openPanel(self.resourcePath("UI/LesionFollowUp.ui"))
        ui = self.ui
        self.logic = logic = self.closing(FollowUpLogic(slicer.mrmlScene, self.session.relations))
        self.choice = self.closing(LesionActions(logic))
        self.studies = StudyPanel(ui, slicer.mrmlScene, self.say)
        self.patientForm = self.closing(
            PatientForm(ui.patientCheckBox, self.session, lambda: scans(slicer.mrmlScene))
        )
        self.preparation = self.closing(PreparationPanel(ui.preparationArea.layout(), self.session))
        self.lesionTable = self.closing(LesionTable(ui.lesionTable, self.choice))
        self.actions = self.closing(
            LesionActionsPanel(ui, self.choice, slicer.util.mainWindow() or uiWidget, self.say)
        )
        self.pairing = self.closing(PairingPanel(ui, logic, self.say))
        self.importing = self.closing(ImportPanel(ui, self.choice, self.say))
        self.form = self.closing(LesionForm(ui, self.choice))
        self.response = self.closing(ResponsePanel(ui, self.choice))
        self.export = self.closing(ExportPanel(ui, logic))

        self.viewButtons = ViewPanel(ui.windowArea.layout(), self.session.store, self._pair)
        self.viewButtons.laidOut.connect(self._onLaidOut)

        letShrink(uiWidget)
        self.say("")
        logic.reported.connect(self.say)
        logic.changed.connect(self._showNextStep)
        logic.placing.changed.connect(self._showNextStep)
        logic.proposed.connect(self._onProposed)
        self.choice.changed.connect(self._onChoice)
        self.listen(self.session.ticked, self._onTick)
        self.studies.chosen.connect(self._choose)
        self.studies.dated.connect(self._onParameters)
        ui.showButton.connect("clicked(bool)", lambda: self.viewButtons.layOut(ROWS))
        self.followScene(slicer.mrmlScene, LesionFollowUpLogic().getParameterNode)
        # after Reload, Slicer does not call `enter`
        self.actions.setKeysEnabled(self.parent.isEntered)

    def cleanup(self):
        self.end()

    def enter(self):
        self.enterPanel()
        self.actions.setKeysEnabled(True)

    def exit(self):
        if not self.isSetUp:
            return
        self.logic.placing.stop()
        self.actions.setKeysEnabled(False)

    def onSceneStartClose(self, caller, event):
        super().onSceneStartClose(caller, event)
        self._defaultPair = None
        self.say("")

    def setParameterNode(self, parameterNode):
        super().setParameterNode(parameterNode)
        if parameterNode is None and self.isSetUp:
            self._showStudies([], None)

    def _onLaidOut(self, sentence):
        self.logic.mirror.restrict()
        self.say(sentence)
        self._jump()

    def _pair(self):
        """Return [prior volume, current volume]; [] unless both are chosen."""
        node = self._parameterNode
        pair = [] if node is None else [node.prior, node.current]
        return [] if None in pair else pair

    # -- choices of the user -----------------------------------------------------------------------------------------

    def _choose(self, prior, current):
        """Choose the studies to compare. A view that showed a replaced study then shows the study that replaces it."""
        node = self._parameterNode
        before = node.prior, node.current
        with self.changingParameters:
            node.prior = prior
            node.current = current
        self.say("")
        self._onParameters()
        if None not in (*before, node.prior, node.current):
            showInstead(slicer.mrmlScene, zip(before, (node.prior, node.current), strict=True))
            self.logic.mirror.restrict()

    def _onChoice(self):
        """Make the chosen study current, unless it is the prior study. Move all views to the chosen lesion."""
        volume = self.logic.volumes.get(self.choice.study)
        node = self._parameterNode
        if node is not None and volume not in (None, node.prior, node.current):
            self._choose(node.prior, volume)
        self._jump()

    def _onProposed(self, places):
        """Move the views to the proposals of the chosen lesion. The registration moves them later by a few mm.

        places: pairs (lesion id, study key).
        """
        chosen = self.choice.lesion
        self.logic.jumpTo(chosen, [study for lesion, study in places if lesion == chosen])

    def _jump(self):
        if self.choice.lesion:
            self.logic.jumpTo(self.choice.lesion)

    # -- panel and scene ---------------------------------------------------------------------------------------------

    def _onTick(self):
        """Continue the work. Now and then, look for new studies and dates in the scene."""
        self.logic.poll()
        if self.parent.isEntered:
            self.viewButtons.poll()
        self._ticks += 1
        isInUse = self._parameterNode is not None and self.parent.isEntered
        if isInUse and self._ticks % _CHECK_TICKS == 0:
            self._showNextStep()
            if self._shownPatients != patients(slicer.mrmlScene):
                self._onParameters()

    def showParameters(self, node):
        patientList = patients(slicer.mrmlScene)
        self._chooseStudies(node, patientList)
        self._showStudies(patientList, self._patient(patientList))

    def _chooseStudies(self, node, patientList):
        """Choose the prior and the current study if a chosen study is missing, or if a new date has reversed the order
        of the default studies. Studies that the user chose stay. patientList: the patients of the scene."""
        patient = self._patient(patientList)
        if patient is None:
            # the first patient with several studies, or the first patient, or nobody
            several = [entry for entry in patientList if len(entry.studies) > 1]
            self._chooseDefault(node, next(iter(several or patientList), None))
            return
        if node.current not in [study.volume for study in patient.after(node.prior)]:
            node.current = patient.lastAfter(node.prior)
            return
        isDefault = (node.prior, node.current) == self._defaultPair
        if isDefault and not patient.inOrder(node.prior, node.current):
            self._chooseDefault(node, patient)

    def _chooseDefault(self, node, patient):
        """Choose the patient's first and last study. patient: None for no studies."""
        self._defaultPair = (None, None) if patient is None else patient.defaultPair
        node.prior, node.current = self._defaultPair

    def _patient(self, patientList):
        """Return the patient in `patientList` to whom the prior study belongs; None if no prior study is chosen."""
        return next(
            (entry for entry in patientList if self._parameterNode.prior in entry.volumes), None
        )

    def _showStudies(self, patientList, patient):
        """Follow up a patient, or nobody, and show the studies to compare in all parts of the panel."""
        node = self._parameterNode
        logic = self.logic
        prior, current = (None, None) if patient is None else (node.prior, node.current)
        self._shownPatients = patientList
        logic.setPatient(patient)
        logic.setShown([prior, current])
        self.choice.usual = logic.studyOf(current) or logic.studyOf(prior)
        self.lesionTable.setRoles(logic.studyOf(prior), logic.studyOf(current))
        self.pairing.setStudies(logic.studyOf(prior), logic.studyOf(current))
        self.preparation.setVolumes(patient.volumes if patient is not None else [])
        self.studies.show(patientList, patient, prior, current)
        for part in (self.actions, self.pairing, self.importing, self.viewButtons):
            part.update()
        self._showNextStep()

    def _showNextStep(self):
        showText(self.ui.nextStepLabel, nextStep(self.logic))


class LesionFollowUpLogic(ScriptedLoadableModuleLogic):
    """Provides the parameter node of the module. In Python, use the follow-up as follows.

    Import `patients` from AnatomicalEmbeddingLib.followup.StudyOrder. `patients(slicer.mrmlScene)` returns the patients
    with their studies in order of date. Import `FollowUpLogic` from AnatomicalEmbeddingLib.followup.FollowUpLogic.
    `FollowUpLogic(scene, SceneRelations(scene, MapStore(scene)))`, with `scene = slicer.mrmlScene`, keeps the record of
    one patient, proposes places of lesions and shows the lesions in the scene.
    """

    def getParameterNode(self):
        return LesionFollowUpParameterNode(super().getParameterNode())


class LesionFollowUpTest(SelfTest, ScriptedLoadableModuleTest):
    """Self-test in Slicer (Reload and Test); see `SelfTest`."""
