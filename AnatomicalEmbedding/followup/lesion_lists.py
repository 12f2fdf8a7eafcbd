"""Lesions marked in other programs: a list of points, or of lines along the longest diameters of the lesions."""

import math
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import PointsError
from ..files import parse_json
from ..scan.points import read_points
from .lesions import MARKED, Axis, Lesion, Point
from .record import FollowUp

_SAME_MM = 1.0  # marks in one scan that are nearer are of the same lesion
# Names that programs assign. Slicer: points LIST-1, in a list F or F_1, and lines L or L_1. Rows without a name get
# their number. This program: lesions L1 or R1.
_AUTOMATIC = re.compile(r"[FLPR]?[-_]?\d*|Line(_\d+)?|.*-\d+", re.IGNORECASE)


@dataclass(frozen=True)
class MarkedLesion:
    """A lesion of a list. name: may be "". point_ras: RAS mm. long_axis: the two ends, RAS mm, if marked by a line."""

    name: str
    point_ras: Point
    long_axis: Axis | None = None


def read_lesions(path: str | Path) -> list[MarkedLesion]:
    """Read a Slicer markups file or a .csv file. Each point is a lesion; each line is a lesion with its long axis.

    Raises PointsError for a file that `read_points` refuses, and for a line with only one end.
    """
    points = read_points(path)
    places = zip(points.labels, points.points_ras.tolist(), strict=True)
    left = [MarkedLesion(label, (x, y, z)) for label, (x, y, z) in places]
    if Path(path).suffix.lower() != ".json":
        return left
    found: list[MarkedLesion] = []
    for markup in parse_json(Path(path).read_text(encoding="utf-8-sig"))["markups"]:
        name, placed = str(markup.get("name") or ""), markup.get("controlPoints") or ()
        count = sum(point.get("positionStatus", "defined") == "defined" for point in placed)
        mine, left = left[:count], left[count:]
        if markup.get("type") != "Line":
            found += mine
        elif count == 2:
            (a, b, c), (d, e, f) = axis = mine[0].point_ras, mine[1].point_ras
            found.append(MarkedLesion(name, ((a + d) / 2, (b + e) / 2, (c + f) / 2), axis))
        elif count:
            raise PointsError(f"{path}: line {name!r} has one end only; place the other, or delete the line.")
    return found


def mark_lesions(record: FollowUp, study: str, lesions: Sequence[MarkedLesion]) -> tuple[FollowUp, list[str]]:
    """Mark the lesions of a list in a study.

    A lesion that the study already shows at this place, or under this name, stays; if its size is not confirmed, the
    line becomes its long axis. If exactly one lesion of other studies has the name, it is the same lesion; names that
    programs assign (F-1, L1, 3) do not count for this. Findings reviewed as not visible or outside stay.

    Returns:
        The record, and sentences on the lesions of the list that changed nothing.
    """
    label, notes = record.study(study).label, []
    claimed = {_seen_at(record, study, marked.point_ras) for marked in lesions}
    for marked in lesions:
        lesion_id = _seen_at(record, study, marked.point_ras) or _seen_as(record, study, marked, claimed)
        if lesion_id is not None:
            lesion = record.lesion(lesion_id)
            away = math.dist(lesion.findings[study].point_ras, marked.point_ras)
            if away >= _SAME_MM:
                there = f"{away:.0f} mm from its place in the list"
                notes.append(f"{lesion.label}: is marked in {label} already, {there}, and stays there.")
        elif (namesake := _namesake(record, study, marked.name)) is None:
            lesion_id, away = record.free_id(), 0.0
            record = record.mark(study, marked.point_ras).describe(lesion_id, name=marked.name)
        else:
            lesion_id, away = namesake.id, 0.0
            found = namesake.findings.get(study)
            if found is not None and found.reviewed:
                reason = f"{namesake.label}: was reviewed as {found.state} in {label}"
                notes.append(f"{reason}; its place in the list was left out.")
                continue
            record = record.mark(study, marked.point_ras, lesion_id)
        claimed.add(lesion_id)
        size = record.finding(lesion_id, study).size
        if away < _SAME_MM and marked.long_axis is not None and not size.confirmed:
            record = record.measure(lesion_id, study, marked.long_axis, None)
    return record, notes


def is_automatic(name: str) -> bool:
    """Return whether a name looks like the names that programs assign, such as F-1."""
    return _AUTOMATIC.fullmatch(name.strip()) is not None


def _seen_at(record: FollowUp, study: str, point_ras: Point) -> str | None:
    for each in record.lesions:
        found = each.findings.get(study)
        if found is not None and found.visible and math.dist(found.point_ras, point_ras) < _SAME_MM:
            return each.id
    return None


def _seen_as(record: FollowUp, study: str, marked: MarkedLesion, claimed: Container[str | None]) -> str | None:
    """Return the id of the nearest lesion of this name in the study that is not `claimed` by another listed lesion."""
    places = {}
    for each in record.lesions:
        found = each.findings.get(study)
        if not marked.name or each.name != marked.name or each.id in claimed or found is None or not found.visible:
            continue
        is_carried = found.state != MARKED or found.guess is not None
        if not (is_automatic(marked.name) and is_carried):
            places[each.id] = math.dist(found.point_ras, marked.point_ras)
    return min(places, key=places.__getitem__, default=None)


def _namesake(record: FollowUp, study: str, name: str) -> Lesion | None:
    """Return the only lesion with this name that was not seen in this study; None for a name that programs assign."""
    named = [each for each in record.lesions if each.name == name]
    named = [each for each in named if study not in each.findings or not each.findings[study].visible]
    return named[0] if name and not is_automatic(name) and len(named) == 1 else None
