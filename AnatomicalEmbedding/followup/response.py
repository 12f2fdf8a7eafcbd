"""Response by RECIST 1.1 (Eisenhauer et al., Eur J Cancer 45:228, 2009), from confirmed measurements alone.

Judged are target lesions and new ones. Whether lesions that are no targets have unequivocally grown is for the reader
to say; here they only keep a complete response from being called so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from .lesions import MERGED, NOT_VISIBLE, OUTSIDE, PROPOSED, Finding, Lesion, Study
from .record import FollowUp

BASELINE = "baseline"
COMPLETE, PARTIAL, STABLE, PROGRESSIVE = "CR", "PR", "SD", "PD"
NOT_EVALUABLE = "not evaluable"

NORMAL_NODE_MM = 10.0  # a node with a shorter short axis is normal
_LEAST_MM, _LEAST_NODE_MM = 10.0, 15.0  # of a target at baseline
_MOST_TARGETS, _MOST_OF_A_SITE = 5, 2
_GROWN, _GROWN_MM = 1.2, 5.0  # against the nadir, both
_SHRUNK = 0.7  # against the baseline
_ROUNDING_MM = 1e-6  # axes are kept as their ends


@dataclass(frozen=True)
class Response:
    """One study. sum_mm: of the diameters of all targets, None where one is not known. nadir_mm: the smallest sum
    before. from_baseline, from_nadir: percent. category: one of the words above. new: ids of lesions that the baseline
    did not show. missing: what a person must still say before the study can be judged. notes: what to know.
    """

    study: str
    sum_mm: float | None
    nadir_mm: float | None
    from_baseline: float | None
    from_nadir: float | None
    category: str
    new: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def responses(record: FollowUp) -> list[Response]:
    """The response at each study, in order.

    Baseline is the first study in which every target known by then is measured. Lesions that split from a target count
    from when they are first seen; one that merged with another counts with it, once.
    """
    found: list[Response] = []
    baseline = _find_baseline(record)
    for number, study in enumerate(record.studies):
        if baseline is None or number < baseline:
            missing = _measured(record, study, _known_by(record, number)).missing
            missing = missing or ("no target lesion is marked and measured; mark one, and draw its axis.",)
            found.append(Response(study.key, None, None, None, None, NOT_EVALUABLE, missing=missing))
        elif number == baseline:
            targets = _known_by(record, number)
            total = _measured(record, study, targets).total
            found.append(
                Response(study.key, total, None, None, None, BASELINE, notes=_choice_notes(record, study, targets))
            )
        else:
            found.append(_judged(record, baseline, number, found[baseline:]))
    return found


@dataclass(frozen=True)
class _Measured:
    """The lesions that count in a study, each once, and their diameters; sentences on those that have none."""

    lesions: tuple[tuple[Lesion, float], ...]
    missing: tuple[str, ...]

    @property
    def at_least(self) -> float:
        return sum(size for _, size in self.lesions)

    @property
    def total(self) -> float | None:
        return None if self.missing else self.at_least

    @property
    def none_left(self) -> bool:
        """Whether every target is gone, or a node of normal size."""
        return not self.missing and all(_is_normal(lesion, size) for lesion, size in self.lesions)

    @property
    def back(self) -> tuple[str, ...]:
        """Targets other than nodes that are there."""
        return tuple(lesion.id for lesion, size in self.lesions if size > 0 and not lesion.nodal)


def _judged(record: FollowUp, baseline: int, number: int, before: list[Response]) -> Response:
    study, first = record.studies[number], record.studies[baseline]
    measured = _measured(record, study, _counting_in(record, baseline, number))
    new, open_questions, notes = _new_lesions(record, first, study, baseline)
    base_mm = before[0].sum_mm
    nadir_mm = min(each.sum_mm for each in before if each.sum_mm is not None)
    total = measured.total
    grown = measured.at_least >= _GROWN * nadir_mm - _ROUNDING_MM
    grown = grown and measured.at_least >= nadir_mm + _GROWN_MM - _ROUNDING_MM
    back = measured.back if any(each.category == COMPLETE for each in before) else ()
    missing = (*measured.missing, *open_questions)
    if new or grown or back:
        category = PROGRESSIVE
        if measured.missing and grown:
            notes += ("the targets that are measured have grown enough, whatever the others have done.",)
        if back:
            notes += (f"{', '.join(back)}: seen again after a complete response.",)
    elif missing:
        category = NOT_EVALUABLE
    elif measured.none_left:
        left = _others_left(record, study)
        category = PARTIAL if left else COMPLETE
        notes += left
    else:
        category = PARTIAL if total <= _SHRUNK * base_mm + _ROUNDING_MM else STABLE
    return Response(
        study.key,
        total,
        nadir_mm,
        _percent(total, base_mm),
        _percent(total, nadir_mm),
        category,
        tuple(new),
        missing,
        notes,
    )


def _percent(total: float | None, of: float) -> float | None:
    return None if total is None or of <= 0 else 100 * (total - of) / of


# -- which lesions count ----------------------------------------------------------------------------------------------


def _find_baseline(record: FollowUp) -> int | None:
    for number, study in enumerate(record.studies):
        targets = _known_by(record, number)
        if targets and not _measured(record, study, targets).missing:
            return number
    return None


def _known_by(record: FollowUp, number: int) -> list[Lesion]:
    """Targets that a person has seen in this study or an earlier one."""
    keys = {study.key for study in record.studies[: number + 1]}
    return [
        lesion
        for lesion in record.lesions
        if lesion.target and any(k in keys and (f.visible or f.state == MERGED) for k, f in lesion.findings.items())
    ]


def _counting_in(record: FollowUp, baseline: int, number: int) -> list[Lesion]:
    """The baseline's targets, and what split from them by this study."""
    targets = _known_by(record, baseline)
    counting = {lesion.id for lesion in targets}
    parts = [lesion for lesion in _known_by(record, number) if lesion.id not in counting]
    for _ in parts:  # a part may have split again
        counting |= {part.id for part in parts if part.split_from in counting}
    return targets + [part for part in parts if part.id in counting]


def _new_lesions(
    record: FollowUp, first: Study, study: Study, baseline: int
) -> tuple[list[str], tuple[str, ...], tuple[str, ...]]:
    """Ids of lesions seen here that the baseline did not show; sentences on those of which nobody has said; notes."""
    known = {each.key for each in record.studies[: baseline + 1]}
    new, unclear, notes = [], [], []
    for lesion in record.lesions:
        found = lesion.findings.get(study.key)
        if found is None or not found.visible or lesion.split_from:
            continue
        if any(k in known and (f.visible or f.state == MERGED) for k, f in lesion.findings.items()):
            continue
        if lesion.nodal and found.size.confirmed and _is_normal(lesion, found.size.short_mm):
            continue
        then = lesion.findings.get(first.key)
        if then is None or not then.reviewed:
            unclear.append(lesion.id)
            continue
        new.append(lesion.id)
        if then.state == OUTSIDE:
            notes.append(f"{lesion.id}: its place is not in the scan of {first.label}; RECIST 1.1 counts it as new.")
    question = f"new? Look at the place in {first.label}, and say whether it is there."
    return new, _sentences((lesion_id, question) for lesion_id in unclear), tuple(notes)


def _others_left(record: FollowUp, study: Study) -> tuple[str, ...]:
    """Notes on lesions that are no targets and are not known to be gone."""
    number = record.studies.index(study)
    keys = {each.key for each in record.studies[: number + 1]}
    notes = []
    for lesion in record.lesions:
        if lesion.target or not any(k in keys and f.visible for k, f in lesion.findings.items()):
            continue
        found = lesion.findings.get(study.key)
        if found is not None and found.state in (NOT_VISIBLE, MERGED):
            continue
        if found is not None and found.visible and lesion.nodal and _is_normal(lesion, diameter_mm(lesion, found)):
            continue
        notes.append(f"{lesion.id}: is no target, and not said to be gone; without it the response were complete.")
    return tuple(notes)


# -- sizes ------------------------------------------------------------------------------------------------------------


def _measured(record: FollowUp, study: Study, targets: Iterable[Lesion]) -> _Measured:
    standing = dict.fromkeys(record.stands_for(lesion.id, study.key) for lesion in targets)
    sizes, missing = [], []
    for lesion in map(record.lesion, standing):
        found = lesion.findings.get(study.key)
        size = diameter_mm(lesion, found)
        if size is None:
            missing.append((lesion.id, _why_unknown(lesion, found, study)))
        else:
            sizes.append((lesion, size))
    return _Measured(tuple(sizes), _sentences(missing))


def _sentences(why: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """One for each reason, with all lesions that it is true of: a study that nobody has looked at has one, not ten."""
    of_reason: dict[str, list[str]] = {}
    for lesion_id, reason in why:
        of_reason.setdefault(reason, []).append(lesion_id)
    return tuple(f"{', '.join(ids)}: {reason}" for reason, ids in of_reason.items())


def diameter_mm(lesion: Lesion, found: Finding | None) -> float | None:
    """What a lesion adds to the sum: the short axis of a node, else the long one, 0 where a person saw none; None where
    nobody has measured it.
    """
    if found is None:
        return None
    if found.state == NOT_VISIBLE:
        return 0.0
    if not found.visible or not found.size.confirmed:
        return None
    return found.size.short_mm if lesion.nodal else found.size.long_mm


def _is_normal(lesion: Lesion, size_mm: float | None) -> bool:
    if size_mm is None:
        return False
    return size_mm < NORMAL_NODE_MM if lesion.nodal else size_mm <= 0


def _why_unknown(lesion: Lesion, found: Finding | None, study: Study) -> str:
    axis = "short axis" if lesion.nodal else "long axis"
    if found is None:
        return f"nothing is known in {study.label}; find or mark it there."
    if found.state == PROPOSED:
        return f"only proposed in {study.label}; confirm it, or say where the lesion is."
    if found.state == OUTSIDE:
        return f"not in the scan of {study.label}."
    drawn = found.size.short_axis if lesion.nodal else found.size.long_axis
    if drawn is not None and not found.size.confirmed:
        return f"axes in {study.label} are carried over from another study; accept or draw them."
    return f"not measured in {study.label}; draw the {axis}."


def _choice_notes(record: FollowUp, study: Study, targets: list[Lesion]) -> tuple[str, ...]:
    notes = []
    if len(targets) > _MOST_TARGETS:
        notes.append(f"{len(targets)} targets; RECIST 1.1 takes {_MOST_TARGETS} at most.")
    sites = Counter(lesion.site.strip().casefold() for lesion in targets)
    for site, count in sites.items():
        if site and count > _MOST_OF_A_SITE:
            notes.append(f"{count} targets in {site}; RECIST 1.1 takes {_MOST_OF_A_SITE} of an organ at most.")
    for lesion, size in _measured(record, study, targets).lesions:
        least, axis = (_LEAST_NODE_MM, "short axis") if lesion.nodal else (_LEAST_MM, "long axis")
        if size < least - _ROUNDING_MM:
            notes.append(
                f"{lesion.id}: its {axis} is {size:.1f} mm at baseline; RECIST 1.1 asks for {least:.0f} of a target."
            )
    return tuple(notes)
