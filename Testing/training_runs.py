"""Shared by the tests of training: a stand-in for the trainer, which obeys the test, and functions that wait."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from AnatomicalEmbeddingLib.training.TrainingProcess import TrainingProcess
from AnatomicalEmbeddingLib.training.TrainingSettings import TrainingSettings

_PRELUDE = """
import json, os, signal, subprocess, sys, time
from pathlib import Path

folder = Path(sys.argv[sys.argv.index("-o") + 1])
asked = []

def step(n, steps=10, loss=1.0):
    print(json.dumps({"step": n, "steps": steps, "loss": loss, "seconds_per_step": 2.0}), flush=True)

def say(line):
    print(line, file=sys.stderr, flush=True)

def obey_signals():
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))

def main():
"""


def fake_engine(folder: Path, body: str) -> Path:
    """A folder whose package AnatomicalEmbedding has a command line that runs `body`, lines of a function."""
    package = folder / "AnatomicalEmbedding" / "cli"
    package.mkdir(parents=True)
    for init in (package.parent / "__init__.py", package / "__init__.py"):
        init.write_text("")
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    (package / "main.py").write_text(_PRELUDE + lines + "\n")
    return folder


class Watched:
    """A process and all that it emitted. options: attributes of the process."""

    def __init__(self, **options: object) -> None:
        self.process = TrainingProcess([sys.executable])
        vars(self.process).update(options)
        self.lines = []
        self.progress = []
        self.results = []
        self.process.logged.connect(self.lines.append)
        self.process.progressed.connect(self.progress.append)
        self.process.finished.connect(
            lambda outcome, sentence: self.results.append((outcome, sentence))
        )

    def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        """Poll until the condition holds; fails when it does not in time."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"nothing came of it; log: {self.lines}"
            assert not self.results or self.process.running, (
                f"the run ended: {self.results}, log: {self.lines}"
            )
            self.process.poll()
            time.sleep(0.01)

    def result(self, seconds: float = 60.0) -> tuple[str, str]:
        """How the run ended: the outcome, and the reason of a failure."""
        self.until(lambda: self.results, seconds)
        return self.results[-1]

    def group(self) -> int:
        """Process group of the run, for `group_is_empty` once it has ended."""
        return self.process._child.pid


def group_is_empty(group: int) -> bool:
    """Has every process of a group ended? Those that only wait for a parent to take notice have."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = stat.read_text().rpartition(") ")[2].split()[:3]
        except OSError:  # it ended just now
            continue
        if int(its_group) == group and state not in "ZX":
            return False
    return True


def settings(folder: Path, **values: object) -> TrainingSettings:
    """Settings of a run in folder/run on the scans of folder/scans, which is made."""
    (folder / "scans").mkdir(exist_ok=True)
    standard = {"scanFolders": (str(folder / "scans"),), "runFolder": str(folder / "run")}
    return TrainingSettings(**(standard | values))
