"""The headless trainer as a child process: started, followed and stopped from the main thread, never waited for.

Slicer's modules call `poll` by a timer, tests by hand. The child and all it starts are one process group, so that a
kill leaves nothing behind; it stops by itself, after saving, when this application ends in whatever way.
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from ..Signal import Signal
from .TrainingLog import LossCurve, Validations, signature
from .TrainingRun import rememberRun
from .TrainingSettings import TrainingSettings

FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"
_STOP = "stop"  # file in the run's folder that asks the trainer to save and end
_CHILD = Path(__file__).with_name("TrainingChild.py")
_GRACE_SECONDS = 300.0  # a step and a validation may have to end first, on a slow computer
_LINGER_SECONDS = 10.0  # for what the trainer started, once the trainer has ended
_USER_ERROR = 2  # exit code of the command line: what was wrong is on stderr
_SAVED = "run the same command to go on"  # what the trainer says when it stopped because it was asked to
_LINES_KEPT = 200  # of stderr, among which the reason of a failure is looked for


@dataclass(frozen=True)
class TrainingProgress:
    """After a step. loss: running mean over about 50 steps. share: of the run, 0..1, by steps or by time."""

    step: int
    steps: int
    loss: float
    secondsPerStep: float
    secondsLeft: float
    share: float


@dataclass(frozen=True)
class TrainingResult:
    """How a run ended: FINISHED with weights, STOPPED (it can go on), or FAILED. sentence: the reason of a failure."""

    outcome: str
    weights: Path | None = None
    steps: int = 0
    sentence: str = ""


class TrainingProcess:
    """One run at a time. Signals, emitted by `poll` and `kill`: logged(line), progressed(TrainingProgress),
    validated(Validations) with all rows so far, finished(TrainingResult).

    pythonCommand: starts a Python that has the engine's packages. engineParent: the folder that holds the engine.
    graceSeconds: how long a run that was asked to stop may take before it is killed.
    """

    def __init__(
        self, pythonCommand: Sequence[str], engineParent: str | Path | None = None, graceSeconds: float = _GRACE_SECONDS
    ) -> None:
        self.pythonCommand = list(pythonCommand)
        self.engineParent = Path(engineParent) if engineParent is not None else _engineParent()
        self.graceSeconds = graceSeconds
        self.settings: TrainingSettings | None = None
        self._child: subprocess.Popen | None = None
        self._newSignals()

    @property
    def running(self) -> bool:
        """From `start` until `finished` was emitted."""
        return self._child is not None

    @property
    def stopping(self) -> bool:
        """Was the run asked to stop, and has not ended yet?"""
        return self.running and self._deadline is not None

    def start(self, settings: TrainingSettings, finishNow: bool = False) -> None:
        """Begin a run, or go on with the one in its folder; finishNow: for one more step, so that there are weights.

        Raises AnatomicalEmbeddingError when the process cannot be started or the folder not be written to.
        """
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

        if self.running:
            raise AnatomicalEmbeddingError("A run is under way; stop it before another is started.")
        if not self.pythonCommand:
            raise AnatomicalEmbeddingError("PythonSlicer was not found, and training needs it; install Slicer again.")
        try:
            rememberRun(settings)
            (Path(settings.runFolder) / _STOP).unlink(missing_ok=True)  # of a run that was killed before it saw it
        except OSError as error:
            reason = (error.strerror or "cannot be used").lower()
            raise AnatomicalEmbeddingError(f"{settings.runFolder}: {reason}; choose another folder.") from None
        self.settings = settings
        self._budget = replace(settings, minutes=0) if finishNow else settings
        self._before = LossCurve.read(settings.runFolder)
        self._firstStep: int | None = None
        self._result: dict | None = None
        self._errors: deque[str] = deque(maxlen=_LINES_KEPT)
        self._lines: queue.Queue[tuple[str, str | None]] = queue.Queue()
        self._open = 2
        self._deadline: float | None = None
        self._ended: float | None = None
        self._validationSeen = signature(self._validationFile)
        words = [*self.pythonCommand, str(_CHILD), str(self._stopFile), *self._budget.arguments()]
        try:
            self._child = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=self._environment(), cwd=settings.runFolder, **_ownGroup(),
            )  # fmt: skip
        except OSError as error:
            raise AnatomicalEmbeddingError(
                f"{self.pythonCommand[0]}: cannot be started ({error.strerror}); repair the installation of Slicer."
            ) from None
        for kind, stream in (("out", self._child.stdout), ("error", self._child.stderr)):
            threading.Thread(target=_read, args=(stream, kind, self._lines), daemon=True).start()

    def poll(self) -> None:
        """Emit what has happened since the last call; call it a few times a second while `running`."""
        if not self.running:
            return
        self._takeLines()
        self._lookForValidation()
        now = time.monotonic()
        if self._child.poll() is not None:
            self._ended = self._ended or now
            if self._open == 0:
                self._finish()
            elif now - self._ended > _LINGER_SECONDS:
                _kill(self._child)
        if self.stopping and now > self._deadline:
            _kill(self._child)

    def stop(self) -> None:
        """Ask the run to save and end; it is killed if it has not after `graceSeconds`."""
        if not self.running or self.stopping:
            return
        self._deadline = time.monotonic() + self.graceSeconds
        try:
            self._stopFile.touch()
        except OSError:  # the folder is gone: there is nothing to save to
            self._deadline = time.monotonic()

    def kill(self) -> None:
        """End the run and all it started at once; what it did since its last checkpoint is lost."""
        if self.running:
            self._deadline = time.monotonic()
            _kill(self._child)

    def close(self, seconds: float = 5.0) -> None:
        """For the end of the application: ask the run to save and end, and wait a little for it.

        A run that takes longer, for the step it is at, ends by itself soon after.
        """
        if not self.running:
            return
        self._newSignals()  # who listened may be going as well
        self.stop()
        end = time.monotonic() + seconds
        while self.running and time.monotonic() < end:
            self.poll()
            time.sleep(0.05)
        self._child = None

    def _newSignals(self) -> None:
        self.logged, self.progressed, self.validated, self.finished = Signal(), Signal(), Signal(), Signal()

    @property
    def _stopFile(self) -> Path:
        return Path(self.settings.runFolder) / _STOP

    @property
    def _validationFile(self) -> Path:
        return Path(self.settings.runFolder) / "validation.csv"

    def _environment(self) -> dict[str, str]:
        paths = [str(self.engineParent), os.environ.get("PYTHONPATH", "")]
        added = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}
        return os.environ | added

    def _takeLines(self) -> None:
        while True:
            try:
                kind, line = self._lines.get_nowait()
            except queue.Empty:
                return
            if line is None:
                self._open -= 1
            elif kind == "out" and (values := _json(line)) is not None:
                self._takeValues(values)
            else:
                self._errors.append(line)
                self.logged.emit(line)

    def _takeValues(self, values: dict) -> None:
        if "weights" in values:
            self._result = values
        elif "step" in values:
            self.progressed.emit(self._progress(**values))

    def _progress(self, step: int, steps: int, loss: float, seconds_per_step: float) -> TrainingProgress:
        if self._firstStep is None:
            self._firstStep = step
        spent = 60 * self._before.minutes + seconds_per_step * (step - self._firstStep + 1)
        left = min((steps - step) * seconds_per_step, 60 * self._budget.minutes - spent)
        left = max(left, 0.0)
        share = spent / (spent + left) if spent > 0 else 0.0
        return TrainingProgress(step, steps, loss, seconds_per_step, left, share)

    def _lookForValidation(self) -> None:
        now = signature(self._validationFile)
        if now != self._validationSeen:
            self._validationSeen = now
            found = Validations.read(self.settings.runFolder)
            if len(found):
                self.validated.emit(found)

    def _finish(self) -> None:
        self._lookForValidation()
        code, lines = self._child.returncode, list(self._errors)
        stopped = self.stopping and (code != _USER_ERROR or any(_SAVED in line for line in lines))
        self._child.stdout.close()
        self._child.stderr.close()
        self._stopFile.unlink(missing_ok=True)
        self._child = None
        if code == 0 and self._result is not None:
            result = TrainingResult(FINISHED, Path(self._result["weights"]), self._result["steps"])
        elif stopped:
            result = TrainingResult(STOPPED, steps=LossCurve.read(self.settings.runFolder).last)
        else:
            result = TrainingResult(FAILED, sentence=stopReason(code, lines))
        self.finished.emit(result)


def _engineParent() -> Path:
    import AnatomicalEmbedding

    return Path(AnatomicalEmbedding.__file__).resolve().parents[1]


def _ownGroup() -> dict[str, object]:
    """Options of Popen that make the child the head of a process group, without a console window."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
    return {"start_new_session": True}


def _kill(child: subprocess.Popen) -> None:
    """End a child and everything in its group."""
    if sys.platform == "win32":
        hidden = subprocess.CREATE_NO_WINDOW
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(child.pid)], capture_output=True, creationflags=hidden)
        return
    # they have all ended; macOS refuses where they have and were not waited for
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _read(stream: IO[bytes], kind: str, lines: queue.Queue) -> None:
    for line in stream:
        lines.put((kind, line.decode("utf-8", "replace").rstrip()))
    lines.put((kind, None))


def _json(line: str) -> dict | None:
    if not line.startswith("{"):
        return None
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


_REMEDIES = (
    (r"lightning[-_]fabric", "Training needs the package lightning-fabric; press Install packages."),
    (r"No module named '?torch\b", "Training needs PyTorch; press Install packages."),
    (
        r"No module named '?AnatomicalEmbedding\b",
        "The engine was not found next to this module; install the extension AnatomicalEmbedding again.",
    ),
    (
        r"OutOfMemoryError|CUDA out of memory|MPS backend out of memory",
        "The GPU's memory does not suffice; choose the device cpu, or close other programs that use the GPU.",
    ),
    (
        r"^MemoryError|Cannot allocate memory|DefaultCPUAllocator",
        "This computer's memory does not suffice; close other programs, or train on fewer scans.",
    ),
    (r"No space left on device", "The disk of the run's folder is full; make room, then resume."),
)
_STATED = "anatemb: "  # what the trainer says to its user
_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Pool)\b(?:: .*)?$")
_KILLED = (-9, 137)
_KILLED_BELOW_LAUNCHER = "exit abnormally"  # what Slicer's launcher says, which ends with code 1


def stopReason(code: int, lines: Sequence[str]) -> str:
    """The reason of a failure. code: the process's. lines: what it printed on stderr, the latest last."""
    stated = next((line for line in reversed(lines) if line.startswith(_STATED)), "")
    raised = next((line for line in reversed(lines) if _RAISED.match(line)), "")
    reason = stated or raised
    for pattern, remedy in _REMEDIES:
        if re.search(pattern, reason, re.IGNORECASE):
            return remedy
    if stated:
        return stated.removeprefix(_STATED)
    if code in _KILLED or (lines and _KILLED_BELOW_LAUNCHER in lines[-1]):
        return "The system ended the run, most often for want of memory; close other programs, then resume."
    last = raised or next((line for line in reversed(lines) if line.strip()), f"no message, exit code {code}")
    return f"The trainer ended unexpectedly ({last}); see the log."
