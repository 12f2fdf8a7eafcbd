"""The table of outlines, volumes.csv: one row for each scan and structure, those to look at first numbered."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from .outlining import Outline
from .quality import Quality

COLUMNS = (
    "scan", "structure", "status", "volume_ml", "predicted_dice", "low", "high", "volume_low_ml", "volume_high_ml",
    "look", "remark",
)  # fmt: skip
TABLE_NAME = "volumes.csv"
_LOOK = COLUMNS.index("look")
_DICE = COLUMNS.index("predicted_dice")


def table_rows(done: Sequence[tuple[str, Sequence[Outline]]]) -> list[list[object]]:
    """Rows of COLUMNS for the outlines of each scan. look: 1 for the outline that most deserves one, then 2 ..."""
    rows: list[list[object]] = []
    for path, outlines in done:
        for one in outlines:
            row: list[object] = [path, one.name, one.status, round(one.volume_ml, 2)]
            if one.quality is None:
                row += [""] * 5
            else:
                q = one.quality
                row += [round(x, 3) for x in (q.dice, q.low, q.high)]
                row += [round(one.volume_ml * x, 2) for x in (q.volume_low, q.volume_high)]
            rows.append([*row, "", one.remark])
    for place, row in enumerate(sorted((row for row in rows if row[_DICE] != ""), key=lambda row: row[_DICE])):
        row[_LOOK] = place + 1
    return rows


def read_table(path: Path) -> dict[str, tuple[Outline, ...]]:
    """The outlines of each scan in a volumes.csv, as exact as it is written; none where it is missing or damaged."""
    found: dict[str, list[Outline]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                volume = float(row["volume_ml"])
                quality = _quality(row, volume) if row["predicted_dice"] else None
                one = Outline(row["structure"], row["status"], volume, quality, row["remark"])
                found.setdefault(row["scan"], []).append(one)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {scan: tuple(outlines) for scan, outlines in found.items()}


def _quality(row: dict[str, str], volume: float) -> Quality:
    dice, low, high = (float(row[key]) for key in ("predicted_dice", "low", "high"))
    ratios = [float(row[key]) / volume if volume else 1.0 for key in ("volume_low_ml", "volume_high_ml")]
    return Quality(dice, low, high, *ratios)
