"""The panel of the training module: starts and stops a run, shows its progress, and offers its weights for use."""

import json
import time
from dataclasses import replace
from html import escape
from importlib.util import find_spec
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
from .TrainingCurves import TrainingCurves
from .TrainingForm import TrainingForm
from .TrainingLog import LossCurve, bestOf, readValidations
from .TrainingProcess import TrainingProcess, TrainingProgress
from .TrainingRun import FINISHED, UNFINISHED, RunState, inspectRun, runProblem
from .TrainingSettings import TrainingSettings, settingsProblem

_BAR = 1000  # value of the full progress bar
_YIELD_SECONDS = 0.01  # see `Session.tick`; by hand
_LAST_SETTINGS = "training"  # key under which this computer stores the settings of the last run


class TrainingPanel:
    """The form, and below it the sections "Run" and "Result". At first the form shows the settings of the last run on
    this computer.

    ui: the widgets by name. process: the training run. curves: the charts.
    """

    def __init__(self, ui, process: TrainingProcess, curves: TrainingCurves) -> None:
        self.ui = ui
        self.process = process
        self.curves = curves
        self.form = TrainingForm(ui)
        self._run = RunState(Path())
        self._losses = LossCurve()
        self._validations = []
        self._news = ""  # rich text about the last event; empty after the user's next action
        self._stepped = False  # True if the current run has finished a step
        self._inPlots = False
        ui.startButton.connect("clicked(bool)", lambda: self._start(finishNow=False))
        ui.finishButton.connect("clicked(bool)", lambda: self._start(finishNow=True))
        ui.stopButton.connect("clicked(bool)", self._onStop)
        ui.installButton.connect("clicked(bool)", self._onInstall)
        ui.plotLossButton.connect(
            "clicked(bool)", lambda: self._plot(self.curves.showLoss(self._losses))
        )
        ui.plotValidationButton.connect(
            "clicked(bool)", lambda: self._plot(self.curves.showValidation(self._validations))
        )
        ui.useButton.connect("clicked(bool)", self._onUse)
        ui.openButton.connect("clicked(bool)", self._onOpen)
        self.form.show(lastSettings())
        self.form.changed.connect(self._onSettings)
        process.logged.connect(self._onLine)
        process.progressed.connect(self._onProgress)
        process.advanced.connect(self._onAdvanced)
        process.finished.connect(self._onFinished)
        self.refresh()

    def refresh(self) -> None:
        """Read the run's folder again, look for missing packages, and update the panel."""
        self._run = inspectRun(self.form.settings().runFolder)
        self._missingPackages = self._packages()
        if not self.process.running:
            self._losses = LossCurve.read(self._run.folder)
            self._validations = readValidations(self._run.folder)
        self._showCurves()
        self.update()

    def poll(self) -> None:
        """Read and show the progress of the run. Call `poll` a few times a second."""
        if self.process.running:
            # lets the threads run that read the trainer's output; see Session.tick
            time.sleep(_YIELD_SECONDS)
            self.process.poll()
            self.update()

    def update(self) -> None:
        """Show the state of the run in all widgets."""
        running = self.process.running
        run = self._run
        problem = "" if running else self._problem()
        canStart = not running and not problem
        self.form.setEnabled(not running)
        ui = self.ui
        isOwnKind = self.form.settings().isOwnKind
        for widget in (
            ui.trainingSection,
            ui.validationLabel,
            ui.validationFolderEdit,
            ui.finishButton,
            ui.plotLossButton,
            ui.plotValidationButton,
            ui.validationTitle,
            ui.validationResultLabel,
        ):
            widget.visible = not isOwnKind
        isBegun = run.stage in (UNFINISHED, FINISHED) and not isOwnKind
        ui.startButton.text = _("Resume") if isBegun and not running else _("Start")
        ui.startButton.enabled = canStart
        stop = _("Cancel") if isOwnKind else _("Stop")
        ui.stopButton.text = _("End at once") if self.process.stopping else stop
        ui.stopButton.enabled = running
        ui.finishButton.enabled = canStart and run.stage == UNFINISHED and run.steps > 0
        if not running:
            share = run.steps / run.settings.steps if run.steps else 0.0
            self._showProgress(1.0 if run.stage == FINISHED else share)
        ui.statusLabel.text = self._status(problem)
        ui.installButton.visible = bool(self._missingPackages) and not running
        self._showResult()

    def _onStop(self) -> None:
        """Ask the run to stop; the second click ends it at once."""
        if self.process.stopping:
            self.process.kill()
        else:
            self.process.stop()
        self.update()

    def _onInstall(self) -> None:
        try:
            self._news = install(self._packages())
        except InstallError as error:
            self._news = coloured(str(error), BAD)
        self.refresh()

    def _plot(self, chart) -> None:
        self._inPlots = True
        _showInLayout(chart)

    def _onUse(self) -> None:
        ModuleSettings.setValue(ModuleSettings.WEIGHTS, str(self._run.weights))
        self._news = coloured(_("All modules use the weights of this run from now on."), GOOD)
        self.update()

    def _onOpen(self) -> None:
        qt.QDesktopServices.openUrl(qt.QUrl.fromLocalFile(str(self._run.folder)))

    def _start(self, finishNow: bool) -> None:
        """Start or continue a training run. finishNow: True to train only one more step and then write the weights."""
        settings = self.form.settings()
        self.ui.logEdit.clear()
        try:
            self.process.start(settings, finishNow)
        except AnatomicalEmbeddingError as error:
            self._news = coloured(str(error), BAD)
        else:
            self._news = escape(_("Starting..."))
            self._stepped = False
            # a moving bar without a value: the duration is not known yet
            self.ui.progressBar.setRange(0, 0)
            ModuleSettings.setValue(_LAST_SETTINGS, json.dumps(settings.toDict()))
        self.refresh()

    def _onSettings(self) -> None:
        """Update the panel after a change of the form. A folder with a run shows the settings of this run."""
        if self.process.running:
            return
        self._news = ""
        if Path(self.form.settings().runFolder) == self._run.folder:
            self._missingPackages = self._packages()
            self.update()
            return
        self.refresh()
        if self._run.stage in (UNFINISHED, FINISHED):
            self.form.show(self._run.settings)  # a run continues with the settings of its start

    def _onLine(self, line: str) -> None:
        self.ui.logEdit.appendPlainText(line)
        if not self._stepped:
            self._news = escape(_("Preparing: {what}").format(what=line))

    def _onProgress(self, progress: TrainingProgress) -> None:
        """Show a finished step: its curves, the share that is done, and the time that is left."""
        self._losses.add(progress.step, progress.loss)
        self._validations = readValidations(self._run.folder)
        self._stepped = True
        self._showCurves()
        self._showProgress(progress.share)
        text = _(
            "Step {step} of {steps}, loss {loss:.3g}, {seconds:.2g} s per step, about {left} left."
        )
        self._news = text.format(
            step=progress.step,
            steps=progress.steps,
            loss=progress.loss,
            seconds=progress.secondsPerStep,
            left=_duration(progress.secondsLeft),
        )

    def _onAdvanced(self, share: float, stage: str) -> None:
        self._stepped = True
        self._showProgress(share)
        self._news = escape(f"{100 * share:.0f} %: {stage}")

    def _onFinished(self, outcome: str, sentence: str) -> None:
        """Show the outcome of a run: FINISHED, STOPPED or FAILED. sentence: the reason of a failure."""
        self.refresh()
        if outcome == FAILED:
            self._news = coloured(sentence, BAD)
            self.ui.logGroup.collapsed = False
        elif outcome == STOPPED:
            self._news = ""
        else:
            steps = self._run.steps
            text = _("Finished after {steps} steps.") if steps else _("Finished.")
            self._news = coloured(text.format(steps=steps), GOOD)
        self.update()

    def _packages(self) -> list[str]:
        """Return the names of missing packages; the errors of scans of an own kind are learnt with scikit-learn."""
        missing = list(Engine.missingPackages())
        if self.form.settings().isOwnKind and find_spec("sklearn") is None:
            missing.append("scikit-learn")
        return missing

    def _problem(self) -> str:
        """Return why a run cannot start, as a sentence with the remedy; "" if it can."""
        if self._missingPackages:
            return _("Training needs {names}; press Install packages.").format(
                names=", ".join(self._missingPackages)
            )
        settings = self.form.settings()
        return settingsProblem(settings) or runProblem(settings, self._run) or ""

    def _status(self, problem: str) -> str:
        """Return the rich text of the status label. problem: the result of `_problem`."""
        if self.process.stopping:
            if self.form.settings().isOwnKind:
                return escape(_("Cancelling..."))
            return escape(_("Stopping: the current step is finished and saved first."))
        if self._news:
            return self._news
        if problem:
            return coloured(problem, WARNING)
        if self._run.stage == UNFINISHED:
            text = _(
                "The run in this folder was stopped at step {step} of {steps}; press Resume to continue."
            )
            return escape(text.format(step=self._run.steps, steps=self._run.settings.steps))
        if self._run.stage == FINISHED:
            text = _(
                "The run in this folder ended because its time was used up; press Resume to continue."
            )
            return escape(text)
        return escape(_("Ready to start."))

    def _showProgress(self, share: float) -> None:
        self.ui.progressBar.setRange(0, _BAR)
        self.ui.progressBar.value = round(_BAR * share)

    def _showResult(self) -> None:
        """Show the weights of a finished run, and the errors of its best validation."""
        ui = self.ui
        weights = self._run.weights
        ui.weightsEdit.text = "" if weights is None or self.process.running else str(weights)
        ui.useButton.enabled = bool(ui.weightsEdit.text)
        ui.openButton.enabled = bool(self.form.settings().runFolder) and self._run.folder.is_dir()
        ui.validationResultLabel.text = self._validationText()

    def _validationText(self) -> str:
        """Return the median error of each kind of points at the step whose weights are kept."""
        best = bestOf(self._validations)
        if best is None:
            return _("none yet")
        words = {
            "phantom": _("synthetic patients"),
            "centre": _("organ centres"),
            "extreme": _("organ borders"),
            "landmark": _("landmarks"),
        }
        errors = [
            f"{words.get(kind, kind)} {error:.1f} mm"
            for kind, error in best.items()
            if kind != "step"
        ]
        text = _("Median errors at step {step}, the best step: {errors}")
        return text.format(step=int(best["step"]), errors=", ".join(errors))

    def _showCurves(self) -> None:
        """Enable the buttons of the charts. Update the charts once the user has opened one of them."""
        self.ui.plotLossButton.enabled = bool(self._losses.steps)
        self.ui.plotValidationButton.enabled = bool(self._validations)
        if self._inPlots:
            self.curves.showLoss(self._losses)
            self.curves.showValidation(self._validations)


def lastSettings() -> TrainingSettings:
    """Return the settings of the last run on this computer, but with a new folder for the run."""
    try:
        values = json.loads(ModuleSettings.value(_LAST_SETTINGS, "{}"))
    except ValueError:
        values = {}
    settings = TrainingSettings.fromDict(values if isinstance(values, dict) else {})
    parent = Path.home() / "AnatomicalEmbedding"
    if settings.runFolder:
        parent = Path(settings.runFolder).parent
    number = 1
    while (parent / f"training-{number}").exists():
        number += 1
    return replace(settings, runFolder=str(parent / f"training-{number}"))


def _showInLayout(chart) -> None:
    if slicer.app.layoutManager() is not None:
        slicer.modules.plots.logic().ShowChartInLayout(chart)


def _duration(seconds: float) -> str:
    """Return hours and minutes as text, at least one minute."""
    hours, minutes = divmod(max(round(seconds / 60), 1), 60)
    text = _("{hours} h {minutes} min") if hours else _("{minutes} min")
    return text.format(hours=hours, minutes=minutes)
