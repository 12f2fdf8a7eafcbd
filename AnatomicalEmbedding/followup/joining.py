"""Two records of one patient as one: lesions are the same by their Tracking UID, studies by key or DICOM series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from itertools import count

from .lesions import Finding, Lesion
from .record import FollowUp


def joined(one: FollowUp, other: FollowUp) -> FollowUp:
    """All studies, by date where all have one, and all lesions. Where both know of a lesion in a study, what `other`
    says counts, unless that is a proposal and a person has looked in `one`. Lesions keep their ids where these are
    free; studies have the keys of `one`.
    """
    keys = _keys(one, other)
    studies = list(one.studies)
    known = {study.key for study in studies}
    studies += [study for study in other.studies if keys[study.key] not in known]
    if all(study.date is not None for study in studies):
        studies.sort(key=lambda study: study.date or date.max)
    ids = _ids(one, other)
    lesions = {lesion.id: lesion for lesion in one.lesions}
    for lesion in other.lesions:
        moved = _renamed(lesion, ids, keys)
        here = lesions.get(moved.id)
        lesions[moved.id] = moved if here is None else _as_one(here, moved)
    return replace(FollowUp().with_studies(studies), lesions=tuple(lesions.values()))


def _keys(one: FollowUp, other: FollowUp) -> dict[str, str]:
    """Key in `other` -> key in the result."""
    keys = {study.key for study in one.studies}
    by_series = {study.series_uid: study.key for study in one.studies if study.series_uid}
    return {
        study.key: study.key if study.key in keys else by_series.get(study.series_uid, study.key)
        for study in other.studies
    }


def _ids(one: FollowUp, other: FollowUp) -> dict[str, str]:
    """Id in `other` -> id in the result."""
    same = {lesion.tracking_uid: lesion.id for lesion in one.lesions}
    taken = set(same.values())
    reserved = {lesion.id for lesion in other.lesions}
    ids = {}
    for lesion in other.lesions:
        new = same.get(lesion.tracking_uid, lesion.id)
        if lesion.tracking_uid not in same and new in taken:
            new = next(name for n in count(1) if (name := f"L{n}") not in taken | reserved)
        taken.add(new)
        ids[lesion.id] = new
    return ids


def _renamed(lesion: Lesion, ids: Mapping[str, str], keys: Mapping[str, str]) -> Lesion:
    findings = {
        keys.get(key, key): replace(found, into=ids.get(found.into, found.into))
        for key, found in lesion.findings.items()
    }
    split_from = ids.get(lesion.split_from, lesion.split_from)
    return replace(lesion, id=ids[lesion.id], split_from=split_from, findings=findings)


def _as_one(known: Lesion, other: Lesion) -> Lesion:
    findings = dict(known.findings)
    for key, found in other.findings.items():
        if found.reviewed or not _reviewed(findings.get(key)):
            findings[key] = found
    return replace(
        other,
        findings=findings,
        name=other.name or known.name,
        site=other.site or known.site,
        split_from=other.split_from or known.split_from,
    )


def _reviewed(found: Finding | None) -> bool:
    return found is not None and found.reviewed
