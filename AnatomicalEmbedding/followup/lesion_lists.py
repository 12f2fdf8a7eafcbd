"""Lesions marked in other programs: a list of points, or of lines along their longest diameters."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import PointsError
from ..files import parse_json
from ..scan.points import read_points
from .lesions import MARKED, Axis, Finding, Lesion, Point
from .record import FollowUp

_SAME_MM = 1.0  # two marks of one lesion in one scan
# Points of Slicer are called LIST-1, of a list F or F_1; lines L or L_1; rows without a name by their number; our
# lesions L1 or R1.
_AUTOMATIC = re.compile(r"[FLPR]?[-_]?\d*|Line(_\d+)?|.*-\d+", re.IGNORECASE)


@dataclass(frozen=True)
class MarkedLesion:
    """A lesion of a list. name: may be "". point_ras: RAS mm. long_axis: the ends of its line, if it is a line."""

    name: str
    point_ras: Point
    long_axis: Axis | None = None


def read_lesions(path: str | Path) -> list[MarkedLesion]:
    """Read a Slicer markups file or a .csv file. Each point is a lesion, and each line is one with its long axis.

    Raises PointsError for a file that `read_points` refuses, and for a line without two ends.
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
    """Name, whether it is a line, and the count of placed points of each markup in a file; None for a .csv file."""
    if path.suffix.lower() != ".json":
        return None
    markups = parse_json(path.read_text(encoding="utf-8-sig"))["markups"]

    def placed(markup: dict) -> int:
        points = markup.get("controlPoints") or ()
        return sum(point.get("positionStatus", "defined") == "defined" for point in points)

    return [(str(m.get("name") or ""), m.get("type") == "Line", placed(m)) for m in markups]


@dataclass(frozen=True)
class Marked:
    """record: with the lesions of a list. notes: sentences on lesions of the list that change nothing."""

    record: FollowUp
    notes: tuple[str, ...]


def mark_lesions(record: FollowUp, study: str, lesions: Sequence[MarkedLesion]) -> Marked:
    """Mark the lesions of a list in a study.

    A lesion that is already marked there, at this place or by this name, stays; it receives the line where it has no
    measurement. A lesion with the name of a single one known from other studies is that one, unless programs assign
    such names (F-1, L1, 3). Findings reviewed as not visible or outside stay too.
    """
    label, notes = record.study(study).label, []
    for marked, match in zip(lesions, _same_lesions(record, study, lesions), strict=True):
        lesion_id = match or _seen_at(record, study, marked.point_ras)  # a lesion may be twice in the list
        if lesion_id is not None:
            found = record.lesion(lesion_id).findings[study]
            away = math.dist(found.point_ras, marked.point_ras)
            if away >= _SAME_MM:
                there = f"{away:.0f} mm from its place in the list"
                notes.append(
                    f"{record.lesion(lesion_id).label}: is marked in {label} already, {there}, and stays there."
                )
            elif marked.long_axis is not None and not found.size.confirmed:
                record = record.measure(lesion_id, study, marked.long_axis, None)
            continue
        lesion = _namesake(record, study, marked)
        if lesion is not None and study in lesion.findings and lesion.findings[study].reviewed:
            reason = f"{lesion.label}: was reviewed as {lesion.findings[study].state} in {label}"
            notes.append(f"{reason}; its place in the list was left out.")
            continue
        lesion_id = record.free_id() if lesion is None else lesion.id
        record = record.mark(study, marked.point_ras, None if lesion is None else lesion_id)
        if lesion is None:
            record = record.describe(lesion_id, name=marked.name)
        if marked.long_axis is not None:
            record = record.measure(lesion_id, study, marked.long_axis, None)
    return Marked(record, tuple(notes))


def is_automatic(name: str) -> bool:
    """Whether programs assign such a name."""
    return _AUTOMATIC.fullmatch(name.strip()) is not None


def _same_lesions(record: FollowUp, study: str, lesions: Sequence[MarkedLesion]) -> list[str | None]:
    """Id of the lesion in this study that each one is: the one at its place, else the nearest of its name."""
    same = [_seen_at(record, study, marked.point_ras) for marked in lesions]
    for n, marked in enumerate(lesions):
        if same[n] is not None or not marked.name:
            continue
        named = [
            each
            for each in record.lesions
            if each.name == marked.name
            and each.id not in same
            and _is_visible(each, study)
            and not (is_automatic(marked.name) and _is_carried(each.findings[study]))
        ]
        if named:
            same[n] = min(named, key=lambda each: math.dist(each.findings[study].point_ras, marked.point_ras)).id
    return same


def _seen_at(record: FollowUp, study: str, point_ras: Point) -> str | None:
    for each in record.lesions:
        if _is_visible(each, study) and math.dist(each.findings[study].point_ras, point_ras) < _SAME_MM:
            return each.id
    return None


def _namesake(record: FollowUp, study: str, marked: MarkedLesion) -> Lesion | None:
    """The only lesion of this name that is not visible in this study; None for a name that programs assign."""
    named = [each for each in record.lesions if each.name == marked.name and not _is_visible(each, study)]
    return named[0] if marked.name and not is_automatic(marked.name) and len(named) == 1 else None


def _is_visible(lesion: Lesion, study: str) -> bool:
    return study in lesion.findings and lesion.findings[study].visible


def _is_carried(found: Finding) -> bool:
    return found.state != MARKED or found.guess is not None
