"""Module Anatomical Embedding Training: trains weights on the user's own CTs, in the background."""

import qt
import slicer
from slicer.i18n import tr as _
from slicer.i18n import translate
from slicer.ScriptedLoadableModule import (
    ScriptedLoadableModule,
    ScriptedLoadableModuleLogic,
    ScriptedLoadableModuleTest,
    ScriptedLoadableModuleWidget,
)

from AnatomicalEmbeddingLib.shared.panels.SelfTests import SelfTest
from AnatomicalEmbeddingLib.shared.processes.EngineProcess import pythonCommand
from AnatomicalEmbeddingLib.shared.Signal import Listener
from AnatomicalEmbeddingLib.training.TrainingCurves import TrainingCurves
from AnatomicalEmbeddingLib.training.TrainingPanel import TrainingPanel
from AnatomicalEmbeddingLib.training.TrainingProcess import TrainingProcess

_INTERVAL_MS = 200  # between two updates of the progress; by hand


class AnatomicalEmbeddingTraining(ScriptedLoadableModule):
    def __init__(self, parent):
        ScriptedLoadableModule.__init__(self, parent)
        self.parent.title = _("Anatomical Embedding Training")
        self.parent.categories = [translate("qSlicerAbstractCoreModule", "Registration")]
        self.parent.dependencies = ["Plots"]
        self.parent.contributors = ["AnatomicalEmbedding developers"]
        self.parent.helpText = _(
            "Uses your own CTs to train the network with which the other modules find anatomical points. The training "
            "runs in the background. Then the other modules can use the trained weights. No data leaves this "
            "computer. Needs Slicer 5.12 or newer. Research software, not a medical device. "
            'See the <a href="{url}">documentation</a>.'
        ).format(url="https://github.com/AnatomicalEmbedding/SlicerAnatomicalEmbedding")
        self.parent.acknowledgementText = _(
            "The method follows APE (Goncharov et al., MICCAI 2024) and SAM (Yan et al., IEEE Transactions on Medical "
            "Imaging 2022)."
        )


class AnatomicalEmbeddingTrainingWidget(ScriptedLoadableModuleWidget, Listener):
    def setup(self):
        ScriptedLoadableModuleWidget.setup(self)
        uiWidget = slicer.util.loadUI(self.resourcePath("UI/AnatomicalEmbeddingTraining.ui"))
        self.layout.addWidget(uiWidget)
        self.ui = slicer.util.childWidgetVariables(uiWidget)
        self.logic = AnatomicalEmbeddingTrainingLogic()
        self.atEnd(self.logic.process.close)
        self.panel = TrainingPanel(self.ui, self.logic.process, self.logic.curves)
        self.timer = qt.QTimer()
        self.timer.setInterval(_INTERVAL_MS)
        self.timer.connect("timeout()", self.panel.poll)
        self.timer.start()
        self.atEnd(self.timer.stop)

    def cleanup(self):
        self.close()

    def enter(self):
        self.panel.refresh()


class AnatomicalEmbeddingTrainingLogic(ScriptedLoadableModuleLogic):
    """Holds the training run, which is a child process of Slicer, and the run's charts in the scene.

    To train from Python, call `logic.process.start(TrainingSettings(scanFolders=("/scans",), runFolder="/run"))`. Then
    call `logic.process.poll()` a few times a second until `TrainingProcess.running` is False.
    """

    def __init__(self, parent=None):
        ScriptedLoadableModuleLogic.__init__(self, parent)
        self.process = TrainingProcess(pythonCommand())
        self.curves = TrainingCurves()


class AnatomicalEmbeddingTrainingTest(SelfTest, ScriptedLoadableModuleTest):
    """Self-test in Slicer (Reload and Test); see `SelfTest`."""
