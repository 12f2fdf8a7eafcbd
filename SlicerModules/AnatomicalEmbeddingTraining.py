"""Module Anatomical Embedding Training: trains weights on the user's own CTs, in the background."""

from pathlib import Path

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

from AnatomicalEmbeddingLib.shared.panels.PackageSetup import missingForEngine
from AnatomicalEmbeddingLib.shared.panels.SelfTests import runSelfTests, startSelfTest
from AnatomicalEmbeddingLib.shared.processes.EngineProcess import pythonCommand
from AnatomicalEmbeddingLib.shared.Signal import Listener
from AnatomicalEmbeddingLib.training.TrainingCurves import TrainingCurves
from AnatomicalEmbeddingLib.training.TrainingLog import LossCurve
from AnatomicalEmbeddingLib.training.TrainingPanel import TrainingPanel
from AnatomicalEmbeddingLib.training.TrainingProcess import TrainingProcess
from AnatomicalEmbeddingLib.training.TrainingSettings import TrainingSettings

_INTERVAL_MS = 200


class AnatomicalEmbeddingTraining(ScriptedLoadableModule):
    def __init__(self, parent):
        ScriptedLoadableModule.__init__(self, parent)
        self.parent.title = _("Anatomical Embedding Training")
        self.parent.categories = [translate("qSlicerAbstractCoreModule", "Registration")]
        self.parent.dependencies = ["Plots"]
        self.parent.contributors = ["AnatomicalEmbedding developers"]
        self.parent.helpText = _(
            "Trains the network that finds anatomical points on your own CTs, in the background. The other modules can "
            "use the trained weights. Nothing leaves this computer. Needs Slicer 5.12 or newer. Research software, not "
            "a medical device. "
            'See the <a href="{url}">documentation</a>.'
        ).format(url="https://github.com/AnatomicalEmbedding/SlicerAnatomicalEmbedding")
        self.parent.acknowledgementText = _(
            "After APE (Goncharov et al., MICCAI 2024) and SAM (Yan et al., IEEE Transactions on Medical Imaging 2022)."
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
    call `logic.process.poll()` a few times a second until `logic.process.running` is False.
    """

    def __init__(self, parent=None):
        ScriptedLoadableModuleLogic.__init__(self, parent)
        self.process = TrainingProcess(pythonCommand())
        self.curves = TrainingCurves()


class AnatomicalEmbeddingTrainingTest(ScriptedLoadableModuleTest):
    """Self-test, run by the button Reload and Test of Slicer. It needs the engine's packages, but no data."""

    def setUp(self):
        startSelfTest(self, slicer.mrmlScene, missingForEngine())

    def runTest(self):
        runSelfTests(self, self.test_TwoStepsOnSyntheticPatients)

    def test_TwoStepsOnSyntheticPatients(self):
        import tempfile
        import time

        from AnatomicalEmbedding.phantom import make_phantom

        with tempfile.TemporaryDirectory() as folder:
            for seed in (71, 72):
                phantom = make_phantom(seed, spacing=(4.0, 4.0, 4.0), coverage_mm=(150.0, 480.0))
                phantom.volume.write(Path(folder) / "scans" / f"patient{seed}.nii.gz")
            settings = TrainingSettings(
                scanFolders=(str(Path(folder) / "scans"),), runFolder=str(Path(folder) / "run"), steps=2,
                validateEvery=0, device="cpu", furtherOptions="--phantoms 1 --jobs 1 --workers 0",
            )  # fmt: skip
            logic = AnatomicalEmbeddingTrainingLogic()
            outcomes, lines = [], []
            logic.process.finished.connect(lambda outcome, _sentence: outcomes.append(outcome))
            logic.process.logged.connect(lines.append)
            logic.process.start(settings)
            while logic.process.running:
                logic.process.poll()
                time.sleep(0.1)
            self.assertEqual(outcomes, ["finished"], "\n".join(lines))
            self.assertTrue(Path(settings.runFolder, "weights.safetensors").is_file())
            chart = logic.curves.showLoss(LossCurve.read(settings.runFolder))
            self.assertEqual(chart.GetNthPlotSeriesNode(0).GetTableNode().GetNumberOfRows(), 2)
