"""Module Lesion Follow-up: matching proposes a patient's lesions in all CTs; the user confirms and measures them."""

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
from AnatomicalEmbeddingLib.followup.StudyTable import StudyTable
from AnatomicalEmbeddingLib.shared.panels.EnginePanel import EnginePanel
from AnatomicalEmbeddingLib.shared.panels.PreparationPanel import PreparationPanel
from AnatomicalEmbeddingLib.shared.panels.SelfTests import SelfTest
from AnatomicalEmbeddingLib.shared.panels.ViewPanel import ViewPanel, offerLayouts
from AnatomicalEmbeddingLib.shared.panels.Widgets import letShrink
from AnatomicalEmbeddingLib.shared.SampleScans import registerSampleData
from AnatomicalEmbeddingLib.shared.SideBySide import ROWS
from AnatomicalEmbeddingLib.shared.Views import showInstead

_LEAST_WIDTH = 340  # pixels, smallest panel width; a wider panel leaves no room for views on a 1280 pixel screen
_CHECK_TICKS = 5  # ticks between checks for changed studies; the events of the subject hierarchy are too many


class LesionFollowUp(ScriptedLoadableModule):
    def __init__(self, parent):
        ScriptedLoadableModule.__init__(self, parent)
        self.parent.title = _("Lesion Follow-up")
        self.parent.categories = [translate("qSlicerAbstractCoreModule", "Registration")]
        self.parent.dependencies = ["Markups"]
        self.parent.contributors = ["AnatomicalEmbedding developers"]
        self.parent.helpText = _(
            "Mark a lesion in one CT of a patient: its places in all other studies, earlier and later, are proposed "
            "with the error to expect. You confirm, move or reject each proposal. Sums and response by RECIST 1.1 "
            "count only confirmed sizes. Patients and dates come from DICOM; dates can also be typed. Keys: W new "
            "lesion, C confirm, M move, N not visible, O outside, L and S long and short axis, A accept size, J and K "
            "next and previous proposal. Pair lesions joins lesions marked separately in two studies; Import reads "
            "point lists, DICOM structured reports and records of earlier sessions. "
            "Needs Slicer 5.12 or newer. "
            'Research software, not a medical device. See the <a href="{url}">documentation</a>.'
        ).format(url="https://github.com/AnatomicalEmbedding/SlicerAnatomicalEmbedding")
        self.parent.acknowledgementText = _(
            "After APE (Goncharov et al., MICCAI 2024) and SAM (Yan et al., IEEE Transactions on Medical Imaging "
            "2022). RECIST 1.1: Eisenhauer et al., European Journal of Cancer 2009."
        )
        slicer.app.connect("startupCompleted()", registerSampleData)
        slicer.app.connect("startupCompleted()", offerLayouts)


@parameterNodeWrapper
class LesionFollowUpParameterNode:
    """The module's parameters. prior, current: the studies that are shown side by side."""

    prior: vtkMRMLScalarVolumeNode
    current: vtkMRMLScalarVolumeNode


class LesionFollowUpWidget(ScriptedLoadableModuleWidget, EnginePanel):
    def __init__(self, parent=None):
        ScriptedLoadableModuleWidget.__init__(self, parent)
        EnginePanel.__init__(self)
        self.logic = None
        self._ticks = 0
        self._shownPatients, self._isUndated = None, False
        self._usual = None  # the pair of studies that the module, not the user, has chosen

    def setup(self):
        ScriptedLoadableModuleWidget.setup(self)
        uiWidget = self.openPanel(self.resourcePath("UI/LesionFollowUp.ui"))
        ui = self.ui
        self.logic = logic = self.closing(LesionFollowUpLogic().followUp(slicer.mrmlScene, self.session.store))
        self.choice = self.closing(LesionActions(logic))
        self.selectors = StudyPanel(ui, slicer.mrmlScene)
        self.studyTable = self.closing(StudyTable(ui.studyArea.layout(), self.session))
        self.preparation = self.closing(PreparationPanel(ui.preparationArea.layout(), self.session))
        self.lesionTable = self.closing(LesionTable(ui.tableArea.layout(), self.choice))
        self.actions = self.closing(LesionActionsPanel(ui, self.choice, slicer.util.mainWindow() or uiWidget, self.say))
        self.pairing = self.closing(PairingPanel(ui, logic, self.say))
        self.importing = self.closing(ImportPanel(ui, self.choice, self.say))
        self.form = self.closing(LesionForm(ui, self.choice))
        self.response = self.closing(ResponsePanel(ui.responseArea.layout(), self.choice))
        self.export = self.closing(ExportPanel(ui, logic))

        self.viewButtons = ViewPanel(ui.windowArea.layout(), slicer.mrmlScene, self._pair)
        self.viewButtons.laidOut.connect(self._onLaidOut)

        letShrink(uiWidget)
        for section in slicer.util.findChildren(uiWidget, className="ctkCollapsibleButton"):
            section.setMinimumWidth(_LEAST_WIDTH)  # overrides the larger width of its contents
        self._isFolded = False
        self.say("")
        self.studyTable.changed.connect(self._onParameters)
        self.studyTable.reported.connect(self.say)
        logic.reported.connect(self.say)
        logic.changed.connect(self._showNextStep)
        logic.changed.connect(self._fold)
        logic.placing.changed.connect(self._showNextStep)
        logic.proposed.connect(self._onProposed)
        self.choice.changed.connect(self._onChoice)
        self.lesionTable.opened.connect(self._onOpened)
        self.listen(self.session.ticked, self._onTick)
        self.selectors.chosen.connect(self._choose)
        ui.showButton.connect("clicked(bool)", lambda: self.viewButtons.layOut(ROWS))
        self._fold()
        self.followScene(slicer.mrmlScene, LesionFollowUpLogic().getParameterNode)

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
        self._usual = None
        self.say("")

    def setParameterNode(self, parameterNode):
        """Connect the panel to a parameter node; None disconnects it."""
        super().setParameterNode(parameterNode)
        if parameterNode is None and self.isSetUp:
            self._showStudies([], None)

    def _onLaidOut(self, sentence):
        self.logic.showInOwnViews()
        self.say(sentence)
        self._jump()

    def _pair(self):
        """Return [prior, current]; [] unless both studies are chosen."""
        node = self._parameterNode
        pair = [] if node is None else [node.prior, node.current]
        return [] if None in pair else pair

    # -- choices of the user -----------------------------------------------------------------------------------------

    def _choose(self, prior, current):
        """Choose another pair of studies, and show the new pair in the views of the former pair."""
        node = self._parameterNode
        before = node.prior, node.current
        with self.changingParameters:
            node.prior, node.current = prior, current
        self.say("")
        self._onParameters()
        if None not in (*before, node.prior, node.current):
            showInstead(slicer.mrmlScene, zip(before, (node.prior, node.current), strict=True))
            self.logic.showInOwnViews()

    def _onChoice(self):
        """Show the lesion and the study that the user has chosen."""
        volume = self.logic.volumes.get(self.choice.study)
        node = self._parameterNode
        if node is not None and volume is not None and volume is not node.prior and volume is not node.current:
            self._choose(node.prior, volume)
        self._jump()

    def _onOpened(self, lesion, study):
        self.choice.choose(lesion, study)
        self._jump()

    def _onProposed(self, lesions):
        """Move the views of the other studies to a lesion that was just marked."""
        if self.choice.lesion in lesions:
            self._jump()

    def _jump(self):
        if self.choice.lesion:
            self.logic.jumpTo(self.choice.lesion)

    # -- panel and scene ---------------------------------------------------------------------------------------------

    def _onTick(self):
        self.logic.poll()
        if self.parent.isEntered:
            self.viewButtons.poll()
        self._ticks += 1
        if self._ticks % _CHECK_TICKS == 0 and self._parameterNode is not None and self.parent.isEntered:
            self._showNextStep()
            if self._shownPatients != _described(patients(slicer.mrmlScene)):
                self._onParameters()

    def showParameters(self, node):
        """Show the values of the parameter node and the studies of the scene."""
        found = patients(slicer.mrmlScene)
        self._chooseStudies(node, found)
        self._showStudies(found, self._patient(found))

    def _chooseStudies(self, node, found):
        """Choose a default pair of studies if no study is chosen, or if a chosen study was removed."""
        patient = self._patient(found)
        if patient is None:
            patient = next((each for each in found if len(each.studies) > 1), found[0] if found else None)
            node.prior, node.current = (None, None) if patient is None else patient.usualPair
            self._usual = node.prior, node.current
        elif node.current not in [study.volume for study in patient.after(node.prior)]:
            node.current = patient.lastAfter(node.prior)
        elif (node.prior, node.current) == self._usual and not patient.inOrder(*self._usual):  # dates are now known
            node.prior, node.current = self._usual = patient.usualPair

    def _patient(self, found):
        """Return the patient of the prior study, or None."""
        return next((each for each in found if self._parameterNode.prior in each.volumes), None)

    def _showStudies(self, found, patient):
        node, logic = self._parameterNode, self.logic
        prior, current = (None, None) if patient is None else (node.prior, node.current)
        self._shownPatients = _described(found)
        logic.setPatient(patient)
        logic.setShown([prior, current])
        self.choice.usual = logic.studyOf(current) or logic.studyOf(prior)
        self.lesionTable.setRoles(logic.studyOf(prior), logic.studyOf(current))
        self.pairing.setStudies(logic.studyOf(prior), logic.studyOf(current))
        self.studyTable.show(patient, prior, current)
        undated = patient is not None and any(study.note for study in patient.studies)
        if undated and not self._isUndated:  # otherwise only the user opens and closes the section
            self.ui.studyArea.collapsed = False
        self._isUndated = undated
        self.preparation.setVolumes(patient.volumes if patient is not None else [])
        self.selectors.show(found, patient, prior, current)
        for part in (self.actions, self.pairing, self.importing, self.viewButtons):
            part.update()
        self._showNextStep()

    def _fold(self):
        """Collapse the sections Response and Export until a lesion is measured in two studies."""
        lesions = self.logic.record.lesions
        fold = not any(sum(found.size.confirmed for found in each.findings.values()) > 1 for each in lesions)
        if fold != self._isFolded:
            self._isFolded = fold
            self.ui.responseSection.collapsed = self.ui.exportSection.collapsed = fold

    def _showNextStep(self):
        self.ui.nextStepLabel.text = nextStep(self.logic)


class LesionFollowUpLogic(ScriptedLoadableModuleLogic):
    """Use from Python: `patients(slicer.mrmlScene)` of AnatomicalEmbeddingLib.followup.StudyOrder returns the patients
    with their studies in order. `LesionFollowUpLogic().followUp(slicer.mrmlScene, MapStore(slicer.mrmlScene))` returns
    an object that keeps a patient's record, proposes places of lesions and shows them in the scene.
    """

    def getParameterNode(self):
        return LesionFollowUpParameterNode(super().getParameterNode())

    def followUp(self, scene, store):
        """Return the follow-up logic, which needs no panel. It handles one patient at a time."""
        return FollowUpLogic(scene, store)


def _described(found):
    """Return the patients with the names of their volumes, for a comparison that detects changes."""
    return [(each, [volume.GetName() for volume in each.volumes]) for each in found]


class LesionFollowUpTest(SelfTest, ScriptedLoadableModuleTest):
    """Self-test in Slicer (Reload and Test); see `SelfTest`."""
