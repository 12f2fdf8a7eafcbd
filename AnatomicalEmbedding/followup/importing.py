"""Add a second record of the same patient to a record. Lesions with the same Tracking UID are the same lesion."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import count

from .lesions import WITH_PLACE, Finding, Lesion
from .record import FollowUp
from .sr_codes import organ_of
from .study_inputs import in_order, same_studies

_SAME_MM = 0.01  # two places this near are the same place, because structured reports store places in single precision


def add_record(here: FollowUp, other: FollowUp) -> tuple[FollowUp, tuple[str, ...]]:
    """Add to `here` the studies, dates, lesions, findings, sizes, names and sites that only `other` contains.

    Entries that a person made in `here` are not changed. Lesions and studies of both records have the ids and keys of
    `here`. A finding "merged into X" is not added if a person entered in `here` that X is not visible, outside or
    merged in this study.

    Returns:
        The record; and names of the entries that were not changed, although `other` has different values: "L1 in
        2024-01-15" means a finding; "kind of L1" means name, site, target, nodal or split_from of the lesion L1.
    """
    keys, ids = same_studies(here.studies, other.studies), _ids(here, other)
    record = _with_studies(here, other, keys)
    labels = {study.key: study.label for study in record.studies}
    known = {lesion.id: lesion for lesion in here.lesions}
    lesions, differing = dict(known), []
    for lesion in (renamed(each, keys, ids) for each in other.lesions):
        mine = known.get(lesion.id, Lesion(lesion.id))
        refused = [key for key, f in lesion.findings.items() if _is_refused(mine.findings.get(key), f, key, known)]
        differing += [f"{lesion.id} in {labels.get(key, key)}" for key in refused]
        if lesion.id in known and _differs_in_kind(mine, lesion):
            differing.append(f"kind of {lesion.id}")
        added = {key: found for key, found in lesion.findings.items() if key not in refused}
        lesion = replace(lesion, findings=added)
        lesions[lesion.id] = _filled(mine, lesion) if lesion.id in known else lesion
    return replace(record, lesions=tuple(lesions.values())), tuple(differing)


def _with_studies(here: FollowUp, other: FollowUp, keys: Mapping[str, str]) -> FollowUp:
    dates = {keys[study.key]: study.date for study in other.studies if study.key in keys}
    studies = [replace(study, date=study.date or dates.get(study.key)) for study in here.studies]
    return here.with_studies(in_order(studies, (each for each in other.studies if each.key not in keys))[0])


def _ids(here: FollowUp, other: FollowUp) -> dict[str, str]:
    """Return the new id of each lesion of `other` after `other` was joined with `here`: old id -> new id. A lesion that
    `here` also contains gets its id in `here`. The id changes, too, if another lesion of `here` uses this id."""
    same = {lesion.tracking_uid: lesion.id for lesion in here.lesions}
    used = {*same.values(), *(lesion.id for lesion in other.lesions)}
    ids = {}
    for lesion in other.lesions:
        new = same.get(lesion.tracking_uid, lesion.id)
        if lesion.tracking_uid not in same and new in same.values():
            new = next(name for n in count(1) if (name := f"L{n}") not in used)
            used.add(new)
        ids[lesion.id] = new
    return ids


def renamed(lesion: Lesion, keys: Mapping[str, str], ids: Mapping[str, str]) -> Lesion:
    """Replace study keys and lesion ids in a lesion. keys, ids: old -> new; other keys and ids are kept."""
    findings = {}
    for key, found in lesion.findings.items():
        guess = found.guess and replace(found.guess, source=keys.get(found.guess.source, found.guess.source))
        findings[keys.get(key, key)] = replace(found, guess=guess, into=ids.get(found.into, found.into))
    split_from = ids.get(lesion.split_from, lesion.split_from)
    return replace(lesion, id=ids[lesion.id], split_from=split_from, findings=findings)


def _filled(mine: Lesion, other: Lesion) -> Lesion:
    """Return `mine`, a lesion of the old record, completed from `other`, the same lesion in the added record.

    Findings, name, site and `split_from` are copied from `other` if `mine` lacks them. A finding that a person reviewed
    in `other` replaces an unreviewed finding of `mine`. A confirmed size in `other` replaces an unconfirmed size.
    """
    findings = dict(mine.findings)
    for key, found in other.findings.items():
        known = findings.get(key)
        if known is None or (found.reviewed and not known.reviewed):
            findings[key] = found
        elif found.reviewed and found.size.confirmed and not known.size.confirmed:
            findings[key] = replace(known, size=found.size)
    words = {name: getattr(mine, name) or getattr(other, name) for name in ("name", "site", "split_from")}
    return replace(mine, findings=findings, **words)


def _is_refused(mine: Finding | None, found: Finding, study: str, known: Mapping[str, Lesion]) -> bool:
    """Return whether the added finding `found` is left out, because a review in the old record contradicts the finding.

    mine: the finding of the same lesion and study in the old record, or None. known: lesions of the old record, by id.
    If `mine` is reviewed, `found` is left out if it is also reviewed and differs from `mine`. Otherwise, `found` is
    left out if it is merged into a lesion that a person reviewed as not visible, outside or merged in the old record.
    """
    if mine is not None and mine.reviewed:
        return found.reviewed and not _agree(mine, found)
    stated = known[found.into].findings.get(study) if found.into in known else None
    return stated is not None and stated.reviewed and stated.state not in WITH_PLACE


def _agree(one: Finding, other: Finding) -> bool:
    """Return whether two reviewed findings agree. Axes are compared only if a person confirmed the axes of both
    findings."""
    if not (one.visible and other.visible):
        return (one.state, one.into) == (other.state, other.into)
    pairs = [(one.point_ras, other.point_ras)]
    if one.size.confirmed and other.size.confirmed:
        for kind in one.size.axes.keys() & other.size.axes.keys():
            pairs += zip(one.size.axes[kind], other.size.axes[kind], strict=True)
    return all(math.dist(mine, theirs) <= _SAME_MM for mine, theirs in pairs)


def _differs_in_kind(mine: Lesion, other: Lesion) -> bool:
    """Return whether two lesions differ in target or nodal, or in a name, organ or split_from that both have set."""
    words = [(each.name, each.split_from, organ_of(each.site)) for each in (mine, other)]
    differ = any(one and another and one != another for one, another in zip(*words, strict=True))
    return differ or (mine.target, mine.nodal) != (other.target, other.nodal)
