"""Adding another record of the patient: lesions are identified by Tracking UID, studies as by `same_studies`."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

from .lesions import MERGED, WITH_PLACE, Finding, Lesion
from .record import FollowUp
from .sr_codes import organ_of
from .study_inputs import in_order, same_studies

_SAME_MM = 0.01  # structured reports keep places in single precision


@dataclass(frozen=True)
class Added:
    """A record with the additions of another one.

    differing: what the other record states differently and the record keeps, such as "L1 in 2024-01-15" for a finding,
        and "kind of L1" for its description.
    """

    record: FollowUp
    differing: tuple[str, ...]


def add_record(here: FollowUp, other: FollowUp) -> Added:
    """Add to `here` all that only `other` has: studies, dates, lesions, findings, sizes, names and sites.

    Everything that a person entered in `here` stays. Ids and keys are the ones of `here` where it has the lesion or the
    study. A merger with a lesion that is not there by the findings of `here` is left out.
    """
    keys = same_studies(here.studies, other.studies)
    known = {lesion.id: lesion for lesion in here.lesions}
    moved = [_renamed(lesion, keys, _ids(here, other)) for lesion in other.lesions]
    lesions = known | {each.id: _filled(known.get(each.id), each) for each in moved}
    record = replace(_with_studies(here, other, keys), lesions=tuple(lesions.values()))
    labels = {study.key: study.label for study in record.studies}
    differing: dict[str, None] = {}
    for each in moved:
        if each.id in known and _differs_in_kind(known[each.id], each):
            differing[f"kind of {each.id}"] = None
        for key, found in each.findings.items():
            mine = known[each.id].findings.get(key) if each.id in known else None
            is_added = mine is None or not mine.reviewed
            refused = is_added and found.state == MERGED and _is_void(record, here, each.id, key)
            if refused:
                record = record.forget(each.id, key)
                if mine is not None:
                    record = _with_finding(record, each.id, key, mine)
            if refused or (not is_added and found.reviewed and not _agree(mine, found)):
                differing[f"{each.id} in {labels.get(key, key)}"] = None
    return Added(record, tuple(differing))


def _with_studies(here: FollowUp, other: FollowUp, keys: Mapping[str, str]) -> FollowUp:
    dates = {keys[study.key]: study.date for study in other.studies if study.key in keys}
    studies = [replace(study, date=study.date or dates.get(study.key)) for study in here.studies]
    return here.with_studies(in_order(studies, (each for each in other.studies if each.key not in keys)).studies)


def _ids(here: FollowUp, other: FollowUp) -> dict[str, str]:
    """Id in `other` -> id in the result."""
    same = {lesion.tracking_uid: lesion.id for lesion in here.lesions}
    taken = set(same.values())
    reserved = taken | {lesion.id for lesion in other.lesions}
    ids = {}
    for lesion in other.lesions:
        new = same.get(lesion.tracking_uid, lesion.id)
        if lesion.tracking_uid not in same and new in taken:
            new = next(name for n in count(1) if (name := f"L{n}") not in reserved)
        taken.add(new)
        reserved.add(new)
        ids[lesion.id] = new
    return ids


def _renamed(lesion: Lesion, keys: Mapping[str, str], ids: Mapping[str, str]) -> Lesion:
    findings = {}
    for key, found in lesion.findings.items():
        guess = found.guess and replace(found.guess, source=keys.get(found.guess.source, found.guess.source))
        findings[keys.get(key, key)] = replace(found, guess=guess, into=ids.get(found.into, found.into))
    split_from = ids.get(lesion.split_from, lesion.split_from)
    return replace(lesion, id=ids[lesion.id], split_from=split_from, findings=findings)


def _filled(mine: Lesion | None, other: Lesion) -> Lesion:
    """The lesion with the findings, sizes and words that it lacks."""
    if mine is None:
        return other
    findings = dict(mine.findings)
    for key, found in other.findings.items():
        known = findings.get(key)
        if known is None or (found.reviewed and not known.reviewed):
            findings[key] = found
        elif found.size.confirmed and not known.size.confirmed and found.visible and _agree(known, found):
            findings[key] = replace(known, size=found.size)
    words = {name: getattr(mine, name) or getattr(other, name) for name in ("name", "site", "split_from")}
    return replace(mine, findings=findings, **words)


def _is_void(record: FollowUp, here: FollowUp, lesion: str, study: str) -> bool:
    """Whether a lesion has merged with itself, or with a lesion that `here` states is not there: it would count 0 mm."""
    ids = {each.id for each in record.lesions}
    seen = [lesion]
    while (found := _finding(record, seen[-1], study)) is not None and found.state == MERGED:
        if found.into in seen:
            return True
        if found.into not in ids:
            return False
        seen.append(found.into)
    stated = _finding(here, seen[-1], study)
    return stated is not None and stated.reviewed and stated.state not in WITH_PLACE


def _finding(record: FollowUp, lesion: str, study: str) -> Finding | None:
    return next((each.findings.get(study) for each in record.lesions if each.id == lesion), None)


def _with_finding(record: FollowUp, lesion: str, study: str, finding: Finding) -> FollowUp:
    lesions = (
        replace(each, findings={**each.findings, study: finding}) if each.id == lesion else each
        for each in record.lesions
    )
    return replace(record, lesions=tuple(lesions))


def _agree(one: Finding, other: Finding) -> bool:
    """Whether two reviewed findings state the same; a size that only one has is no difference."""
    if not (one.visible and other.visible):
        return (one.state, one.into) == (other.state, other.into)
    return all(math.dist(a, b) <= _SAME_MM for a, b in _pairs(one, other))


def _pairs(one: Finding, other: Finding) -> Iterator[tuple]:
    yield one.point_ras, other.point_ras
    if one.size.confirmed and other.size.confirmed:
        for mine, theirs in ((one.size.long_axis, other.size.long_axis), (one.size.short_axis, other.size.short_axis)):
            if mine is not None and theirs is not None:
                yield from zip(mine, theirs, strict=True)


def _differs_in_kind(mine: Lesion, other: Lesion) -> bool:
    """Whether two descriptions of a lesion contradict each other; a word that only one has is no difference."""
    words = [(each.name, each.split_from, organ_of(each.site)) for each in (mine, other)]
    differ = any(one and another and one != another for one, another in zip(*words, strict=True))
    return differ or (mine.target, mine.nodal) != (other.target, other.nodal)
