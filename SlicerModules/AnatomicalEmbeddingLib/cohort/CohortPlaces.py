"""The table that `anatemb cohort find` writes: places.csv, a line for each scan of a cohort."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from AnatomicalEmbedding.errors import PointsError

_COLUMNS = ("scan", "status", "probability", "expected_error_mm", "r", "a", "s")
_STATUS = ("matched", "uncertain", "absent")


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
    from AnatomicalEmbedding.scan.sources import distinct_names

    path = Path(path)
    remedy = "choose a places.csv that `anatemb cohort find` has written."
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file, strict=True)
            if tuple(table.fieldnames or ()) != _COLUMNS:
                raise PointsError(f"{path}: has other columns than a table of places; {remedy}")
            places = [_place(row) for row in table]
    except OSError as error:
        raise PointsError(f"{path}: cannot be read ({error.strerror}); {remedy}") from None
    except (ValueError, csv.Error) as error:
        raise PointsError(f"{path}: line {table.line_num} is damaged ({error}); {remedy}") from None
    names = distinct_names([each.scan for each in places])
    return [replace(each, name=name) for each, name in zip(places, names, strict=True)]


def _place(row: dict) -> CohortPlace:
    """The place of a row, without a name. Raises ValueError where the row does not fit the columns."""
    if set(row) != set(_COLUMNS) or not row["scan"] or row["status"] not in _STATUS or None in row.values():
        raise ValueError("too few or too many values, no scan, or an unknown status")
    chance, error, *place = (float(row[name]) if row[name] else None for name in _COLUMNS[2:])
    numbers = [each for each in (chance, error, *place) if each is not None]
    if place.count(None) not in (0, 3) or not all(map(math.isfinite, numbers)):
        raise ValueError("an incomplete or infinite place")
    return CohortPlace("", row["scan"], row["status"], chance, error, None if None in place else np.array(place))
