"""Merging two records of one patient: lesions are identified by Tracking UID, studies by key, DICOM series or name.

`joined` merges reports, of which the later counts. `taken_in` adds an earlier session's record: what a person has
entered here stays.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from .lesions import MERGED, Finding, Lesion, Measurement, Study
from .record import FollowUp
from .sr_codes import site_codes
from .study_inputs import in_order, is_content

_SAME_MM = 0.01  # structured reports keep places in single precision
_SAME_SHARE = 1e-3  # of a volume


@dataclass(frozen=True)
class TakenIn:
    """record: the merged one. kept: (lesion, study) where the other record contradicts this one, whose finding stays.
    described: lesions whose name, site, split_from, target or nodal differ there; those here stay.
    """

    record: FollowUp
    kept: tuple[tuple[str, str], ...]
    described: tuple[str, ...]


def taken_in(here: FollowUp, other: FollowUp) -> TakenIn:
    """Reviewed findings of `here` stay, and `other` adds studies and dates, lesions, their names and sites, findings
    that are not reviewed here, and sizes that are not confirmed here of lesions that both have in one place.

    Mergers of `other` with a lesion that is reviewed as not visible here are not taken over. Ids and keys are those of
    `here` where it has the lesion or study.
    """
    moved = _moved(here, other)
    known = {lesion.id: lesion for lesion in here.lesions}
    kept = _contradicting(here, moved)
    fitting = [
        replace(lesion, findings={key: found for key, found in lesion.findings.items() if (lesion.id, key) not in kept})
        for lesion in moved
    ]
    described = (each.id for each in moved if each.id in known and _is_described_otherwise(known[each.id], each))
    return TakenIn(_together(here, other, fitting, _filled), tuple(kept), tuple(described))


def joined(one: FollowUp, other: FollowUp) -> FollowUp:
    """All studies, ordered by `in_order`, and all lesions. Where both have a finding, that of `other` counts, unless it
    is a proposal and that of `one` is reviewed. Lesions keep their ids where these are free; studies have the keys of
    `one`.
    """
    return _together(one, other, _moved(one, other), _as_one)


def same_studies(one: FollowUp, other: FollowUp) -> dict[str, str]:
    """Key in `other` -> key in `one` of the studies in both: of one key or DICOM series, or else, without a series, of
    one unique name and without contradicting date or content.
    """
    known = {study.key for study in one.studies}
    keys = {study.key: study.key for study in other.studies if study.key in known}
    series = {study.series_uid: study.key for study in one.studies if study.series_uid}
    for study in other.studies:
        here = series.get(study.series_uid)
        if here is not None and study.key not in keys and here not in keys.values():
            keys[study.key] = here
    for name_in in (lambda study, _record: study.name, _file_name):
        here, there = (
            {study.key: (name_in(study, record), study) for study in record.studies if not study.series_uid}
            for record in (one, other)
        )
        free = [entry for key, entry in here.items() if key not in keys.values()]
        sought = [entry for key, entry in there.items() if key not in keys]
        for entry in sought:
            alike = [each for each in free if _may_be(each, entry)]
            if len(alike) == 1 and sum(_may_be(alike[0], each) for each in sought) == 1:
                keys[entry[1].key] = alike[0][1].key
    return keys


def _file_name(study: Study, record: FollowUp) -> str:
    """The name without the number of a second file of that name: NAME_2 in a record, NAME_1 in Slicer."""
    name, _, number = study.name.rpartition("_")
    return name if number.isdigit() and any(each.name == name for each in record.studies) else study.name


def _may_be(named: tuple[str, Study], other_named: tuple[str, Study]) -> bool:
    """Of one name, and without two dates, two DICOM studies or two contents."""
    (name, one), (other_name, other) = named, other_named
    days, uids = {one.date, other.date} - {None}, {one.study_uid, other.study_uid} - {""}
    apart = len(days) > 1 or len(uids) > 1 or (is_content(one.key) and is_content(other.key))
    return name == other_name and not apart


# -- the same ids and keys ---------------------------------------------------------------------------------------------


def _moved(one: FollowUp, other: FollowUp) -> list[Lesion]:
    """The lesions of `other` by the ids and keys that they have in the result."""
    keys, ids = same_studies(one, other), _ids(one, other)
    return [_renamed(lesion, ids, keys) for lesion in other.lesions]


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
    findings = {}
    for key, found in lesion.findings.items():
        guess = found.guess and replace(found.guess, source=keys.get(found.guess.source, found.guess.source))
        findings[keys.get(key, key)] = replace(found, guess=guess, into=ids.get(found.into, found.into))
    split_from = ids.get(lesion.split_from, lesion.split_from)
    return replace(lesion, id=ids[lesion.id], split_from=split_from, findings=findings)


def _together(
    one: FollowUp, other: FollowUp, moved: Iterable[Lesion], unite: Callable[[Lesion, Lesion], Lesion]
) -> FollowUp:
    """moved: the lesions of `other` as `_moved`. unite: merges a lesion of `one` with the same of `other`."""
    keys = same_studies(one, other)
    dates = {keys[study.key]: study.date for study in other.studies if study.key in keys}
    studies = [replace(study, date=study.date or dates.get(study.key)) for study in one.studies]
    studies = in_order(studies, (study for study in other.studies if study.key not in keys)).studies
    lesions = {lesion.id: lesion for lesion in one.lesions}
    for lesion in moved:
        known = lesions.get(lesion.id)
        lesions[lesion.id] = lesion if known is None else unite(known, lesion)
    return replace(FollowUp().with_studies(studies), lesions=tuple(lesions.values()))


# -- the same lesion in both -------------------------------------------------------------------------------------------


def _as_one(known: Lesion, other: Lesion) -> Lesion:
    findings = dict(known.findings)
    for key, found in other.findings.items():
        if found.reviewed or key not in findings or not findings[key].reviewed:
            findings[key] = found
    return _described(other, known, findings)


def _filled(known: Lesion, other: Lesion) -> Lesion:
    """A lesion with what a consistent `other` adds."""
    findings = dict(known.findings)
    for key, found in other.findings.items():
        mine = findings.get(key)
        if mine is None or (found.reviewed and not mine.reviewed):
            findings[key] = found
        elif found.reviewed:
            findings[key] = replace(mine, size=_sizes(mine.size, found.size))
    return _described(known, other, findings)


def _described(lesion: Lesion, other: Lesion, findings: dict[str, Finding]) -> Lesion:
    """A lesion with these findings, and with name, site and split_from of `other` where it has none."""
    return replace(
        lesion,
        findings=findings,
        name=lesion.name or other.name,
        site=lesion.site or other.site,
        split_from=lesion.split_from or other.split_from,
    )


def _sizes(mine: Measurement, other: Measurement) -> Measurement:
    if not (mine.confirmed and other.confirmed):
        return other if other.confirmed else mine
    return Measurement(
        mine.long_axis or other.long_axis,
        mine.short_axis or other.short_axis,
        other.volume_ml if mine.volume_ml is None else mine.volume_ml,
        confirmed=True,
    )


# -- contradictions ----------------------------------------------------------------------------------------------------


def _contradicting(here: FollowUp, moved: Sequence[Lesion]) -> list[tuple[str, str]]:
    """Lesion and study of reviewed findings in `moved` that contradict reviewed findings here."""
    own, others = _reviewed_findings(here.lesions), _reviewed_findings(moved)

    def is_denied(cell: tuple[str, str]) -> bool:
        return cell in own and not (cell in others and _agree(own[cell], others[cell]))

    def is_unseen(cell: tuple[str, str]) -> bool:
        return is_denied(cell) and not own[cell].visible

    return [
        (lesion, study)
        for (lesion, study), found in others.items()
        if is_denied((lesion, study))
        or ((lesion, study) not in own and found.state == MERGED and is_unseen((found.into, study)))
    ]


def _reviewed_findings(lesions: Iterable[Lesion]) -> dict[tuple[str, str], Finding]:
    """By lesion and study."""
    return {(each.id, key): found for each in lesions for key, found in each.findings.items() if found.reviewed}


def _agree(one: Finding, other: Finding) -> bool:
    """Are two reviewed findings the same? A size that only one has is no difference."""
    if not (one.visible and other.visible):
        return (one.state, one.into) == (other.state, other.into)
    pairs = [((one.point_ras,), (other.point_ras,))]
    if one.size.confirmed and other.size.confirmed:
        pairs += [(one.size.long_axis, other.size.long_axis), (one.size.short_axis, other.size.short_axis)]
        volumes = one.size.volume_ml, other.size.volume_ml
        if None not in volumes and not math.isclose(*volumes, rel_tol=_SAME_SHARE):
            return False
    known = (pair for pair in pairs if None not in pair)
    return all(math.dist(*ends) <= _SAME_MM for pair in known for ends in zip(*pair, strict=True))


def _is_described_otherwise(known: Lesion, other: Lesion) -> bool:
    """Does the description of `other` differ from a known one?"""
    words = [(each.name, each.split_from, _organ(each.site)) for each in (known, other)]
    differs = any(one and another and one != another for one, another in zip(*words, strict=True))
    return differs or (known.target, known.nodal) != (other.target, other.nodal)


def _organ(site: str) -> object:
    return site_codes(site) or site.casefold().strip()
