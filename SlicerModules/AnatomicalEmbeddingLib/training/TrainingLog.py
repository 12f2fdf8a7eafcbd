"""Reads the files loss.csv and validation.csv of a run, also while the run writes them."""

from __future__ import annotations

import csv
import math
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

_KEPT = 0.98  # weight of the old value in the running mean over about 50 steps, as in the trainer


@dataclass
class LossCurve:
    """The running mean of the loss at each step. `read` reads the curve from a run's folder; `add` adds a step.

    minutes: training time up to the last step, summed over all starts of the run.
    """

    steps: list[int] = field(default_factory=list)
    means: list[float] = field(default_factory=list)
    minutes: float = 0.0

    @classmethod
    def read(cls, folder: str | Path) -> LossCurve:
        """Read the curve from the file loss.csv of a run. If the file does not exist, the curve is empty."""
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
        """Add a step. If a killed run was continued, first remove this step and later steps from the curve."""
        if step <= self.last:
            first = bisect_left(self.steps, step)
            del self.steps[first:], self.means[first:]
        self.steps.append(step)
        self.means.append(mean)


def readValidations(folder: str | Path) -> list[dict[str, float]]:
    """Read the rows of a run's file validation.csv.

    A row has "step" and median errors in mm for kinds of points: "phantom" in synthetic patients; in labelled scans
    "landmark", "centre" (of structures) and "extreme" (outermost points of structures).
    """
    return [row for row in _rows(Path(folder) / "validation.csv") if len(row) > 1]


def bestOf(validations: list[dict[str, float]]) -> dict[str, float] | None:
    """Return the row with the smallest mean error; None without rows. The run keeps the weights of this row's step."""
    return min(
        validations,
        key=lambda row: np.mean([row[kind] for kind in row if kind != "step"]),
        default=None,
    )


def _rows(path: Path) -> list[dict[str, float]]:
    """Return column -> number for each complete line that has a step. Columns without a number are left out."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    # without the last line, which may be incomplete
    table = csv.DictReader(text[: text.rfind("\n") + 1].splitlines())
    rows = []
    for cells in table:
        numbers = {column: _number(cell) for column, cell in cells.items()}
        row = {column: number for column, number in numbers.items() if math.isfinite(number)}
        if "step" in row:
            rows.append(row)
    return rows


def _number(cell: object) -> float:
    """Return the number in a cell; NaN if it holds none."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return math.nan
