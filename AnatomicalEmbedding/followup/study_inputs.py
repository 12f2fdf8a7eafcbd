"""Find out which studies of two lists are the same, sort studies by time, and read DICOM dates."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from ..errors import AnatomicalEmbeddingError
from ..files import free_name
from .lesions import Study

_CONTENT = re.compile(r"[0-9a-f]{40}")  # a content hash of `inference.volume_hash`


def same_studies(here: Sequence[Study], others: Sequence[Study]) -> dict[str, str]:
    """Find the studies of `others` that are also in `here`. Returns a dictionary: key in `others` -> key in `here`.

    Two studies are the same if they have the same key or the same DICOM series. Two studies without a series are also
    the same if they have the same name, if their dates, DICOM studies and contents do not differ, and if no other study
    fits equally well.
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
    known: Sequence[Study], scans: Sequence[Study], files: Sequence[str], by_hand: bool = False
) -> tuple[list[Study], list[str]]:
    """Find, for each scan, its study in the record. A scan that is not in the record becomes a new study.

    A new study has the name of its file; if several files have the same name, the names of their folders are added.

    Args:
        known: studies of the record.
        scans: the scans, each as a `Study` whose key is the UID of the DICOM series or the hash of the content.
        files: paths of the scans.
        by_hand: whether the user gave the dates of `scans`. If True, the user's dates replace the dates in the record;
            if False, the dates in the record are kept.

    Returns:
        One study for each scan, with the key that this study has in the record; and sentences for the user.

    Raises:
        AnatomicalEmbeddingError: a scan occurs twice, or it remains unclear which study of the record a scan is.
    """
    from ..scan.sources import distinct_names  # late: it loads SimpleITK, which Slicer's modules must not load at start

    keys = same_studies(known, scans)
    unclear = _candidates(known, scans, keys)
    taken = {each.name.casefold() for each in known}
    by_key = {each.key: each for each in known}
    studies: dict[str, Study] = {}
    notes = []
    for file, name, scan in zip(files, distinct_names(files), scans, strict=True):
        if scan.key in studies:
            raise AnatomicalEmbeddingError(f"{file}: was given twice, perhaps under two names; give each scan once.")
        if alike := unclear.get(scan.key):
            raise AnatomicalEmbeddingError(
                f"{file}: may be the study {' or '.join(map(_shown, alike))} of the record, but names alone"
                " cannot decide this; give the dates with --date, and enter missing dates of the record in 3D Slicer."
            )
        if scan.key not in keys:
            new = scan.name if scan.series_uid else free_name(name, taken)
            taken.add(new.casefold())
            studies[scan.key] = replace(scan, name=new)
            if new not in (name, scan.name):
                notes.append(f"{file}: is not the scan {name} of the record, so the file's study is called {new}.")
            continue
        same = by_key[keys[scan.key]]
        day = scan.date if by_hand or same.date is None else same.date
        uids = {uid: getattr(same, uid) or getattr(scan, uid) for uid in ("study_uid", "series_uid")}
        studies[scan.key] = replace(same, date=day, **uids)
        if scan.date not in (None, day):
            dates = f"{scan.date.isoformat()} in its header and {day.isoformat()} in the record"
            notes.append(f"{file}: has the date {dates}; the date in the record is used. To change it, give --date.")
        if same.key != scan.key and not same.series_uid:
            notes.append(f"{file}: has the same name as {_shown(same)} of the record, and is used as this study.")
    return list(studies.values()), notes


def in_order(known: Iterable[Study], others: Iterable[Study]) -> tuple[list[Study], list[str]]:
    """Sort all studies by date. A study without a date keeps its place after the study before it.

    Returns the studies, and a list with one sentence about the studies without a date, or an empty list.
    """
    studies = list({study.key: study for study in (*known, *others)}.values())
    ordered = sorted((each for each in studies if each.date is not None), key=lambda each: each.date)
    for number, study in enumerate(studies):
        if study.date is None:
            ordered.insert(ordered.index(studies[number - 1]) + 1 if number else 0, study)
    undated = ", ".join(study.name for study in studies if study.date is None)
    if not undated or len(studies) < 2:
        return ordered, []
    return ordered, [f"{undated}: no date is known, so the order of the files is used; give --date for each scan."]


def date_of(text: str) -> date | None:
    """Read a DICOM date: YYYYMMDD, YYYY.MM.DD (older files) or YYYY-MM-DD. Returns None for any other text."""
    try:
        return date.fromisoformat(text.strip().replace(".", "-"))
    except ValueError:
        return None


def _candidates(here: Sequence[Study], others: Sequence[Study], keys: Mapping[str, str]) -> dict[str, list[Study]]:
    """Return {key of a study in `others`: the studies of `here` that may be the same study}.

    Two studies may be the same if they have the same name and no contradicting facts. Studies with a DICOM series UID
    and recognised studies are left out. keys: key in `others` -> key in `here`, for all recognised studies.
    """
    free = [each for each in here if each.key not in keys.values() and not each.series_uid]
    sought = [each for each in others if each.key not in keys and not each.series_uid]
    return {
        each.key: [study for study in free if study.name == each.name and not _contradict(study, each)]
        for each in sought
    }


def _contradict(one: Study, other: Study) -> bool:
    """Return whether two studies have different dates, different DICOM study UIDs, or different voxel hashes."""
    dates, uids = {one.date, other.date} - {None}, {one.study_uid, other.study_uid} - {""}
    return len(dates) > 1 or len(uids) > 1 or all(_CONTENT.fullmatch(each.key) for each in (one, other))


def _shown(study: Study) -> str:
    return study.name if study.date is None else f"{study.name} ({study.date.isoformat()})"
