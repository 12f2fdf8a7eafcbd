"""Find out which studies of two lists are the same, sort studies by time, and read DICOM dates."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from ..errors import AnatomicalEmbeddingError
from ..files import free_name
from .lesions import Study

_CONTENT = re.compile(r"[0-9a-f]{40}")  # a content hash of `inference.volume_hash`


def same_studies(record_studies: Sequence[Study], new_studies: Sequence[Study]) -> dict[str, str]:
    """Find new studies that the record has, too. Returns a dictionary: key of the new study -> key in the record.

    Two studies are the same if they have the same key or the same DICOM series. Two studies without a series are also
    the same if they have the same name, if their dates, DICOM studies and contents do not differ, and if no other study
    fits equally well.
    """
    record_keys = {study.key for study in record_studies}
    keys = {study.key: study.key for study in new_studies if study.key in record_keys}
    series = {study.series_uid: study.key for study in record_studies if study.series_uid}
    for study in new_studies:
        match = series.get(study.series_uid)
        if match is not None and study.key not in keys and match not in keys.values():
            keys[study.key] = match
    candidates = _candidates(record_studies, new_studies, keys)
    uses = Counter(study.key for alike in candidates.values() for study in alike)
    for key, alike in candidates.items():
        # one study of the record fits, and it fits no other new study
        if len(alike) == 1 and uses[alike[0].key] == 1:
            keys[key] = alike[0].key
    return keys


def recognize(
    record_studies: Sequence[Study],
    scans: Sequence[Study],
    files: Sequence[str],
    by_hand: bool = False,
) -> tuple[list[Study], list[str]]:
    """Find, for each scan, its study in the record. A scan that is not in the record becomes a new study.

    A new study has the name of its file; if several files have the same name, the names of their folders are added.

    Args:
        record_studies: studies of the record.
        scans: the scans, each as a `Study` whose key is the UID of the DICOM series or the hash of the content.
        files: paths of the scans.
        by_hand: whether the user gave the dates of `scans`. If True, the user's dates replace the dates in the record;
            if False, the dates in the record are kept.

    Returns:
        One study for each scan, with the key that this study has in the record; and sentences for the user.

    Raises:
        AnatomicalEmbeddingError: a scan occurs twice, or it remains unclear which study of the record a scan is.
    """
    # late: it loads SimpleITK, which Slicer's modules must not load at start
    from ..scan.sources import distinct_names

    keys = same_studies(record_studies, scans)
    unclear = _candidates(record_studies, scans, keys)
    used_names = {study.name.casefold() for study in record_studies}
    by_key = {study.key: study for study in record_studies}
    studies = {}
    notes = []
    for file, name, scan in zip(files, distinct_names(files), scans, strict=True):
        if scan.key in studies:
            raise AnatomicalEmbeddingError(
                f"{file}: was given twice, perhaps under two names; give each scan once."
            )
        alike = unclear.get(scan.key)
        if alike:
            raise AnatomicalEmbeddingError(
                f"{file}: may be the study {' or '.join(map(_shown, alike))} of the record, but names alone"
                " cannot decide this; give the dates with --date, and enter missing dates of the record in 3D Slicer."
            )
        if scan.key not in keys:
            new = scan.name if scan.series_uid else free_name(name, used_names)
            used_names.add(new.casefold())
            studies[scan.key] = replace(scan, name=new)
            if new not in (name, scan.name):
                notes.append(
                    f"{file}: is not the scan {name} of the record, so the file's study is called {new}."
                )
            continue
        record_study = by_key[keys[scan.key]]
        is_date_used = by_hand or record_study.date is None
        day = scan.date if is_date_used else record_study.date
        studies[scan.key] = replace(
            record_study,
            date=day,
            study_uid=record_study.study_uid or scan.study_uid,
            series_uid=record_study.series_uid or scan.series_uid,
        )
        if scan.date not in (None, day):
            dates = f"{scan.date.isoformat()} in its header and {day.isoformat()} in the record"
            notes.append(
                f"{file}: has the date {dates}; the date in the record is used. To change it, give --date."
            )
        if record_study.key != scan.key and not record_study.series_uid:
            notes.append(
                f"{file}: has the same name as {_shown(record_study)} of the record, and is used as this study."
            )
    return list(studies.values()), notes


def in_order(
    record_studies: Iterable[Study], new_studies: Iterable[Study]
) -> tuple[list[Study], list[str]]:
    """Sort all studies by date. A study without a date keeps its place after the study before it.

    Returns the studies, and a list with one sentence about the studies without a date, or an empty list.
    """
    studies = list({study.key: study for study in (*record_studies, *new_studies)}.values())
    ordered = sorted(
        (study for study in studies if study.date is not None), key=lambda study: study.date
    )
    for number, study in enumerate(studies):
        if study.date is None:
            # studies before it in the list are in `ordered` already
            place = ordered.index(studies[number - 1]) + 1 if number else 0
            ordered.insert(place, study)
    undated = ", ".join(study.name for study in studies if study.date is None)
    if not undated or len(studies) < 2:
        return ordered, []
    return ordered, [
        f"{undated}: no date is known, so the order of the files is used; give --date for each scan."
    ]


def date_of(text: str) -> date | None:
    """Read a DICOM date: YYYYMMDD, YYYY.MM.DD (older files) or YYYY-MM-DD. Returns None for any other text."""
    try:
        return date.fromisoformat(text.strip().replace(".", "-"))
    except ValueError:
        return None


def _candidates(
    record_studies: Sequence[Study], new_studies: Sequence[Study], keys: Mapping[str, str]
) -> dict[str, list[Study]]:
    """Return {key of a new study: the studies of the record that may be the same study}.

    Two studies may be the same if they have the same name and no contradicting facts. Studies with a DICOM series UID
    and recognised studies are left out. keys: key of a new study -> key in the record, for all recognised studies.
    """
    used = {*keys.values()}
    free = [study for study in record_studies if study.key not in used and not study.series_uid]
    candidates = {}
    for new in new_studies:
        if new.key not in keys and not new.series_uid:
            alike = [s for s in free if s.name == new.name and not _contradict(s, new)]
            candidates[new.key] = alike
    return candidates


def _contradict(first: Study, second: Study) -> bool:
    """Return whether two studies have different dates, different DICOM study UIDs, or different voxel hashes."""
    dates = {first.date, second.date} - {None}
    uids = {first.study_uid, second.study_uid} - {""}
    have_hashes = _CONTENT.fullmatch(first.key) and _CONTENT.fullmatch(second.key)
    return len(dates) > 1 or len(uids) > 1 or bool(have_hashes)


def _shown(study: Study) -> str:
    """Return a study as messages name it."""
    return study.name if study.date is None else f"{study.name} ({study.date.isoformat()})"
