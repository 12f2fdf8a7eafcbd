"""The panel of the training module: starts and stops a run, shows its progress, and offers its weights for use."""

from __future__ import annotations

import time
from html import escape
from pathlib import Path

import qt
import slicer
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from ..shared.maps.Engine import Engine
from ..shared.panels import ModuleSettings
from ..shared.panels.PackageSetup import InstallError, install
from ..shared.panels.Widgets import BAD, GOOD, WARNING, coloured
from ..shared.processes.EngineProcess import FAILED, STOPPED
from ..shared.Signal import Signal
from .TrainingCurves import TrainingCurves
from .TrainingForm import TrainingForm
from .TrainingLog import LossCurve, bestOf, readValidations
from .TrainingProcess import TrainingProcess, TrainingProgress, TrainingResult
from .TrainingRun import FINISHED, UNFINISHED, RunState, inspectRun, runProblem
from .TrainingSettings import settingsProblem

_BAR = 1000  # number of steps of the progress bar
_YIELD_SECONDS = 0.01


class TrainingPanel:
    """The form, and below it the sections "Run" and "Result" of the panel.

    ui: the widgets by name. process, curves: the logic. Signal started(TrainingSettings): a run was started.
    """

    def __init__(self, ui, process: TrainingProcess, curves: TrainingCurves) -> None:
        self.ui, self.process, self.curves = ui, process, curves
        self.form = TrainingForm(ui)
        self.started = Signal()
        self._run = RunState(Path())
        self._losses, self._validations = LossCurve(), []
        self._news = ""  # rich text about the last event; cleared at the user's next action
        self._stepped = False  # True if the current run has finished a step
        self._inPlots = False
        ui.statusLabel.setTextFormat(qt.Qt.RichText)
        ui.startButton.connect("clicked(bool)", lambda: self._start(finishNow=False))
        ui.finishButton.connect("clicked(bool)", lambda: self._start(finishNow=True))
        ui.stopButton.connect("clicked(bool)", self._onStop)
        ui.installButton.connect("clicked(bool)", self._onInstall)
        ui.plotLossButton.connect("clicked(bool)", self._onPlotLoss)
        ui.plotValidationButton.connect("clicked(bool)", self._onPlotValidation)
        ui.useButton.connect("clicked(bool)", self._onUse)
        ui.openButton.connect("clicked(bool)", self._onOpen)
        self.form.changed.connect(self._onSettings)
        process.logged.connect(self._onLine)
        process.progressed.connect(self._onProgress)
        process.finished.connect(self._onFinished)
        self.refresh()

    def refresh(self) -> None:
        """Read the run's folder again, check which packages are missing, and show the present state."""
        self._run = inspectRun(self.form.settings().runFolder)
        self._missingPackages = Engine.missingPackages()
        if not self.process.running:
            self._losses, self._validations = LossCurve.read(self._run.folder), readValidations(self._run.folder)
        self._showCurves()
        self.update()

    def poll(self) -> None:
        """Read and show the progress of the run. Call it a few times a second."""
        if self.process.running:
            time.sleep(_YIELD_SECONDS)  # the threads that read the output need Python's lock; see Session.tick
            self.process.poll()
            self.update()

    def update(self) -> None:
        running, run = self.process.running, self._run
        problem = "" if running else self._problem()
        self.form.setEnabled(not running)
        self._showRunButtons(running, problem)
        if not running:
            self._showProgress(1.0 if run.stage == FINISHED else run.steps / run.settings.steps if run.steps else 0.0)
        self.ui.statusLabel.text = self._status(problem)
        self.ui.installButton.visible = bool(self._missingPackages) and not running
        self._showResult()

    def _onStop(self) -> None:
        if self.process.stopping:
            self.process.kill()
        else:
            self.process.stop()
        self.update()

    def _onInstall(self) -> None:
        self._news = ""
        try:
            install(Engine.missingPackages())
        except InstallError as error:
            self._news = coloured(str(error), BAD)
        self.refresh()

    def _onPlotLoss(self) -> None:
        self._inPlots = True
        _showInLayout(self.curves.showLoss(self._losses))

    def _onPlotValidation(self) -> None:
        self._inPlots = True
        _showInLayout(self.curves.showValidation(self._validations))

    def _onUse(self) -> None:
        ModuleSettings.setValue(ModuleSettings.WEIGHTS, str(self._run.weights))
        self._news = coloured(_("All modules use the weights of this run from now on."), GOOD)
        self.update()

    def _onOpen(self) -> None:
        qt.QDesktopServices.openUrl(qt.QUrl.fromLocalFile(str(self._run.folder)))

    def _start(self, finishNow: bool) -> None:
        """Start a run, or resume the run in the folder. finishNow: run only one more step, then write the weights."""
        settings = self.form.settings()
        self.ui.logEdit.clear()
        try:
            self.process.start(settings, finishNow)
        except AnatomicalEmbeddingError as error:
            self._news = coloured(str(error), BAD)
        else:
            self._news = escape(_("Starting..."))
            self._stepped = False
            self.ui.progressBar.setRange(0, 0)  # shows activity without a value: the time for preparing is not known
            self.started.emit(settings)
        self.refresh()

    def _onSettings(self) -> None:
        if self.process.running:
            return
        self._news = ""
        if Path(self.form.settings().runFolder) == self._run.folder:
            self.update()
            return
        self.refresh()
        if self._run.stage in (UNFINISHED, FINISHED):
            self.form.show(self._run.settings)  # a run is resumed with its own settings

    def _onLine(self, line: str) -> None:
        self.ui.logEdit.appendPlainText(line)
        if not self._stepped:
            self._news = escape(_("Preparing: {what}").format(what=line))

    def _onProgress(self, progress: TrainingProgress) -> None:
        self._losses.add(progress.step, progress.loss)
        self._validations = readValidations(self._run.folder)
        self._stepped = True
        self._showCurves()
        self._showProgress(progress.share)
        text = _("Step {step} of {steps}, loss {loss:.3g}, {seconds:.2g} s a step, about {left} left.")
        self._news = text.format(
            step=progress.step,
            steps=progress.steps,
            loss=progress.loss,
            seconds=progress.secondsPerStep,
            left=_duration(progress.secondsLeft),
        )

    def _onFinished(self, result: TrainingResult) -> None:
        if result.outcome == FAILED:
            self._news = coloured(result.sentence, BAD)
            self.ui.logGroup.collapsed = False
        elif result.outcome == STOPPED:
            self._news = ""
        else:
            self._news = coloured(_("Finished after {steps} steps.").format(steps=result.steps), GOOD)
        self.refresh()

    def _problem(self) -> str:
        if self._missingPackages:
            return _("Training needs {names}; press Install packages.").format(names=", ".join(self._missingPackages))
        settings = self.form.settings()
        return settingsProblem(settings) or runProblem(settings, self._run) or ""

    def _status(self, problem: str) -> str:
        if self.process.stopping:
            return escape(_("Stopping: the step under way is ended and saved first."))
        if self._news:
            return self._news
        return coloured(problem, WARNING) if problem else escape(self._state())

    def _state(self) -> str:
        run = self._run
        if run.stage == UNFINISHED:
            return _("The run in this folder was stopped at step {step} of {steps}; Resume continues it.").format(
                step=run.steps, steps=run.settings.steps
            )
        if run.stage == FINISHED:
            return _("The run in this folder ended when its time was up; Resume continues it.")
        return _("Ready to start.")

    def _showProgress(self, share: float) -> None:
        self.ui.progressBar.setRange(0, _BAR)
        self.ui.progressBar.value = round(_BAR * share)

    def _showRunButtons(self, running: bool, problem: str) -> None:
        ui, isBegun = self.ui, self._run.stage in (UNFINISHED, FINISHED)
        ui.startButton.text = _("Resume") if isBegun and not running else _("Start")
        ui.startButton.enabled = not running and not problem
        ui.stopButton.text = _("End at once") if self.process.stopping else _("Stop")
        ui.stopButton.enabled = running
        isStopped = self._run.stage == UNFINISHED and self._run.steps > 0
        ui.finishButton.enabled = isStopped and not running and not problem

    def _showResult(self) -> None:
        ui, weights = self.ui, self._run.weights
        ui.weightsEdit.text = "" if weights is None or self.process.running else str(weights)
        ui.useButton.enabled = bool(ui.weightsEdit.text)
        ui.openButton.enabled = bool(self.form.settings().runFolder) and self._run.folder.is_dir()
        ui.validationResultLabel.text = self._validationText()

    def _validationText(self) -> str:
        best = bestOf(self._validations)
        if best is None:
            return _("none yet")
        words = {
            "phantom": _("synthetic patients"),
            "centre": _("organ centres"),
            "extreme": _("organ borders"),
            "landmark": _("landmarks"),
        }
        errors = [f"{words.get(kind, kind)} {error:.1f} mm" for kind, error in best.items() if kind != "step"]
        return _("Median error at the best step, {step}: {errors}").format(
            step=int(best["step"]), errors=", ".join(errors)
        )

    def _showCurves(self) -> None:
        self.ui.plotLossButton.enabled = bool(self._losses.steps)
        self.ui.plotValidationButton.enabled = bool(self._validations)
        if self._inPlots:
            self.curves.showLoss(self._losses)
            self.curves.showValidation(self._validations)


def _showInLayout(chart) -> None:
    """Show a chart, in a layout that has a plot view. Does nothing if there is no main window."""
    if slicer.app.layoutManager() is not None:
        slicer.modules.plots.logic().ShowChartInLayout(chart)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 90:
        return _("{seconds} s").format(seconds=round(seconds))
    if minutes < 90:
        return _("{minutes} min").format(minutes=minutes)
    return _("{hours} h {minutes} min").format(hours=minutes // 60, minutes=minutes % 60)
