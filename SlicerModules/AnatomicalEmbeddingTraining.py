"""Module Anatomical Embedding Training: adapts weights to the user's own CTs, in the background."""

import json
from dataclasses import replace
from pathlib import Path

import qt
import slicer
from slicer.i18n import tr as _
from slicer.i18n import translate
from slicer.parameterNodeWrapper import parameterNodeWrapper
from slicer.ScriptedLoadableModule import (
    ScriptedLoadableModule,
    ScriptedLoadableModuleLogic,
    ScriptedLoadableModuleTest,
    ScriptedLoadableModuleWidget,
)

from AnatomicalEmbeddingLib.shared.panels import ModuleSettings
from AnatomicalEmbeddingLib.shared.panels.ModulePanel import ModulePanel
from AnatomicalEmbeddingLib.shared.panels.SelfTests import SelfTest
from AnatomicalEmbeddingLib.shared.processes.EngineProcess import pythonCommand
from AnatomicalEmbeddingLib.training.TrainingCurves import TrainingCurves
from AnatomicalEmbeddingLib.training.TrainingPanel import TrainingPanel
from AnatomicalEmbeddingLib.training.TrainingProcess import TrainingProcess
from AnatomicalEmbeddingLib.training.TrainingSettings import TrainingSettings

_INTERVAL_MS = 200
_LAST_SETTINGS = "training"  # key under which this computer stores the settings of the last run


class AnatomicalEmbeddingTraining(ScriptedLoadableModule):
    def __init__(self, parent):
        ScriptedLoadableModule.__init__(self, parent)
        self.parent.title = _("Anatomical Embedding Training")
        self.parent.categories = [translate("qSlicerAbstractCoreModule", "Registration")]
        self.parent.dependencies = ["Plots"]
        self.parent.contributors = ["AnatomicalEmbedding developers"]
        self.parent.helpText = _(
            "Adapts the weights that find anatomical points to your own CTs, in the background, and hands them to the "
            "other modules. Nothing leaves this computer. Needs Slicer 5.12 or newer. Research software, not a "
            "medical device. "
            'See the <a href="{url}">documentation</a>.'
        ).format(url="https://github.com/AnatomicalEmbedding/SlicerAnatomicalEmbedding")
        self.parent.acknowledgementText = _(
            "After APE (Goncharov et al., MICCAI 2024) and SAM (Yan et al., IEEE Transactions on Medical Imaging 2022)."
        )


@parameterNodeWrapper
class AnatomicalEmbeddingTrainingParameterNode:
    """The settings of a run, with the names and defaults of TrainingSettings.

    filled: True if the node holds settings. A new node gets the settings of the last run on this computer.
    """

    scanFolders: list[str]
    validationFolder: str = ""
    recipe: str = "hybrid"
    fineTune: bool = True
    minutes: int = 60
    steps: int = 1000
    validateEvery: int = 100
    device: str = "auto"
    threads: int = 0
    furtherOptions: str = ""
    runFolder: str = ""
    filled: bool = False


class AnatomicalEmbeddingTrainingWidget(ScriptedLoadableModuleWidget, ModulePanel):
    def __init__(self, parent=None):
        ScriptedLoadableModuleWidget.__init__(self, parent)
        ModulePanel.__init__(self)
        self.logic = self.panel = self.timer = None

    def setup(self):
        ScriptedLoadableModuleWidget.setup(self)
        uiWidget = slicer.util.loadUI(self.resourcePath("UI/AnatomicalEmbeddingTraining.ui"))
        self.layout.addWidget(uiWidget)
        self.ui = slicer.util.childWidgetVariables(uiWidget)
        uiWidget.setMRMLScene(slicer.mrmlScene)

        self.logic = AnatomicalEmbeddingTrainingLogic()
        self.atEnd(self.logic.process.close)
        self.panel = TrainingPanel(self.ui, self.logic.process, self.logic.curves)
        self.panel.form.changed.connect(self._onForm)
        self.panel.started.connect(rememberSettings)
        self.timer = qt.QTimer()
        self.timer.setInterval(_INTERVAL_MS)
        self.timer.connect("timeout()", self.panel.poll)
        self.timer.start()
        self.atEnd(self.timer.stop)

        self.followScene(slicer.mrmlScene, self.logic.getParameterNode)

    def cleanup(self):
        self.end()

    def enter(self):
        self.initializeParameterNode()
        self.panel.refresh()

    def initializeParameterNode(self):
        """Show the settings of the scene. A new scene gets the settings of the last run on this computer."""
        node = self.logic.getParameterNode()
        if self.logic.process.running:
            node.filled = True
            self._write(node, self.panel.form.settings())
        elif not node.filled:
            node.filled = True
            self._write(node, lastSettings())
        self.setParameterNode(node)

    def showParameters(self, node):
        """Show the settings of the parameter node. During a run the settings of the run stay."""
        if not self.logic.process.running:
            self.panel.form.show(TrainingSettings.fromDict(valuesOf(node)))

    def _onForm(self):
        if self._parameterNode is not None:  # the form may have corrected a value
            self._write(self._parameterNode, self.panel.form.settings())

    def _write(self, node, settings):
        with self.changingParameters:
            known = valuesOf(node)
            for name, value in settings.toDict().items():
                if known[name] != value:
                    setattr(node, name, value)


class AnatomicalEmbeddingTrainingLogic(ScriptedLoadableModuleLogic):
    """The training run (a child process of Slicer) and its curves in the scene. Use from Python:

    call logic.process.start(TrainingSettings(scanFolders=("/scans",), runFolder="/run")). Then call
    logic.process.poll() from a timer until logic.process.running is False.
    """

    def __init__(self, parent=None):
        ScriptedLoadableModuleLogic.__init__(self, parent)
        self.process = TrainingProcess(pythonCommand())
        self.curves = TrainingCurves()

    def getParameterNode(self):
        return AnatomicalEmbeddingTrainingParameterNode(super().getParameterNode())


def valuesOf(parameterNode):
    """Return the settings of a parameter node, by name. Lists are copied, because the node's lists change with it."""
    values = {name: getattr(parameterNode, name) for name in TrainingSettings().toDict()}
    return values | {"scanFolders": list(values["scanFolders"])}


def rememberSettings(settings):
    ModuleSettings.setValue(_LAST_SETTINGS, json.dumps(settings.toDict()))


def lastSettings():
    """Return the settings of the last run on this computer, with a new folder for the run."""
    try:
        values = json.loads(ModuleSettings.value(_LAST_SETTINGS, "{}"))
    except ValueError:
        values = {}
    settings = TrainingSettings.fromDict(values if isinstance(values, dict) else {})
    parent = Path(settings.runFolder).parent if settings.runFolder else Path.home() / "AnatomicalEmbedding"
    number = next(n for n in range(1, 10_000) if not (parent / f"training-{n}").exists())
    return replace(settings, runFolder=str(parent / f"training-{number}"))


class AnatomicalEmbeddingTrainingTest(SelfTest, ScriptedLoadableModuleTest):
    """Self-test in Slicer (Reload and Test); see `SelfTest`."""
