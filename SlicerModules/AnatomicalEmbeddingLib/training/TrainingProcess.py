"""Runs the trainer as a child process, and reports the progress and the outcome of the training."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..shared.processes.EngineProcess import (
    FAILED,
    FINISHED,
    STOPPED,
    EngineProcess,
    folderErrors,
    stopReason,
)
from ..shared.Signal import Signal
from .TrainingLog import LossCurve
from .TrainingRun import rememberRun
from .TrainingSettings import TrainingSettings

_USER_ERROR = 2  # exit code of the engine for an error that the user can correct
_SAVED = "run the same command to continue"  # part of the trainer's last message after it was asked to stop


@dataclass(frozen=True)
class TrainingProgress:
    """Progress after a step. loss: running mean over about 50 steps. share: finished fraction of the run, 0 to 1."""

    step: int
    steps: int
    loss: float
    secondsPerStep: float
    secondsLeft: float
    share: float


class TrainingProcess(EngineProcess):
    """Runs the trainer, one run at a time. `poll` emits these signals.

    Signal logged(line): a line of the log. Signal progressed(TrainingProgress), or advanced(share, stage) of a run on
    scans of an own kind. share: finished fraction, 0 to 1. Signal finished(outcome, sentence).
    outcome: FINISHED (weights were written), STOPPED (the run can be continued) or FAILED. sentence: the reason of
    a failure, otherwise "".
    """

    def start(self, settings: TrainingSettings, finishNow: bool = False) -> None:
        """Start the run in `settings.runFolder`, or continue it. finishNow: train one more step, then write weights.

        Raises AnatomicalEmbeddingError if the process cannot be started, or if the folder cannot be written to.
        """
        self.requireReady()
        with folderErrors(settings.runFolder):
            rememberRun(settings)
            self._budget = replace(settings, minutes=0) if finishNow else settings
            self._before = LossCurve.read(settings.runFolder)
            self._firstStep: int | None = None
            self._hasWeights = False
            self.begin(self._budget.arguments(), settings.runFolder)

    def onValues(self, values: dict) -> None:
        """Emit the signal for a line of the trainer; the last line names the weights."""
        if "weights" in values:
            self._hasWeights = True
        elif "step" in values:
            self.progressed.emit(self._progress(**values))
        elif "share" in values:
            self.advanced.emit(values["share"], values["stage"])

    def onEnded(self, code: int, lines: Sequence[str], stopped: bool) -> None:
        """Read the result of a training run.

        Args:
            code, lines, stopped: as in `EngineProcess.onEnded`.
        """
        if code == 0 and self._hasWeights:
            self.finished.emit(FINISHED, "")
        elif stopped and (code != _USER_ERROR or any(_SAVED in line for line in lines)):
            self.finished.emit(STOPPED, "")
        else:
            self.finished.emit(FAILED, stopReason(code, lines))

    def _newSignals(self) -> None:
        super()._newSignals()
        self.progressed = Signal()
        self.advanced = Signal()
        self.finished = Signal()

    def _progress(
        self, step: int, steps: int, loss: float, seconds_per_step: float
    ) -> TrainingProgress:
        """Return the progress after a step. steps: of the whole run. seconds_per_step: mean since this start."""
        if self._firstStep is None:
            self._firstStep = step
        # seconds of all starts of the run; the run ends after its steps or its minutes, whatever comes first
        spent = 60 * self._before.minutes + seconds_per_step * (step - self._firstStep + 1)
        byTime = 60 * self._budget.minutes - spent
        secondsLeft = max(min((steps - step) * seconds_per_step, byTime), 0.0)
        share = spent / (spent + secondsLeft) if spent > 0 else 0.0
        return TrainingProgress(step, steps, loss, seconds_per_step, secondsLeft, share)
