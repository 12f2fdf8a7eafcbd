"""Scans of one visit, read as one: thorax and abdomen of a day are one time point of the response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from .lesions import MERGED, NOT_VISIBLE, PROPOSED, Finding, Lesion, Study
from .record import FollowUp
from .sizes import diameter_mm


@dataclass(frozen=True)
class Visits:
    """record: one study for each visit, in their order, with what is known best of each lesion there. scans: of each
    visit, in the order of the record that they come from.
    """

    record: FollowUp
    scans: tuple[tuple[Study, ...], ...]

    def number_of(self, study: str) -> int:
        """The visit that a scan belongs to, by its key."""
        return next(number for number, scans in enumerate(self.scans) if any(scan.key == study for scan in scans))

    def finding(self, lesion_id: str, number: int) -> Finding | None:
        """What is known of a lesion in a visit."""
        return self.record.lesion(lesion_id).findings.get(self.record.studies[number].key)


def visits_of(record: FollowUp) -> Visits:
    """The visits of a follow-up: studies of one date, or of one study in DICOM, are one.

    A lesion that was seen in any scan of a visit is there, as large as where it is largest. It is outside only where
    that was said of all of them, and gone only where none still has a proposal that nobody has looked at.
    """
    scans = _together(record.studies)
    if len(scans) == len(record.studies):
        return Visits(record, scans)
    studies = [replace(first, name=", ".join(dict.fromkeys(s.name for s in (first, *rest)))) for first, *rest in scans]
    lesions = []
    for lesion in record.lesions:
        known = {group[0].key: _best_known(lesion, group) for group in scans}
        lesions.append(replace(lesion, findings={key: found for key, found in known.items() if found is not None}))
    return Visits(FollowUp(tuple(studies), tuple(lesions)), scans)


def _together(studies: Sequence[Study]) -> tuple[tuple[Study, ...], ...]:
    visits: list[tuple[Study, ...]] = []
    for study in studies:
        mine = [visit for visit in visits if any(_is_one_visit(study, other) for other in visit)]
        place = visits.index(mine[0]) if mine else len(visits)
        visits = [visit for visit in visits if visit not in mine]
        visits.insert(place, (*chain.from_iterable(mine), study))
    return tuple(visits)


def _is_one_visit(study: Study, other: Study) -> bool:
    of_one_day = study.date is not None and study.date == other.date
    return of_one_day or (study.study_uid != "" and study.study_uid == other.study_uid)


def _best_known(lesion: Lesion, scans: Sequence[Study]) -> Finding | None:
    return min((lesion.findings.get(scan.key) for scan in scans), key=lambda found: _rank(lesion, found))


def _rank(lesion: Lesion, found: Finding | None) -> tuple[int, float]:
    """Least for what says most of a lesion."""
    if found is None:
        return 6, 0.0
    if found.visible:
        size = diameter_mm(lesion, found)
        return (1, 0.0) if size is None else (0, -size)
    if found.state == PROPOSED:
        elsewhere = found.guess is not None and found.guess.status == "absent"
        return (5 if elsewhere else 3), 0.0
    return {MERGED: 2, NOT_VISIBLE: 4}.get(found.state, 7), 0.0
