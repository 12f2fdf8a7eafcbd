"""Reads the files loss.csv and validation.csv of a run, also while the run writes them."""

from __future__ import annotations

import csv
import math
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

_KEPT = 0.98  # weight of the former mean in the running mean; the same as in the trainer, about 50 steps


@dataclass
class LossCurve:
    """The running mean of the loss at each step. It is read from a folder; a run then adds its steps.

    minutes: training time that the folder has recorded, over all starts of the run.
    """

    steps: list[int] = field(default_factory=list)
    means: list[float] = field(default_factory=list)
    minutes: float = 0.0

    @classmethod
    def read(cls, folder: str | Path) -> LossCurve:
        """Read the curve from the run's loss.csv. Returns an empty curve if the file is missing."""
        curve = cls()
        mean = math.nan
        for row in _rows(Path(folder) / "loss.csv"):
            if "loss" in row:
                mean = row["loss"] if math.isnan(mean) else _KEPT * mean + (1 - _KEPT) * row["loss"]
                curve.add(int(row["step"]), mean)
                curve.minutes = row.get("minutes", curve.minutes)
        return curve

    @property
    def last(self) -> int:
        return self.steps[-1] if self.steps else 0

    def add(self, step: int, mean: float) -> None:
        """Add a step and remove later steps: a run that was killed repeats its last steps when it continues."""
        if step <= self.last:
            kept = bisect_left(self.steps, step)
            del self.steps[kept:], self.means[kept:]
        self.steps.append(step)
        self.means.append(mean)


def readValidations(folder: str | Path) -> list[dict[str, float]]:
    """Read a run's validation.csv. Each row has "step", and the median error in mm for each kind of point."""
    return [row for row in _rows(Path(folder) / "validation.csv") if len(row) > 1]


def bestOf(validations: list[dict[str, float]]) -> dict[str, float] | None:
    """Return the row whose weights the run keeps: the first row with the smallest mean error over kinds, or None."""
    return min(validations, key=lambda row: np.mean([row[kind] for kind in row if kind != "step"]), default=None)


def _rows(path: Path) -> list[dict[str, float]]:
    """Read the numbers of each line, by column. Lines without a step and incomplete last lines are skipped."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    table = csv.DictReader(text[: text.rfind("\n") + 1].splitlines())
    rows = [{column: _number(cell) for column, cell in row.items()} for row in table]
    finite = [{column: value for column, value in row.items() if math.isfinite(value)} for row in rows]
    return [row for row in finite if "step" in row]


def _number(cell: object) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return math.nan
