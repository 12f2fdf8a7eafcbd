"""The panel of the training module: starts, follows and stops a run, and hands its weights on."""

from __future__ import annotations

import time
from collections.abc import Callable
from html import escape
from pathlib import Path

import qt
from slicer.i18n import tr as _

from ..shared.panels.Widgets import BAD, GOOD, WARNING, coloured
from ..shared.processes.EngineProcess import FAILED, STOPPED
from ..shared.Signal import Signal
from .TrainingCurves import TrainingCurves
from .TrainingForm import TrainingForm
from .TrainingLog import LossCurve, Validations
from .TrainingProcess import TrainingProcess, TrainingProgress, TrainingResult
from .TrainingRun import FINISHED, UNFINISHED, RunState, inspectRun, runProblem
from .TrainingSettings import settingsProblem

_BAR = 1000  # parts of the progress bar
_YIELD_SECONDS = 0.01


class TrainingPanel:
    """Sections "Run" and "Result" of a panel, and the form above them.

    ui: the widgets by name. process, curves: the logic. useWeights(path): lets the other modules use weights.
    missing(): packages that training lacks, by name; install(): installs them, or raises an exception whose text is a
    sentence. showChart(node): shows a chart in a plot view. started(TrainingSettings): a run was started.
    """

    def __init__(
        self,
        ui,
        process: TrainingProcess,
        curves: TrainingCurves,
        useWeights: Callable[[Path], None],
        missing: Callable[[], list[str]],
        install: Callable[[], None],
        showChart: Callable[[object], None],
    ) -> None:
        self.ui, self.process, self.curves = ui, process, curves
        self.useWeights, self.missing, self.install, self.showChart = useWeights, missing, install, showChart
        self.form = TrainingForm(ui)
        self.started = Signal()
        self._run = RunState(Path())
        self._losses, self._validations = LossCurve(), Validations.read(Path())
        self._news = ""  # rich text about the last event, until the user does or changes something
        self._stepped = False  # has the run under way done a step?
        self._inPlots = self._stale = False
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
        process.validated.connect(self._onValidated)
        process.finished.connect(self._onFinished)
        self.refresh()

    def refresh(self) -> None:
        """Read the run's folder again, look for packages, and show the present state."""
        self._run = inspectRun(self.form.settings().runFolder)
        self._missingPackages = self.missing()
        if not self.process.running:
            self._losses, self._validations = LossCurve.read(self._run.folder), Validations.read(self._run.folder)
        self._stale = True
        self.update()

    def poll(self) -> None:
        """Follow the run; to be called a few times a second."""
        if self.process.running:
            time.sleep(_YIELD_SECONDS)  # the threads that read what it prints need Python's lock; see Session.tick
            self.process.poll()
            self.update()

    def update(self) -> None:
        """Show the present state."""
        running = self.process.running
        problem = "" if running else self._problem()
        self.form.setEnabled(not running)
        self._showRunButtons(running, problem)
        if not running:
            self._showProgress(self._share())
        self.ui.statusLabel.text = self._status(problem)
        self.ui.installButton.visible = bool(self._missingPackages) and not running
        self._showResult()
        if self._stale:
            self._stale = False
            self._showCurves()

    def _onStop(self) -> None:
        """Ask the run to stop; when it was asked before, end it at once."""
        if self.process.stopping:
            self.process.kill()
        else:
            self.process.stop()
        self.update()

    def _onInstall(self) -> None:
        self._news = ""
        try:
            self.install()
        except Exception as error:  # pip or the network: its sentence belongs into the panel
            self._news = coloured(str(error), BAD)
        self.refresh()

    def _onPlotLoss(self) -> None:
        self._drawInPlots()
        self.showChart(self.curves.lossChart)

    def _onPlotValidation(self) -> None:
        self._drawInPlots()
        self.showChart(self.curves.validationChart)

    def _onUse(self) -> None:
        self.useWeights(self._run.weights)
        self._news = coloured(_("All modules use the weights of this run from now on."), GOOD)
        self.update()

    def _onOpen(self) -> None:
        qt.QDesktopServices.openUrl(qt.QUrl.fromLocalFile(str(self._run.folder)))

    def _start(self, finishNow: bool) -> None:
        """Start a run, or resume that of the folder. finishNow: do one more step and write the weights."""
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

        settings = self.form.settings()
        self.ui.logEdit.clear()
        try:
            self.process.start(settings, finishNow)
        except AnatomicalEmbeddingError as error:
            self._news = coloured(str(error), BAD)
        else:
            self._news = escape(_("Starting..."))
            self._stepped = False
            self.ui.progressBar.setRange(0, 0)  # moves to and fro: how long preparing takes is not known
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
        self._stepped = self._stale = True
        self._showProgress(progress.share)
        self._news = escape(
            _("Step {step} of {steps}, loss {loss}, {seconds} s a step, about {left} left.").format(
                step=progress.step,
                steps=progress.steps,
                loss=f"{progress.loss:.3g}",
                seconds=f"{progress.secondsPerStep:.2g}",
                left=_duration(progress.secondsLeft),
            )
        )

    def _onValidated(self, validations: Validations) -> None:
        self._validations = validations
        self._stale = True

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
        """A sentence about what keeps a run from being started, or ""."""
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
        if run.stage == UNFINISHED and not run.steps:
            return _("Preparing the scans of this run was interrupted; Resume goes on with it.")
        if run.stage == UNFINISHED:
            return _(
                "The run in this folder was stopped at step {step} of {steps}. Resume goes on with it; Finish now "
                "writes its weights as they are."
            ).format(step=run.steps, steps=run.settings.steps)
        if run.stage == FINISHED:
            return _("The run in this folder ended when its time was up; Resume goes on with it.")
        return _("Ready to start.")

    def _share(self) -> float:
        if self._run.stage == FINISHED:
            return 1.0
        return self._run.steps / self._run.settings.steps if self._run.stage == UNFINISHED else 0.0

    def _showProgress(self, share: float) -> None:
        self.ui.progressBar.setRange(0, _BAR)
        self.ui.progressBar.value = round(_BAR * share)

    def _showRunButtons(self, running: bool, problem: str) -> None:
        ui, begun = self.ui, self._run.stage in (UNFINISHED, FINISHED)
        busy = _("A run is under way.") if running else ""
        ui.startButton.text = _("Resume") if begun and not running else _("Start")
        tip = _("Go on where the run in this folder stopped.") if begun else _("Train in the background.")
        _allow(ui.startButton, not running and not problem, busy or problem or tip)

        stopping = self.process.stopping
        ui.stopButton.text = _("End at once") if stopping else _("Stop")
        tip = _("Do not wait; what was done since the last checkpoint is lost.") if stopping else _("Save and stop.")
        _allow(ui.stopButton, running, tip if running else _("No run is under way."))

        stopped = self._run.stage == UNFINISHED and self._run.steps > 0 and not running
        tip = _("Write the weights of this run as they are, after one more step.")
        reason = problem or tip if stopped else _("Stop a run first.")
        _allow(ui.finishButton, stopped and not problem, reason)

    def _showResult(self) -> None:
        ui, weights = self.ui, self._run.weights
        ui.weightsEdit.text = "" if weights is None or self.process.running else str(weights)
        ui.validationResultLabel.text = self._validationText()
        ready = bool(ui.weightsEdit.text)
        missing = _("There are no weights yet.")
        _allow(
            ui.useButton,
            ready,
            _("Match with these weights in all modules; scans are prepared anew.") if ready else missing,
        )
        there = bool(self.form.settings().runFolder) and self._run.folder.is_dir()
        _allow(ui.openButton, there, str(self._run.folder) if there else _("The folder is made when the run starts."))

    def _validationText(self) -> str:
        best = self._validations.best()
        if best is None:
            return _("none yet")
        words = {
            "phantom": _("synthetic patients"),
            "centre": _("organ centres"),
            "extreme": _("organ borders"),
            "landmark": _("landmarks"),
        }
        errors = [f"{words.get(kind, kind)} {error:.1f} mm" for kind, error in self._validations.at(best).items()]
        return _("Median error at the best step, {step}: {errors}").format(
            step=self._validations.steps[best], errors=", ".join(errors)
        )

    def _showCurves(self) -> None:
        tip = _("Show it in a plot view of Slicer, where it follows the run.")
        for button, there in (
            (self.ui.plotLossButton, self._losses.steps),
            (self.ui.plotValidationButton, len(self._validations)),
        ):
            _allow(button, bool(there), tip if there else _("There is nothing to plot yet."))
        if self._inPlots:
            self._drawInPlots()

    def _drawInPlots(self) -> None:
        self._inPlots = True
        self.curves.showLoss(self._losses)
        self.curves.showValidation(self._validations)


def _allow(button, enabled: bool, toolTip: str) -> None:
    button.enabled, button.toolTip = enabled, toolTip


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 90:
        return _("{seconds} s").format(seconds=round(seconds))
    if minutes < 90:
        return _("{minutes} min").format(minutes=minutes)
    return _("{hours} h {minutes} min").format(hours=minutes // 60, minutes=minutes % 60)
