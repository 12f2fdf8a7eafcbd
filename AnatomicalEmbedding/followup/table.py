"""The table of all lesions in all studies, for spreadsheets and pages. Rows with unconfirmed entries have a flag."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..files import write_text
from .lesions import (
    CONFIRMED,
    MERGED,
    NO_SIZE,
    PROPOSED,
    Finding,
    Guess,
    Lesion,
    Measurement,
    Study,
)
from .record import FollowUp
from .response import NOT_EVALUABLE, responses
from .status import status_of

UNCONFIRMED = "UNCONFIRMED"  # the place was proposed, and no person has reviewed the place
# a person saw the lesion, but has not confirmed its axes in this study
SIZE_UNCONFIRMED = "SIZE UNCONFIRMED"
NOT_ASSESSED = "NOT ASSESSED"  # the lesion was not marked, proposed or reviewed in this study
INCOMPLETE = "INCOMPLETE"  # a person must still make entries, which may change the response
SUM_LABEL = "TARGETS, RECIST 1.1"

COLUMNS = (
    "lesion",
    "name",
    "site",
    "target",
    "nodal",
    "tracking_uid",
    "study",
    "date",
    "series_uid",
    "status",
    "reviewed",
    "flags",
    "R_mm",
    "A_mm",
    "S_mm",
    "long_axis_mm",
    "short_axis_mm",
    "expected_error_mm",
    "probability_within_10_mm",
    "doubt",
    "merged_with",
    "split_from",
    "sum_mm",
    "percent_from_baseline",
    "percent_from_nadir",
)
# Text that a spreadsheet runs as a formula, even if blanks precede the text or its characters are full-width.
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")


@dataclass(frozen=True)
class Row:
    """A lesion in a study. finding: None if the lesion was not assessed in this study. status: from `status_of`."""

    lesion: Lesion
    study: Study
    finding: Finding | None
    status: str

    @property
    def size(self) -> Measurement:
        """The sizes of the lesion if a person has confirmed them; otherwise NO_SIZE."""
        finding = self.finding
        if finding is None or not finding.visible or not finding.size.confirmed:
            return NO_SIZE
        return finding.size

    @property
    def guess(self) -> Guess | None:
        """The result of matching for this lesion and study. None if a person has entered another place or state."""
        is_guessed = self.finding is not None and self.finding.state in (PROPOSED, CONFIRMED)
        return self.finding.guess if is_guessed else None

    @property
    def flags(self) -> tuple[str, ...]:
        """The flag of the row: UNCONFIRMED, SIZE_UNCONFIRMED or NOT_ASSESSED; () if all entries are confirmed."""
        if self.finding is None:
            return (NOT_ASSESSED,)
        if not self.finding.reviewed:
            return (UNCONFIRMED,)
        size = self.finding.size
        is_carried = size.axes and not size.confirmed
        return (SIZE_UNCONFIRMED,) if self.finding.visible and is_carried else ()


def rows(record: FollowUp) -> list[Row]:
    """Return one row for each lesion and study, lesion by lesion; the studies of a lesion are in order of time."""
    return [
        Row(lesion, study, lesion.findings.get(study.key), status_of(record, lesion.id, study.key))
        for lesion in record.lesions
        for study in record.studies
    ]


def write_csv(path: str | Path, record: FollowUp) -> None:
    """Write the table as CSV for spreadsheets: UTF-8 with byte order mark, separated by commas.

    The table has one row for each lesion and study; places are RAS mm. Then follows one row for each study with a
    known sum or response. An apostrophe is put before text that a spreadsheet would run as a formula. Raises
    AnatomicalEmbeddingError if the file cannot be written.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="")  # DictWriter ends lines with CR LF
    writer.writeheader()
    for cells in (*map(_cells, rows(record)), *_sums(record)):
        writer.writerow({column: _guarded(value) for column, value in cells.items()})
    write_text(path, "\ufeff" + text.getvalue())


def _cells(row: Row) -> dict[str, object]:
    """Return the cells of a row of the .csv file: column -> value. None and "" give an empty cell."""
    lesion = row.lesion
    finding = row.finding
    guess = row.guess
    size = row.size
    place: tuple[float | None, ...] = (None, None, None)
    if finding is not None and finding.point_ras is not None:
        place = finding.point_ras
    r, a, s = (_number(coordinate, 2) for coordinate in place)
    return {
        "lesion": lesion.id,
        "name": lesion.name,
        "site": lesion.site,
        "target": _yes(lesion.target),
        "nodal": _yes(lesion.nodal),
        "tracking_uid": lesion.tracking_uid,
        **_study_cells(row.study),
        "status": row.status,
        "reviewed": _yes(finding is not None and finding.reviewed),
        "flags": "; ".join(row.flags),
        "R_mm": r,
        "A_mm": a,
        "S_mm": s,
        "long_axis_mm": _number(size.long_mm, 2),
        "short_axis_mm": _number(size.short_mm, 2),
        "expected_error_mm": _number(None if guess is None else guess.error_mm, 1),
        "probability_within_10_mm": _number(None if guess is None else guess.probability, 3),
        "doubt": "" if guess is None else guess.doubt,
        "merged_with": finding.into if finding is not None and finding.state == MERGED else "",
        "split_from": lesion.split_from,
    }


def _sums(record: FollowUp) -> Iterator[dict[str, object]]:
    """Yield a row for each study whose response, or whose sum of the sizes of target lesions, is known."""
    for response in responses(record):
        if response.sum_mm is not None or response.category != NOT_EVALUABLE:
            yield {
                "lesion": SUM_LABEL,
                **_study_cells(record.study(response.study)),
                "status": response.category,
                "flags": INCOMPLETE if response.missing else "",
                "sum_mm": _number(response.sum_mm, 2),
                "percent_from_baseline": _number(response.from_baseline, 1),
                "percent_from_nadir": _number(response.from_nadir, 1),
            }


def _study_cells(study: Study) -> dict[str, object]:
    """Return the cells that say which study a row is about."""
    return {
        "study": study.name,
        "date": study.date and study.date.isoformat(),
        "series_uid": study.series_uid,
    }


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _number(value: float | None, digits: int) -> float | None:
    """Round a number. None, an empty cell, stays None."""
    return None if value is None else round(float(value), digits) + 0.0  # + 0.0 turns -0.0 into 0.0


def _guarded(value: object) -> object:
    """Put an apostrophe before a text that a spreadsheet would run as a formula. Return any other value unchanged."""
    if not isinstance(value, str):
        return value
    # as spreadsheets show it: without control characters
    visible_text = "".join(
        character for character in value if unicodedata.category(character) not in ("Cc", "Cf")
    )
    return f"'{value}" if _FORMULA.match(value) or _FORMULA.match(visible_text) else value
