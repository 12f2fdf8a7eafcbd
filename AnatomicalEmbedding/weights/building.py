"""A build of weights: its settings, plan, files and progress. The module `stages` makes the files.

The network is trained in two or three rounds. Round A starts from random weights. It learns from label images,
synthetic patients, and the scans for which the heights of standard levels were read. The weights of a round give all
scans body coordinates for the next round.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

from ..errors import AnatomicalEmbeddingError, CancelCallback, CancelledError, require
from ..files import parse_json, write_text
from ..training.frames import LevelTable
from ..training.recipes import Recipe
from .budget import BuildPlan
from .data_index import read_data
from .model_card import NAMES

_REPORT_SECONDS = 15.0  # between two reports of progress


@dataclass(eq=False)
class WeightsBuild:
    """A build of all files that ship with weights, in the folder `folder`.

    Args:
        data: folder with index.csv; see `data_index`. DATA/train_levels.json, if it exists, has level readings.
        terms: "open" or "all", the terms of the data to use.
        hours: budget of all stages together, wall-clock hours on this machine.
        device: where networks are trained and run, such as "cpu".
        workers: processes that prepare batches.
        jobs: scans that are prepared at the same time.
        report: called with a line of text about the progress.
        cancelled: if it returns True, the build stops, with a CancelledError.

    Raises AnatomicalEmbeddingError if the index is wrong, or if the folder contains a build with another plan.
    """

    data: Path
    folder: Path
    terms: str
    recipe: Recipe
    hours: float = 1.0
    seed: int = 0
    device: str = "cpu"
    workers: int = 1
    jobs: int = 1
    report: Callable[[str], None] = print
    cancelled: CancelCallback = lambda: False

    def __post_init__(self) -> None:
        require("sklearn.ensemble", "scikit-learn", "calibrating needs", "train")
        self.scans, self.label_maps = read_data(self.data, self.terms)
        self.plan = BuildPlan.make(
            self.terms, self.recipe.name, self.seed, self.hours, self.scans, self.label_maps
        )
        self.work = self.folder / "build"
        table = self.data / "train_levels.json"
        self.levels = LevelTable.read(table) if table.is_file() else None
        path = self.folder / "plan.json"
        if path.is_file() and read_values(path) != asdict(self.plan):
            raise AnatomicalEmbeddingError(
                f"{path}: this folder contains a build with another plan, such as other hours, terms or data; "
                "give the same command as before, or choose another output folder."
            )
        if not path.is_file():
            write_values(path, asdict(self.plan))
        self._stage = ""  # the stage that runs
        self._report_s = -_REPORT_SECONDS  # time of the last report, s

    def result(self, suffix: str) -> Path:
        """Return the file of the finished weights, or of something that belongs to them, with this suffix."""
        return self.folder / f"{NAMES[self.terms]}{suffix}"

    def scans_of(self, name: str) -> Path:
        """Return the folder of the prepared scans of a round."""
        return self.work / f"scans_{name}"

    def weights_of(self, name: str) -> Path:
        """Return the file of the weights that a round makes."""
        return self.work / f"round_{name}.safetensors"

    def weights_before(self, name: str) -> Path | None:
        """Return the weights of the round before a round; None for the first round."""
        number = self.plan.rounds.index(name)
        return self.weights_of(self.plan.rounds[number - 1]) if number else None

    @contextmanager
    def running(self, stage: str) -> Iterator[None]:
        """Report that a stage begins, and add its duration to times.json when it ends or fails."""
        self._stage = stage
        self.report_progress(0.0, "begins", always=True)
        start_s = time.monotonic()
        core_start_s = _core_seconds()
        try:
            yield
        finally:
            path = self.work / "times.json"
            times = read_values(path) if path.is_file() else {}
            earlier = times.get(stage, {"hours": 0.0, "core_hours": 0.0})
            hours = (time.monotonic() - start_s) / 3600
            core_hours = (_core_seconds() - core_start_s) / 3600
            times[stage] = {
                "hours": round(earlier["hours"] + hours, 4),
                "core_hours": round(earlier["core_hours"] + core_hours, 4),
            }
            write_values(path, times)

    def report_progress(self, share: float, text: str, always: bool = False) -> None:
        """Report the progress of the stage and the expected end of the build. Raises CancelledError after a signal.

        Args:
            share: finished share of the stage, 0 to 1.
            text: what the stage does.
            always: report even if the last report was only some seconds ago.
        """
        stage = self._stage
        if self.cancelled():
            raise CancelledError(
                f"{self.folder}: stopped in the stage {stage}; give the same command to continue."
            )
        if always or time.monotonic() > self._report_s + _REPORT_SECONDS:
            self._report_s = time.monotonic()
            end = datetime.now() + timedelta(hours=self.plan.hours_to_end(stage, share))
            number = list(self.plan.hours).index(stage) + 1
            self.report(
                f"[{number}/{len(self.plan.hours)}] {stage}: {text}; expected end of the build {end:%a %H:%M}"
            )


def _core_seconds() -> float:
    """Return the processor time of this process and of its finished children, s."""
    return sum(os.times()[:4])


def read_values(path: Path) -> dict:
    """Read a JSON file of a build. Raises AnatomicalEmbeddingError if it is missing or damaged."""
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise AnatomicalEmbeddingError(
            f"{path}: is missing or damaged; write it again, or delete the build."
        ) from None


def write_values(path: Path, values: object) -> None:
    write_text(path, json.dumps(values, indent=1))
