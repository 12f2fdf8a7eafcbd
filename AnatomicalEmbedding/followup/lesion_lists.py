"""Read lesions that were marked in other programs: points, or lines along the longest diameters of the lesions."""

import math
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import PointsError
from ..files import parse_json
from .lesions import MARKED, Axis, Lesion, Point
from .record import FollowUp

_SAME_MM = 1.0  # two marks in one scan belong to the same lesion if their distance is less
# Names that programs, not persons, give. 3D Slicer names points LIST-1, F-1 or F_1-1, and lines L or L_1. A row of a
# table without a name gets its number. This program names lesions L1 or R1.
_AUTOMATIC = re.compile(r"[FLPR]?[-_]?\d*|Line(_\d+)?|.*-\d+", re.IGNORECASE)


@dataclass(frozen=True)
class MarkedLesion:
    """A lesion read from a file. name: may be "". point_ras: RAS mm. long_axis: ends of a line, RAS mm, or None."""

    name: str
    point_ras: Point
    long_axis: Axis | None = None


def read_lesions(path: str | Path) -> list[MarkedLesion]:
    """Read a markups file of 3D Slicer, a .csv file or a DICOM structured report. Each point is a lesion; each line is
    the long axis of a lesion.

    Raises AnatomicalEmbeddingError if `read_any_points` refuses the file, or if a line has only one end.
    """
    # late: it loads SimpleITK, which Slicer's modules must not load at start
    from ..dicom.sr import read_any_points

    points = read_any_points(path)
    places = zip(points.labels, points.points_ras.tolist(), strict=True)
    unmeasured = [MarkedLesion(label, (x, y, z)) for label, (x, y, z) in places]
    if Path(path).suffix.lower() != ".json":
        return unmeasured
    lesions = []
    for markup in parse_json(Path(path).read_text(encoding="utf-8-sig"))["markups"]:
        name = str(markup.get("name") or "")
        control_points = markup.get("controlPoints") or ()
        count = sum(point.get("positionStatus", "defined") == "defined" for point in control_points)
        # `read_any_points` returns the defined points of all markups, in the order of the file
        markup_points = unmeasured[:count]
        unmeasured = unmeasured[count:]
        if markup.get("type") != "Line":
            lesions += markup_points
        elif count == 2:
            first, second = (point.point_ras for point in markup_points)
            x, y, z = ((a + b) / 2 for a, b in zip(first, second, strict=True))
            lesions.append(MarkedLesion(name, (x, y, z), (first, second)))
        elif count:
            raise PointsError(
                f"{path}: the line {name!r} has only one end; place the second end, or delete the line."
            )
    return lesions


def mark_lesions(
    record: FollowUp, study: str, lesions: Sequence[MarkedLesion]
) -> tuple[FollowUp, list[str]]:
    """Mark the lesions of a list in a study.

    For each lesion of the list, the first rule that fits is used:
    1. The record has a lesion that a person saw in this study, at the same place or with the same name. No lesion is
       added. If the place is the same and no size is confirmed, the line in the list becomes the long axis.
    2. Exactly one lesion that was not seen in this study has the same name, and the name is not an automatic name
       (such as F-1). The mark is added to this lesion, unless a person reviewed the lesion as not visible, outside or
       merged in this study.
    3. A new lesion is added.

    Args:
        record: the record.
        study: key of the study.
        lesions: the list.

    Returns:
        The record; and sentences about lesions of the list that did not change the record.
    """
    label = record.study(study).label
    notes = []
    # ids of lesions that a mark of the list stands for, so that no other mark of the same name can
    claimed = {_seen_at(record, study, marked.point_ras) for marked in lesions}
    for marked in lesions:
        lesion_id = _seen_at(record, study, marked.point_ras)
        if lesion_id is None:
            lesion_id = _seen_as(record, study, marked, claimed)
        if lesion_id is not None:
            claimed.add(lesion_id)
            lesion = record.lesion(lesion_id)
            away_mm = math.dist(lesion.findings[study].point_ras, marked.point_ras)
            if away_mm >= _SAME_MM:
                notes.append(
                    f"{lesion.label}: is already marked in {label}, {away_mm:.0f} mm from its place in the list;"
                    " the mark was not moved."
                )
                continue
        else:
            namesake = _namesake(record, study, marked.name)
            if namesake is not None and study in namesake.reviewed:
                state = namesake.findings[study].state
                notes.append(
                    f"{namesake.label}: was reviewed as {state} in {label}; the place in the list was not used."
                )
                continue
            if namesake is not None:
                lesion_id = namesake.id
                record = record.mark(study, marked.point_ras, lesion_id)
            else:
                lesion_id = record.free_id()
                record = record.mark(study, marked.point_ras).describe(lesion_id, name=marked.name)
            claimed.add(lesion_id)
        size = record.finding(lesion_id, study).size
        if marked.long_axis is not None and not size.confirmed:
            record = record.measure(lesion_id, study, marked.long_axis, None)
    return record, notes


def is_automatic(name: str) -> bool:
    """Return whether a name looks like a name that a program gave, such as F-1."""
    return _AUTOMATIC.fullmatch(name.strip()) is not None


def _seen_at(record: FollowUp, study: str, point_ras: Point) -> str | None:
    """Return the id of a lesion that a person saw in `study` less than 1 mm from `point_ras` (RAS mm), or None."""
    for lesion in record.lesions:
        finding = lesion.visible.get(study)
        if finding is not None and math.dist(finding.point_ras, point_ras) < _SAME_MM:
            return lesion.id
    return None


def _seen_as(
    record: FollowUp, study: str, marked: MarkedLesion, claimed: Container[str | None]
) -> str | None:
    """Return the id of the lesion that has the name of `marked` and that a person saw in the study, or None.

    Of several lesions, the nearest to the mark is chosen. A lesion whose name a program gave, such as F-1, is chosen
    only if a person marked it without a proposal. claimed: ids of the lesions of other marks, which are not chosen.
    """
    if not marked.name:
        return None
    nearest = None
    nearest_mm = math.inf
    for lesion in record.lesions:
        finding = lesion.visible.get(study)
        if lesion.name != marked.name or lesion.id in claimed or finding is None:
            continue
        is_carried = finding.state != MARKED or finding.guess is not None
        if is_carried and is_automatic(marked.name):
            continue
        away_mm = math.dist(finding.point_ras, marked.point_ras)
        if away_mm < nearest_mm:
            nearest = lesion.id
            nearest_mm = away_mm
    return nearest


def _namesake(record: FollowUp, study: str, name: str) -> Lesion | None:
    """Return the only lesion that has this name and is not seen in the study. Return None if no lesion or several
    lesions fit, or if a program gave the name."""
    if not name or is_automatic(name):
        return None
    named = [
        lesion for lesion in record.lesions if lesion.name == name and study not in lesion.visible
    ]
    return named[0] if len(named) == 1 else None
