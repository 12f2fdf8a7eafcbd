"""The log of a run: CSV files, and TensorBoard's where that package is installed."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

_COLUMNS = ("step", "loss", "learning_rate", "minutes")


class StepLog:
    """Use as a context. `folder`/loss.csv continues after `steps_kept`: later rows, lost by a kill, are dropped."""

    def __init__(self, folder: Path, steps_kept: int):
        self._folder = folder
        path = folder / "loss.csv"
        rows = _rows_until(path, steps_kept)
        self._file = path.open("w", newline="")
        self._table = csv.DictWriter(self._file, _COLUMNS)
        self._table.writeheader()
        self._table.writerows(rows)
        self._board = _tensorboard(folder / "tensorboard", steps_kept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()

    def write(self, step: int, loss: float, learning_rate: float, minutes: float) -> None:
        values = (step, f"{loss:.5f}", f"{learning_rate:.2e}", f"{minutes:.2f}")
        self._table.writerow(dict(zip(_COLUMNS, values, strict=True)))
        if self._board is not None:
            self._board.add_scalar("loss", loss, step)
            self._board.add_scalar("learning rate", learning_rate, step)

    def validation(self, step: int, errors_mm: dict[str, float]) -> None:
        """A row of `folder`/validation.csv."""
        path = self._folder / "validation.csv"
        rows = _rows_until(path, step - 1)
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, ("step", *errors_mm))
            table.writeheader()
            table.writerows([*rows, {"step": step} | {kind: f"{value:.2f}" for kind, value in errors_mm.items()}])
        if self._board is not None:
            self._board.add_scalars("median error in mm", errors_mm, step)

    def flush(self) -> None:
        self._file.flush()


def _rows_until(path: Path, step: int) -> list[dict[str, str]]:
    """The rows of a CSV up to a step; [] for a missing file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if int(row["step"]) <= step]


def _tensorboard(folder: Path, steps_kept: int) -> SummaryWriter | None:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=steps_kept + 1)
