"""A command of the engine that learns from outlines or draws them, in a child process, with its progress."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..shared.processes.EngineProcess import EngineProcess, stopReason

_PROGRESS = re.compile(r"^anatemb: (\d+) % (.*?): (.*)$")
_SKIPPED = "anatemb: skipped: "
TRAINING_SECONDS, SECONDS_A_SCAN = 120, 12  # on a processor of two cores, scans and structures of usual size


def expectedMinutes(scans: int) -> int:
    """About how long it takes to learn from a few examples and to outline some scans."""
    return max(1, round((TRAINING_SECONDS + scans * SECONDS_A_SCAN) / 60))


class OutlineProcess(EngineProcess):
    """One command at a time. share (0..1), name, text: the progress that it printed last. skipped: sentences about
    scans that it could not outline. problem: why it ended early, a sentence; "" otherwise.
    """

    mostMinutes: float | None = None  # for learning; None: as long as it needs
    share, name, text, problem = 0.0, "", "", ""

    def start(self, words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        """Start a command, the words after `anatemb`. Raises AnatomicalEmbeddingError or OSError where it cannot."""
        self.share, self.name, self.text, self.problem = 0.0, "", "", ""
        self.skipped: list[str] = []
        self.begin(words, folder, environment)

    def onLine(self, line: str) -> None:
        if line.startswith(_SKIPPED):
            self.skipped.append(line.removeprefix(_SKIPPED))
        if (found := _PROGRESS.match(line)) is not None:
            self.share, self.name, self.text = int(found[1]) / 100, found[2], found[3]

    def onEnded(self, code: int, lines: Sequence[str], stopped: bool) -> None:
        if stopped:
            self.problem = "Stopped; Segment continues where it stopped."
        elif code and not self.skipped:  # a skipped scan gives a code as well
            self.problem = stopReason(code, lines)
