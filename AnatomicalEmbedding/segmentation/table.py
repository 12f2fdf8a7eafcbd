"""The table of outlines, volumes.csv: one row for each scan and structure, with the order in which to look at them."""

import csv
from collections.abc import Sequence
from pathlib import Path

from .outlining import Outline

COLUMNS = ("scan", "structure", "status", "volume_ml", "look", "doubt", "remark")
TABLE_NAME = "volumes.csv"
_LOOK, _DOUBT = COLUMNS.index("look"), COLUMNS.index("doubt")


def table_rows(done: Sequence[tuple[str, Sequence[Outline]]]) -> list[list[object]]:
    """Rows of COLUMNS for the outlines of each scan. look: 1 for the outline that most deserves one, then 2 ..., by
    their doubt; both empty where a structure is absent.
    """
    rows: list[list[object]] = []
    for path, outlines in done:
        for one in outlines:
            sign = "" if one.doubt is None else round(one.doubt, 3)
            rows.append([path, one.name, one.status, round(one.volume_ml, 2), "", sign, one.remark])
    judged = [row for row in rows if row[_DOUBT] != ""]
    for place, row in enumerate(sorted(judged, key=lambda row: row[_DOUBT], reverse=True)):
        row[_LOOK] = place + 1
    return rows


def read_table(path: Path) -> dict[str, tuple[Outline, ...]]:
    """Read the outlines of each scan from a volumes.csv; {} where it is missing or damaged."""
    found: dict[str, list[Outline]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                sign = float(row["doubt"]) if row["doubt"] else None
                one = Outline(row["structure"], row["status"], float(row["volume_ml"]), sign, row["remark"])
                found.setdefault(row["scan"], []).append(one)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {scan: tuple(outlines) for scan, outlines in found.items()}
