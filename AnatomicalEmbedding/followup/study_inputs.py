"""Which studies are the same, the order of studies in time, and DICOM dates."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from ..errors import AnatomicalEmbeddingError
from ..files import free_name
from .lesions import Study

_CONTENT = re.compile(r"[0-9a-f]{40}")  # as of `inference.volume_hash`
_DATE = re.compile(r"(\d{4})([.-]?)(\d{2})\2(\d{2})")  # YYYYMMDD; in older files YYYY.MM.DD, in some YYYY-MM-DD


def same_studies(here: Sequence[Study], others: Sequence[Study]) -> dict[str, str]:
    """Key of each of `others` that is a study of `here` -> its key there.

    Studies are the same by key or by DICOM series. Without a series they are the same by name, where exactly one study
    has this name and no date, DICOM study or content contradicts.
    """
    known = {study.key for study in here}
    keys = {study.key: study.key for study in others if study.key in known}
    series = {study.series_uid: study.key for study in here if study.series_uid}
    for study in others:
        match = series.get(study.series_uid)
        if match is not None and study.key not in keys and match not in keys.values():
            keys[study.key] = match
    candidates = _candidates(here, others, keys)
    for key, alike in candidates.items():
        if len(alike) == 1 and sum(alike[0] in each for each in candidates.values()) == 1:
            keys[key] = alike[0].key
    return keys


def recognize(
    known: Sequence[Study], scans: Sequence[Study], files: Sequence[str], by_hand: Sequence[date | None] = ()
) -> tuple[list[Study], list[str]]:
    """Find the studies of a record that input scans belong to.

    A study that is new gets the name of its file, and of the folders above where several files have one name.

    Args:
        known: studies of the record.
        scans: keyed by DICOM series or content.
        files: paths of the scans.
        by_hand: dates entered now. They count before the dates of the record, and these before the dates of the scans.

    Returns:
        The studies of the scans, in that order, with the keys of the record, and sentences for the user.

    Raises:
        AnatomicalEmbeddingError: a scan occurs twice, or its name fits several studies of the record.
    """
    from ..scan.sources import distinct_names  # loads SimpleITK, which Slicer's modules must not load as they open

    for n, scan in enumerate(scans):
        if scan.key in {each.key for each in scans[:n]}:
            raise AnatomicalEmbeddingError(f"{files[n]}: is the same scan as another one; give each scan once.")
    keys = same_studies(known, scans)
    unclear = _candidates(known, scans, keys)
    names = distinct_names(files)
    taken = {each.name.casefold() for each in known}
    by_key = {each.key: each for each in known}
    studies: list[Study] = []
    notes = []
    for n, (file, scan) in enumerate(zip(files, scans, strict=True)):
        day = by_hand[n] if by_hand else None
        if alike := unclear.get(scan.key):
            raise AnatomicalEmbeddingError(
                f"{file}: may be {' or '.join(map(_shown, alike))} of the record, which has only names of scans;"
                " distinguish them by date, with --date here, and in the record where it has none (table of studies in"
                " Slicer)."
            )
        if scan.key not in keys:
            name = scan.name if scan.series_uid else free_name(names[n], taken)
            taken.add(name.casefold())
            studies.append(replace(scan, name=name, date=day or scan.date))
            if name != names[n] and not scan.series_uid:
                notes.append(f"{file}: is another scan than {names[n]} of the record; it becomes {name}.")
            continue
        same = by_key[keys[scan.key]]
        uids = {name: getattr(same, name) or getattr(scan, name) for name in ("study_uid", "series_uid")}
        studies.append(replace(same, date=day or same.date or scan.date, **uids))
        if day is None and same.date and scan.date and same.date != scan.date:
            dates = f"{scan.date.isoformat()} in its header and {same.date.isoformat()} in the record"
            notes.append(f"{file}: has the date {dates}, which is kept; give --date for each scan to change it.")
        if same.key != scan.key and not same.series_uid:
            notes.append(f"{file}: is taken for {_shown(same)} of the record, by its name.")
    return studies, notes


def in_order(known: Iterable[Study], others: Iterable[Study]) -> tuple[list[Study], list[str]]:
    """All studies by date; one without a date follows its predecessor in `known`, then `others`.

    Returns the studies, and a sentence on each whose place in time is unknown.
    """
    studies = {study.key: study for study in (*known, *others)}
    ordered = sorted((each for each in studies.values() if each.date is not None), key=lambda each: each.date)
    if not ordered:
        note = "No scan has a date, so their order is taken as the order in time; give --date for each."
        return list(studies.values()), [note] if len(studies) > 1 else []
    notes: list[str] = []
    before: Study | None = None
    for study in studies.values():
        if study.date is None:
            ordered.insert(0 if before is None else ordered.index(before) + 1, study)
            where = "first, as listed" if before is None else f"after {_shown(before)}, as listed"
            notes.append(f"{study.name}: has no date, so it comes {where}; give --date for each scan to change that.")
        before = study
    return ordered, notes


def date_of(text: str) -> date | None:
    """The day of a DICOM date, or None for other text."""
    found = _DATE.fullmatch(text.strip())
    try:
        return None if found is None else date(int(found[1]), int(found[3]), int(found[4]))
    except ValueError:
        return None


def _candidates(here: Sequence[Study], others: Sequence[Study], keys: Mapping[str, str]) -> dict[str, list[Study]]:
    """Key of each other study that is not in `keys` and has no series -> the studies of `here` that it may be."""
    free = [each for each in here if each.key not in keys.values() and not each.series_uid]
    sought = [each for each in others if each.key not in keys and not each.series_uid]
    return {
        each.key: [study for study in free if study.name == each.name and not _contradict(study, each)]
        for each in sought
    }


def _contradict(one: Study, other: Study) -> bool:
    """Whether two studies have two dates, two DICOM studies or two contents."""
    dates, uids = {one.date, other.date} - {None}, {one.study_uid, other.study_uid} - {""}
    return len(dates) > 1 or len(uids) > 1 or all(_CONTENT.fullmatch(each.key) for each in (one, other))


def _shown(study: Study) -> str:
    return study.name if study.date is None else f"{study.name} ({study.date.isoformat()})"
