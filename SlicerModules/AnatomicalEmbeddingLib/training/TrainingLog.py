"""The files loss.csv and validation.csv of a run, which can be read while the run writes them."""

from __future__ import annotations

import csv
import math
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

_KEPT = 0.98  # of the trainer's running mean, that about 50 steps make


@dataclass
class LossCurve:
    """The running mean of the loss at each step, as the trainer reports it: read from a folder, then added to live.

    minutes: spent by the sittings that the folder recorded.
    """

    steps: list[int] = field(default_factory=list)
    means: list[float] = field(default_factory=list)
    minutes: float = 0.0

    @classmethod
    def read(cls, folder: str | Path) -> LossCurve:
        """The curve of a run's loss.csv; empty without one."""
        curve = cls()
        mean = math.nan
        for row in _rows(Path(folder) / "loss.csv"):
            step, loss, minutes = _number(row, "step"), _number(row, "loss"), _number(row, "minutes")
            if math.isnan(step + loss):
                continue
            mean = loss if math.isnan(mean) else _KEPT * mean + (1 - _KEPT) * loss
            curve.add(int(step), mean)
            curve.minutes = curve.minutes if math.isnan(minutes) else minutes
        return curve

    @property
    def last(self) -> int:
        """The last step; 0 before the first."""
        return self.steps[-1] if self.steps else 0

    def add(self, step: int, mean: float) -> None:
        """Add a step, and drop later ones: a run that was killed does its last steps again."""
        if step <= self.last:
            kept = bisect_left(self.steps, step)
            del self.steps[kept:], self.means[kept:]
        self.steps.append(step)
        self.means.append(mean)


@dataclass(frozen=True)
class Validations:
    """Median errors in mm, by kind. steps: (n,). errorsMm: kind -> (n,), NaN where that kind was not judged."""

    steps: np.ndarray
    errorsMm: dict[str, np.ndarray]

    @classmethod
    def read(cls, folder: str | Path) -> Validations:
        """The rows of a run's validation.csv; no rows without the file."""
        rows = [row for row in _rows(Path(folder) / "validation.csv") if not math.isnan(_number(row, "step"))]
        kinds = list(dict.fromkeys(kind for row in rows for kind in row if kind and kind != "step"))
        errors = {kind: np.array([_number(row, kind) for row in rows]) for kind in kinds}
        steps = np.array([int(_number(row, "step")) for row in rows], dtype=int)
        return cls(steps, {kind: values for kind, values in errors.items() if not np.isnan(values).all()})

    def __len__(self) -> int:
        return len(self.steps)

    def at(self, index: int) -> dict[str, float]:
        """Error in mm of each kind that one row has."""
        row = {kind: float(values[index]) for kind, values in self.errorsMm.items()}
        return {kind: value for kind, value in row.items() if not math.isnan(value)}

    def best(self) -> int | None:
        """The row whose weights the run keeps: that of the least mean over kinds, the first of equals."""
        scores = [np.mean(list(found.values())) if (found := self.at(n)) else math.inf for n in range(len(self))]
        return int(np.argmin(scores)) if scores and min(scores) < math.inf else None


def signature(path: str | Path) -> tuple[int, int] | None:
    """A key that changes when a file is written; None without the file."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _rows(path: Path) -> list[dict[str, str]]:
    """The complete lines of a CSV file by column; what follows the last line end is still being written."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    complete = text[: text.rfind("\n") + 1]
    return list(csv.DictReader(complete.splitlines()))


def _number(row: dict[str, str], column: str) -> float:
    """The value, or NaN where it is missing or no number."""
    try:
        value = float(row.get(column) or math.nan)
    except (TypeError, ValueError):
        return math.nan
    return value if math.isfinite(value) else math.nan
