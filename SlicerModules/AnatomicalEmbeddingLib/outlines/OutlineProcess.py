"""Training on the examples and outlining the scans: two commands of the engine, one after the other, in a process."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..shared.processes.EngineProcess import FAILED, FINISHED, STOPPED, EngineProcess, stopReason
from ..shared.Signal import Signal
from .OutlineFolder import OutlineFolder

_PROGRESS = re.compile(r"^anatemb: (\d+) % (.*?): (.*)$")
_SKIPPED = "anatemb: skipped: "
TRAINING_SECONDS, SECONDS_A_SCAN = 120, 12  # on a processor of two cores, scans and structures of usual size


def expectedMinutes(scans: int) -> int:
    """About how long it takes to learn from a few examples and to outline some scans."""
    return max(1, round((TRAINING_SECONDS + scans * SECONDS_A_SCAN) / 60))


class OutlineProcess(EngineProcess):
    """Signals: logged(line); skipped(sentence) for a scan that could not be outlined; finished(outcome, sentence):
    FINISHED, STOPPED, or FAILED with the reason. progress: share of all (0..1) and what is being done. run: folder of
    the training under way.
    """

    progress: tuple[float, str] = (0.0, "")
    mostMinutes: float | None = None  # for learning; None: what it needs

    def start(
        self, folder: OutlineFolder, scans: int, options: Sequence[str], weights: str, environment: Mapping[str, str]
    ) -> None:
        """Train on the folder's examples, then outline its scans. options: of both commands, as `--device cpu`.

        Raises AnatomicalEmbeddingError when the process cannot be started.
        """
        self.requireReady()
        self.run = folder.run()
        run = str(self.run)
        self._folder, self._variables = folder, environment
        self._trains = TRAINING_SECONDS / (TRAINING_SECONDS + scans * SECONDS_A_SCAN)
        most = [] if self.mostMinutes is None else ["--minutes", f"{self.mostMinutes:g}"]
        self._commands = [
            ["segment", "train", str(folder.examples), "-o", run, "--model", weights, *most, *options],
            ["segment", "run", str(folder.scans), "--model", run, "-o", str(folder.results), "--no-report", *options],
        ]
        self.outlining, self.progress = False, (0.0, "")
        self._next()

    def _next(self) -> None:
        self.begin(self._commands.pop(0), self._folder.path, self._variables)
        self.outlining = not self._commands

    def onLine(self, line: str) -> None:
        if line.startswith(_SKIPPED):
            self.skipped.emit(line.removeprefix(_SKIPPED))
        found = _PROGRESS.match(line)
        if found is None:
            return
        share, name, what = int(found[1]) / 100, found[2], found[3]
        if self.outlining:
            self.progress = self._trains + (1 - self._trains) * share, name
        else:
            self.progress = self._trains * share, what

    def onEnded(self, code: int, lines: Sequence[str], stopped: bool) -> None:
        some = self.outlining and any(line.startswith(_SKIPPED) for line in lines)
        if stopped:
            self.finished.emit(STOPPED, "")
        elif code == 0 and self._commands:
            self._next()
        elif code == 0 or some:  # scans that could not be outlined were reported one by one
            self.finished.emit(FINISHED, "")
        else:
            self.finished.emit(FAILED, stopReason(code, lines))

    def _newSignals(self) -> None:
        super()._newSignals()
        self.skipped, self.finished = Signal(), Signal()
        self.logged.connect(self.onLine)
