"""The table that `anatemb cohort find` writes: places.csv, a line for each scan of a cohort."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

_COLUMNS = ("scan", "status", "probability", "expected_error_mm", "r", "a", "s")
_STATUS = ("matched", "uncertain", "absent")
_MOST_BYTES = 100_000_000  # of some hundred thousand scans


@dataclass(frozen=True, eq=False)
class CohortPlace:
    """name: of the scan, for people; no two of a table are alike. scan: a file, a folder, or folder#series.
    status: "matched", "uncertain" or "absent". probability: of the answer, 0 to 1, errorMm: expected error; None where
    the table states none. place: (3,) RAS mm of the scan's own frame, None where absent.
    """

    name: str
    scan: str
    status: str
    probability: float | None
    errorMm: float | None
    place: np.ndarray | None


def readPlaces(path: str | Path) -> list[CohortPlace]:
    """The places of a table, in its order. Raises PointsError, which names the file, where it is no such table."""
    from AnatomicalEmbedding.errors import PointsError
    from AnatomicalEmbedding.scan.sources import distinct_names

    path = Path(path)
    remedy = "choose a places.csv that `anatemb cohort find` has written."
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise PointsError(f"{path}: is too large for a table of places; {remedy}")
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file, strict=True)
            if tuple(table.fieldnames or ()) != _COLUMNS:
                raise PointsError(f"{path}: has other columns than a table of places; {remedy}")
            places = [_place(row, f"{path}: line {table.line_num}", remedy) for row in table]
    except OSError as error:
        raise PointsError(f"{path}: cannot be read ({error.strerror}); {remedy}") from None
    except (UnicodeDecodeError, csv.Error):
        raise PointsError(f"{path}: is damaged, or no table; {remedy}") from None
    names = distinct_names([each.scan for each in places])
    return [replace(each, name=name) for each, name in zip(places, names, strict=True)]


def _place(row: dict, where: str, remedy: str) -> CohortPlace:
    from AnatomicalEmbedding.errors import PointsError

    if set(row) != set(_COLUMNS) or None in row.values():
        raise PointsError(f"{where}: has more or fewer values than columns; {remedy}")
    if not row["scan"] or "\0" in row["scan"] or row["status"] not in _STATUS:
        raise PointsError(f"{where}: names no scan, or an unknown status; {remedy}")
    try:
        chance, error, *place = (float(row[name]) if row[name] else None for name in _COLUMNS[2:])
    except ValueError:
        raise PointsError(f"{where}: holds a word where a number belongs; {remedy}") from None
    whole = all(each is not None for each in place)
    if not all(each is None or math.isfinite(each) for each in (chance, error, *place)) or whole == (
        place == [None] * 3
    ):
        raise PointsError(f"{where}: holds an incomplete or infinite place; {remedy}")
    return CohortPlace("", row["scan"], row["status"], chance, error, np.array(place) if whole else None)
