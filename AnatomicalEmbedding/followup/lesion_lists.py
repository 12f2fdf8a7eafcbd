"""Lesions marked in other programs: a list of points, or of lines along their longest diameters."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import PointsError
from ..files import parse_json
from ..scan.points import read_points
from .lesions import MARKED, Axis, Lesion, Point
from .record import FollowUp

_SAME_MM = 1.0  # two marks of one lesion in one scan
# Points of Slicer are called LIST-1, of a list F or F_1; lines L or L_1; rows without a name by their number; our
# lesions L1 or R1.
_AUTOMATIC = re.compile(r"[FLPR]?[-_]?\d*|Line(_\d+)?|.*-\d+", re.IGNORECASE)


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
    markups = parse_json(path.read_text(encoding="utf-8-sig"))["markups"]

    def placed(markup: dict) -> int:
        points = markup.get("controlPoints") or ()
        return sum(point.get("positionStatus", "defined") == "defined" for point in points)

    return [(str(m.get("name") or ""), m.get("type") == "Line", placed(m)) for m in markups]


@dataclass(frozen=True)
class Marked:
    """record: with the lesions of a list. notes: sentences on unchanged lesions, and on new ones to review."""

    record: FollowUp
    notes: tuple[str, ...]


def mark_lesions(record: FollowUp, study: str, lesions: Sequence[MarkedLesion]) -> Marked:
    """The record with lesions marked in a study, and notes.

    A lesion that is already marked there, at this place or by this name, stays; it receives the line where it has no
    measurement. One with the name of a single lesion known from other studies is that lesion, unless the name is one
    that programs assign (F-1, L1, 3). Findings reviewed as not visible or outside stay too.
    """
    label, before = record.study(study).label, record
    notes, new = [], []
    for marked, there in zip(lesions, _same_lesions(record, study, lesions), strict=True):
        there = there or _seen_at(record, study, marked.point_ras)  # may be twice in the list
        if there is not None:
            record, remarks = _met_again(record, study, there, marked)
            notes += remarks
            continue
        lesion = _namesake(record, study, marked)
        if lesion is not None and is_automatic(marked.name):
            reason = f"{marked.name} in {label}: is a name that programs assign, so it is not taken for {lesion.label}"
            notes.append(f"{reason}; pair the two if they are one.")
            lesion = None
        if lesion is not None and study in lesion.findings and lesion.findings[study].reviewed:
            reason = f"{lesion.label}: was reviewed as {lesion.findings[study].state} in {label}"
            notes.append(f"{reason}; its place in the list was left out.")
            continue
        lesion_id = record.free_id() if lesion is None else lesion.id
        record = record.mark(study, marked.point_ras, None if lesion is None else lesion_id)
        if lesion is None:
            record = record.describe(lesion_id, name=marked.name)
            new.append(record.lesion(lesion_id).label)
        if marked.long_axis is not None:
            record = record.measure(lesion_id, study, marked.long_axis, None)
    if new and any(_is_marked(each, study) for each in before.lesions):
        notes.append(f"New in {label}: {', '.join(new)}; remove those that were removed before.")
    return Marked(record, tuple(notes))


def is_automatic(name: str) -> bool:
    """Is it a name assigned by a program?"""
    return _AUTOMATIC.fullmatch(name.strip()) is not None


def _same_lesions(record: FollowUp, study: str, lesions: Sequence[MarkedLesion]) -> list[str | None]:
    """Id of the lesion in this study that each one is: the one at its place; else by name, each lesion once."""
    same = [_seen_at(record, study, marked.point_ras) for marked in lesions]
    for n, marked in enumerate(lesions):
        if same[n] is not None or not marked.name:
            continue
        is_there = _is_marked if is_automatic(marked.name) else _is_visible
        named = [e for e in record.lesions if e.name == marked.name and e.id not in same and is_there(e, study)]
        if named:
            same[n] = min(named, key=lambda each: math.dist(each.findings[study].point_ras, marked.point_ras)).id
    return same


def _seen_at(record: FollowUp, study: str, point_ras: Point) -> str | None:
    for each in record.lesions:
        if _is_visible(each, study) and math.dist(each.findings[study].point_ras, point_ras) < _SAME_MM:
            return each.id
    return None


def _namesake(record: FollowUp, study: str, marked: MarkedLesion) -> Lesion | None:
    """The only lesion of this name that is not visible in this study."""
    named = [each for each in record.lesions if each.name == marked.name and not _is_visible(each, study)]
    return named[0] if marked.name and len(named) == 1 else None


def _met_again(record: FollowUp, study: str, lesion_id: str, marked: MarkedLesion) -> tuple[FollowUp, tuple[str, ...]]:
    """The record with the axis of a lesion that is already there and not measured; notes on what stays."""
    lesion, label = record.lesion(lesion_id), record.study(study).label
    found, axis = lesion.findings[study], marked.long_axis
    away = math.dist(found.point_ras, marked.point_ras)
    if away >= _SAME_MM:
        there = f"{away:.0f} mm from its place in the list"
        return record, (f"{lesion.label}: is marked in {label} already, {there}, and stays there.",)
    if axis is None or (found.size.confirmed and found.size.long_axis == axis):
        return record, ()
    if found.size.confirmed:
        return record, (f"{lesion.label}: is measured in {label} already; its line in the list was left out.",)
    return record.measure(lesion_id, study, axis, None), ()


def _is_visible(lesion: Lesion, study: str) -> bool:
    return study in lesion.findings and lesion.findings[study].visible


def _is_marked(lesion: Lesion, study: str) -> bool:
    """Was it marked in this study, not carried over?"""
    found = lesion.findings.get(study)
    return found is not None and found.state == MARKED and found.guess is None
