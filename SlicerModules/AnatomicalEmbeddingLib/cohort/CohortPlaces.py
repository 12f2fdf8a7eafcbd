"""Reads the table places.csv that `anatemb cohort find` writes: one line for each scan of a cohort."""

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
    """The place that was found in one scan of a cohort.

    name: display name of the scan, unique within a table. scan: a file, a folder, or folder#series. status: "matched",
    "uncertain" or "absent". probability: probability of the answer, 0 to 1. errorMm: expected error, mm. place:
    position, (3,) in the scan's own RAS mm. probability, errorMm and place are None if the table has no value.
    """

    name: str
    scan: str
    status: str
    probability: float | None
    errorMm: float | None
    place: np.ndarray | None


def readPlaces(path: str | Path) -> list[CohortPlace]:
    """Return the places in a file places.csv, line by line. Raises PointsError if the file is not a table of places."""
    from AnatomicalEmbedding.scan.sources import distinct_names

    path = Path(path)
    remedy = "choose a file places.csv from `anatemb cohort find`."
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file, strict=True)
            if tuple(table.fieldnames or ()) != _COLUMNS:
                raise PointsError(
                    f"{path}: this file has other columns than a table of places; {remedy}"
                )
            places = [_place(row) for row in table]
    except OSError as error:
        raise PointsError(f"{path}: cannot be read ({error.strerror}); {remedy}") from None
    except (ValueError, csv.Error) as error:
        raise PointsError(f"{path}: line {table.line_num} is damaged ({error}); {remedy}") from None
    names = distinct_names([place.scan for place in places])
    return [replace(place, name=name) for place, name in zip(places, names, strict=True)]


def _place(row: dict) -> CohortPlace:
    """Convert a row of the table to a place with an empty name. Raises ValueError if a value is missing or wrong."""
    isComplete = set(row) == set(_COLUMNS) and None not in row.values()
    if not isComplete or not row["scan"] or row["status"] not in _STATUS:
        raise ValueError(
            "the number of values is wrong, the scan is missing, or the status is unknown"
        )
    numbers = [float(row[name]) if row[name] else None for name in _COLUMNS[2:]]
    isFinite = all(number is None or math.isfinite(number) for number in numbers)
    chance, error, *place = numbers
    if place.count(None) not in (0, 3) or not isFinite:
        raise ValueError("the position of the place needs three finite numbers")
    point = None if None in place else np.array(place)
    return CohortPlace("", row["scan"], row["status"], chance, error, point)
