"""The studies of a record that input scans belong to, the order of studies in time, and DICOM dates."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date

from ..errors import AnatomicalEmbeddingError
from ..files import free_name
from .lesions import Study

_CONTENT = re.compile(r"[0-9a-f]{40}")  # as of `inference.volume_hash`


@dataclass(frozen=True)
class Recognized:
    """studies: one for each input scan, in that order, by the keys of the record. notes: sentences to show."""

    studies: tuple[Study, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class InOrder:
    """studies: in order of time. notes: sentences on those whose place is unknown."""

    studies: tuple[Study, ...]
    notes: tuple[str, ...]


def is_content(key: str) -> bool:
    """Is the key a content hash? A scan of another key is then another scan, whatever its name."""
    return _CONTENT.fullmatch(key) is not None


def recognize(
    known: Sequence[Study], scans: Sequence[Study], files: Sequence[str], by_hand: Sequence[date | None] = ()
) -> Recognized:
    """The studies of a record that input scans belong to. scans: keyed by DICOM series or content. files: their names.
    by_hand: dates entered now, which take precedence over those of the record, and these over those of the scans.

    A study with another kind of key (Slicer's own; file names in old records) is recognized by name and date where that
    is unambiguous. Raises AnatomicalEmbeddingError where it is not, and for a scan that occurs twice.
    """
    for n, scan in enumerate(scans):
        if scan.key in {each.key for each in scans[:n]}:
            raise AnatomicalEmbeddingError(f"{files[n]}: is the same scan as another one; give each scan once.")
    found = [_same(known, each) for each in scans]
    named = _by_name(known, scans, found, files)
    studies: list[Study] = []
    notes = []
    for n, (file, scan) in enumerate(zip(files, scans, strict=True)):
        same, day = found[n] or named.get(n), by_hand[n] if by_hand else None
        studies.append(_completed(same, scan, day) if same is not None else _named(scan, (*known, *studies)))
        if day is None and same is not None and same.date and scan.date and same.date != scan.date:
            dates = f"{scan.date.isoformat()} in its header and {same.date.isoformat()} in the record"
            notes.append(f"{file}: has the date {dates}, which is kept; give --date for each scan to change it.")
        if n in named:
            notes.append(f"{file}: is taken for {_shown(named[n])} of the record, by its name.")
        elif same is None and not scan.series_uid and any(_is_named(each.name, scan.name) for each in known):
            notes.append(
                f"{file}: differs from the scans of this name in the record; it becomes {_shown(studies[-1])}."
            )
    return Recognized(tuple(studies), tuple(notes))


def in_order(known: Iterable[Study], others: Iterable[Study]) -> InOrder:
    """All studies by date; one without a date follows its predecessor in `known`, then `others`."""
    studies = {study.key: study for study in (*known, *others)}
    ordered = sorted((each for each in studies.values() if each.date is not None), key=lambda each: each.date)
    if not ordered:
        notes = ("No scan has a date, so their order is taken as the order in time; give --date for each.",)
        return InOrder(tuple(studies.values()), notes if len(studies) > 1 else ())
    notes, before = [], None
    for study in studies.values():
        if study.date is None:
            ordered.insert(0 if before is None else ordered.index(before) + 1, study)
            where = "first, as listed" if before is None else f"after {_shown(before)}, as listed"
            notes.append(f"{study.name}: has no date, so it comes {where}; give --date for each scan to change that.")
        before = study
    return InOrder(tuple(ordered), tuple(notes))


def _same(known: Sequence[Study], scan: Study) -> Study | None:
    by_key = next((each for each in known if each.key == scan.key), None)
    by_series = (each for each in known if scan.series_uid and each.series_uid == scan.series_uid)
    return by_key or next(by_series, None)


def _by_name(
    known: Sequence[Study], scans: Sequence[Study], found: Sequence[Study | None], files: Sequence[str]
) -> dict[int, Study]:
    """Number of a file that was not found -> the only study with its name and date."""
    free = [each for each in known if each not in found and not each.series_uid and not is_content(each.key)]
    names = {each.name for each in scans}
    candidates = {
        n: [e for e in free if _is_named(e.name, scan.name, names) and len({e.date, scan.date} - {None}) < 2]
        for n, scan in enumerate(scans)
        if found[n] is None and not scan.series_uid
    }
    for n, studies in candidates.items():
        if len(studies) > 1 or any(studies and studies == candidates[other] for other in candidates if other != n):
            raise AnatomicalEmbeddingError(_unclear(files[n], studies))
    return {n: studies[0] for n, studies in candidates.items() if studies}


def _is_named(name: str, scan_name: str, others: Iterable[str] = ()) -> bool:
    """Can a study of this name be a file of that one? The second file of a name is called NAME_2, in Slicer NAME_1,
    unless another file has that name itself.
    """
    numbered = re.fullmatch(rf"{re.escape(scan_name)}_\d+", name) is not None
    return name == scan_name or (numbered and name not in others)


def _unclear(file: str, candidates: Sequence[Study]) -> str:
    if len(candidates) == 1:
        what = f"may be {_shown(candidates[0])} of the record, and so may another of the scans"
    else:
        what = f"may be {' or '.join(map(_shown, candidates))} of the record"
    return (
        f"{file}: {what}, which has only names of scans; distinguish them by date, with --date here, and in "
        "the record where it has none (table of studies in Slicer)."
    )


def _shown(study: Study) -> str:
    return study.name if study.date is None else f"{study.name} ({study.date.isoformat()})"


def _completed(known: Study, scan: Study, day: date | None) -> Study:
    return replace(
        known,
        date=day or known.date or scan.date,
        study_uid=known.study_uid or scan.study_uid,
        series_uid=known.series_uid or scan.series_uid,
    )


def _named(scan: Study, others: Iterable[Study]) -> Study:
    """A new study; the name of a file is made unique without regard to case."""
    taken = set() if scan.series_uid else {each.name.casefold() for each in others}
    return replace(scan, name=free_name(scan.name, taken))


_DATE = re.compile(r"(\d{4})([.-]?)(\d{2})\2(\d{2})")  # YYYYMMDD; in older files YYYY.MM.DD, in some YYYY-MM-DD


def date_of(text: str) -> date | None:
    """The day of a DICOM date, or None for other text."""
    found = _DATE.fullmatch(text.strip())
    try:
        return None if found is None else date(int(found[1]), int(found[3]), int(found[4]))
    except ValueError:
        return None
