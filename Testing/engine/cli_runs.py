"""What the tests of the commands share: the outcome of a run, and a folder with scans, points and weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Place:
    """A folder with two torsos, points of the first, and small weights."""

    folder: Path
    template: Path
    target: Path
    points: Path
    labels: tuple[str, ...]
    points_ras: np.ndarray
    model: tuple[str, str]


def assert_refused(outcome: Outcome, *says: object) -> None:
    """Exit code 2, one sentence on stderr that says all of `says`, nothing on stdout."""
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith("anatemb: ")
    assert outcome.err.endswith((".\n", "?\n"))
    for what in says:
        assert str(what) in outcome.err
