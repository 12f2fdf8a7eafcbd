"""Lesions that a person marked elsewhere: a list of points, or of lines drawn along their longest diameters."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from ..errors import PointsError
from ..points import read_points
from .lesions import Axis, Point
from .record import FollowUp

_SAME_MM = 1.0  # two marks of one lesion in one scan


@dataclass(frozen=True)
class MarkedLesion:
    """name: may be "". point_ras: its place. long_axis: where a line was drawn."""

    name: str
    point_ras: Point
    long_axis: Axis | None = None


def read_lesions(path: str | Path) -> list[MarkedLesion]:
    """Read a Slicer markups file or a .csv: each point is a lesion; each line too, with its long axis.

    Raises what `read_points` raises, and PointsError for a line without two ends.
    """
    points = read_points(path)
    places = [tuple(place) for place in points.points_ras.tolist()]
    lines = _lines(Path(path))
    if lines is None:
        return [MarkedLesion(label, place) for label, place in zip(points.labels, places, strict=True)]
    found, at = [], 0
    for name, is_line, count in lines:
        labels, group = points.labels[at : at + count], places[at : at + count]
        at += count
        if not is_line:
            found += [MarkedLesion(label, place) for label, place in zip(labels, group, strict=True)]
        elif count == 2:
            middle = tuple((a + b) / 2 for a, b in zip(*group, strict=True))
            found.append(MarkedLesion(name, middle, (group[0], group[1])))
        elif count:
            raise PointsError(f"{path}: line {name!r} has one end only; place the other, or delete the line.")
    return found


def _lines(path: Path) -> list[tuple[str, bool, int]] | None:
    """Of each markup in a file that `read_points` has read: name, whether it is a line, its points with a position."""
    if path.suffix.lower() != ".json":
        return None
    markups = json.loads(path.read_text(encoding="utf-8-sig"))["markups"]

    def placed(markup: dict) -> int:
        points = markup.get("controlPoints") or ()
        return sum(point.get("positionStatus", "defined") == "defined" for point in points)

    return [(str(m.get("name") or ""), m.get("type") == "Line", placed(m)) for m in markups]


def mark_lesions(record: FollowUp, study: str, lesions: list[MarkedLesion]) -> FollowUp:
    """The record with lesions marked in a study. One that it has there already is left as it is; one of the name of a
    lesion known from other studies alone is that lesion.
    """
    for marked in lesions:
        seen = [lesion for lesion in record.lesions if (f := lesion.findings.get(study)) is not None and f.visible]
        if any(math.dist(each.findings[study].point_ras, marked.point_ras) < _SAME_MM for each in seen):
            continue
        elsewhere = [each for each in record.lesions if marked.name and each.name == marked.name and each not in seen]
        lesion_id = elsewhere[0].id if len(elsewhere) == 1 else record.free_id()
        known = lesion_id if elsewhere[:1] and elsewhere[0].id == lesion_id else None
        record = record.mark(study, marked.point_ras, known)
        if known is None:
            record = record.describe(lesion_id, name=marked.name)
        if marked.long_axis is not None:
            record = record.measure(lesion_id, study, marked.long_axis, None)
    return record
