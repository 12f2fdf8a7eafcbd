"""Recognize studies that are the same, order studies in time, and read DICOM dates."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from ..errors import AnatomicalEmbeddingError
from ..files import free_name
from .lesions import Study

_CONTENT = re.compile(r"[0-9a-f]{40}")  # a content hash of `inference.volume_hash`


def same_studies(here: Sequence[Study], others: Sequence[Study]) -> dict[str, str]:
    """Find the studies of `others` that are also in `here`. Returns key in `others` -> key in `here`.

    Two studies are the same if they have the same key or the same DICOM series. If neither has a series, they are the
    same if they have the same name, no other study has this name, and date, DICOM study and content do not differ.
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
    """Find the study of a record that each input scan belongs to, or make a new study.

    A new study is named after its file; if several files have the same name, also after the folders above.

    Args:
        known: studies of the record.
        scans: one study for each scan; its key is the DICOM series or the hash of the content.
        files: paths of the scans.
        by_hand: dates that the user gives now. They replace dates of the record, which replace dates of the scans.

    Returns:
        A study for each scan, with its key in the record; and sentences for the user.

    Raises:
        AnatomicalEmbeddingError: a scan occurs twice, or its name fits several studies of the record.
    """
    from ..scan.sources import distinct_names  # late: it loads SimpleITK, which Slicer's modules must not load at start

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
    """Sort all studies by date. A study without a date comes after the study before it in the list `known`, `others`.

    Returns the studies, and a sentence on each study without a date.
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
    """Read a DICOM date: YYYYMMDD; in older files YYYY.MM.DD, in some YYYY-MM-DD. None for any other text."""
    try:
        return date.fromisoformat(text.strip().replace(".", "-"))
    except ValueError:
        return None


def _candidates(here: Sequence[Study], others: Sequence[Study], keys: Mapping[str, str]) -> dict[str, list[Study]]:
    """For each study of `others` without series that is not in `keys`: key -> studies of `here` with the same name."""
    free = [each for each in here if each.key not in keys.values() and not each.series_uid]
    sought = [each for each in others if each.key not in keys and not each.series_uid]
    return {
        each.key: [study for study in free if study.name == each.name and not _contradict(study, each)]
        for each in sought
    }


def _contradict(one: Study, other: Study) -> bool:
    """Return whether two studies have different dates, different DICOM studies or different contents."""
    dates, uids = {one.date, other.date} - {None}, {one.study_uid, other.study_uid} - {""}
    return len(dates) > 1 or len(uids) > 1 or all(_CONTENT.fullmatch(each.key) for each in (one, other))


def _shown(study: Study) -> str:
    return study.name if study.date is None else f"{study.name} ({study.date.isoformat()})"
