"""Visits, baseline, sizes and new lesions of a follow-up, as RECIST 1.1 needs them.

The scans of one day, such as thorax and abdomen, form one visit.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from ..matching.status import ABSENT
from .lesions import (
    LEAST_AXIS_MM,
    LONG,
    MERGED,
    NOT_VISIBLE,
    OUTSIDE,
    PROPOSED,
    SHORT,
    Finding,
    Lesion,
    Study,
)
from .record import FollowUp

NORMAL_NODE_MM = 10.0  # a lymph node with a shorter short axis is normal


@dataclass(frozen=True)
class News:
    """New lesions of a visit.

    new: ids of the new lesions. unclear: pairs (id of a lesion that may be new, sentence that tells a person which
    entry decides this). notes: pairs (id of a new lesion, remark).
    """

    new: tuple[str, ...] = ()
    unclear: tuple[tuple[str, str], ...] = ()
    notes: tuple[tuple[str, str], ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the new lesions and of the lesions that may be new."""
        return *self.new, *(lesion_id for lesion_id, _ in self.unclear)


@dataclass(frozen=True)
class Measured:
    """Diameters in one visit. lesions: pairs (lesion, mm). missing: pairs (lesion id, why its diameter is unknown)."""

    lesions: tuple[tuple[Lesion, float], ...]
    missing: tuple[tuple[str, str], ...]

    @property
    def at_least(self) -> float:
        """The sum of the known diameters, mm."""
        return sum(size for _, size in self.lesions)

    @property
    def total(self) -> float | None:
        """The sum of all diameters, mm. None if a diameter is unknown."""
        return None if self.missing else self.at_least

    @property
    def is_cleared(self) -> bool:
        """Whether the diameters of all lesions are known and normal (`is_normal`)."""
        return not self.missing and all(is_normal(lesion, size) for lesion, size in self.lesions)

    @property
    def present(self) -> tuple[str, ...]:
        """The ids of the lesions that have a diameter above 0 mm and are not lymph nodes."""
        return tuple(lesion.id for lesion, size in self.lesions if size > 0 and not lesion.nodal)


@dataclass(frozen=True)
class Timeline:
    """The visits of a follow-up, with the start and the baseline of the response.

    Visits are numbered from 0. record: has one study for each visit, by date. If several scans of a visit have
    findings of a lesion, `record` contains only the most informative finding. scans: the original studies of each
    visit. start: number of the first visit in which a person saw a lesion; lesions that are first seen later are new.
    baseline: number of the first visit in which all targets that were seen at the start are measured. baseline is None
    if there is no such visit, if a new lesion is seen up to this visit, or if all these targets are 0 mm.
    """

    record: FollowUp
    scans: tuple[tuple[Study, ...], ...]
    start: int | None = None
    baseline: int | None = None

    def number_of(self, study: str) -> int:
        """Return the number of the visit that a study belongs to. study: study key."""
        numbers = {scan.key: number for number, scans in enumerate(self.scans) for scan in scans}
        return numbers[study]

    @property
    def first(self) -> Study:
        """The first visit in which a person saw a lesion. `start` must not be None."""
        return self.record.studies[self.start]

    @property
    def clean(self) -> tuple[Study, ...]:
        """The visits before the start for which a person entered that a lesion is not visible."""
        clean_keys = set()
        for lesion in self.record.lesions:
            for key, finding in lesion.findings.items():
                if finding.state == NOT_VISIBLE:
                    clean_keys.add(key)
        before = self.record.studies[: self.start]
        return tuple(study for study in before if study.key in clean_keys)

    def counting(self, number: int) -> list[Lesion]:
        """Return the targets seen at the start, and targets that split from these targets up to visit `number`."""
        keys = [study.key for study in self.record.studies[: number + 1]]
        counting = []
        parts = []
        for lesion in self.record.lesions:
            if not lesion.target:
                continue
            if _is_seen(lesion.findings.get(self.first.key)):
                counting.append(lesion)
            elif any(_is_seen(lesion.findings.get(key)) for key in keys):
                parts.append(lesion)
        ids = {lesion.id for lesion in counting}
        # repeated, because a part may have split again: each round adds at least one part, or none is left
        for _ in parts:
            ids |= {part.id for part in parts if part.split_from in ids}
        return counting + [part for part in parts if part.id in ids]

    def sizes(self, number: int) -> Measured:
        """Return the diameters, in visit `number`, of the lesions that `counting` returns for this visit.

        A lesion that has merged is replaced by the lesion that it merged into.
        """
        study = self.record.studies[number]
        standing = dict.fromkeys(
            self.record.stands_for(lesion.id, study.key) for lesion in self.counting(number)
        )
        sizes = []
        missing = []
        for lesion in map(self.record.lesion, standing):
            finding = lesion.findings.get(study.key)
            size = diameter_mm(lesion, finding)
            if size is None:
                missing.append((lesion.id, why_unknown(lesion, finding, study)))
            else:
                sizes.append((lesion, size))
        return Measured(tuple(sizes), tuple(missing))

    def news(self, number: int) -> News:
        """Return the lesions that a person saw in visit `number`, but not in the visit in which the follow-up starts.

        A lesion is unclear, not new, if nobody reviewed its place at the start, or if it is a lymph node without size.
        """
        first = self.first
        study = self.record.studies[number]
        new = []
        unclear = []
        notes = []
        for lesion in self.record.lesions:
            shown_lesion = self._shown(lesion, number)
            start_findings = self._start_findings(lesion)
            if shown_lesion is None or any(map(_is_seen, start_findings)):
                continue
            size = diameter_mm(shown_lesion, shown_lesion.findings.get(study.key))
            if shown_lesion.nodal and is_normal(shown_lesion, size):
                continue
            reviewed = [finding for finding in start_findings if finding.reviewed]
            if shown_lesion.nodal and size is None:
                text = f"is this lesion new? Draw its short axis in {study.label}: a lymph node below 10 mm is normal."
                unclear.append((lesion.id, text))
            elif not reviewed:
                text = f"is this lesion new? Look at its place in {first.label}, and enter whether the lesion is there."
                unclear.append((lesion.id, text))
            else:
                new.append(lesion.id)
                if reviewed[0].state == OUTSIDE:
                    text = f"the scan of {first.label} does not show this place; RECIST 1.1 counts the lesion as new."
                    notes.append((lesion.id, text))
        return News(tuple(new), tuple(unclear), tuple(notes))

    def _start_findings(self, lesion: Lesion) -> list[Finding]:
        """Return the findings, at the start, of a lesion and of the lesions of which it was a part."""
        key = self.first.key
        wholes = _wholes(self.record, lesion)
        return [whole.findings[key] for whole in wholes if key in whole.findings]

    def called_new(self, number: int) -> Iterator[tuple[str, str]]:
        """Yield (id, why the size is unknown) for lesions that were new, or perhaps new, in a visit before `number`.

        A lesion that a person has assessed in visit `number` is left out, unless the lesion is outside the scan.
        """
        study = self.record.studies[number]
        ids: dict[str, None] = {}  # each id once, in order
        for visit in range(self.start + 1, number):
            ids |= dict.fromkeys(self.news(visit).ids)
        for lesion_id in ids:
            shown_lesion = self.record.lesion(self.record.stands_for(lesion_id, study.key))
            finding = shown_lesion.findings.get(study.key)
            if finding is None or finding.state in (PROPOSED, OUTSIDE):
                yield shown_lesion.id, why_unknown(shown_lesion, finding, study)

    def _shown(self, lesion: Lesion, number: int) -> Lesion | None:
        """Return the lesion that a person saw in visit `number` and that is, or contains, `lesion`; or None.

        If a person saw `lesion` in the visit, this is `lesion`. If `lesion` is merged into X in the visit, this is X,
        but only if a person saw X in the visit and saw `lesion` in an earlier visit.
        """
        key = self.record.studies[number].key
        finding = lesion.findings.get(key)
        if finding is not None and finding.state == MERGED:
            before = self.record.studies[self.start : number]
            if not any(study.key in lesion.visible for study in before):
                return None
            lesion = self.record.lesion(self.record.stands_for(lesion.id, key))
        return lesion if key in lesion.visible else None


def timeline_of(record: FollowUp) -> Timeline:
    """Find the visits, the start and the baseline of a follow-up.

    Studies of the same date or the same DICOM study form one visit. If a lesion is seen in any scan of a visit, it is
    seen in the visit, with its largest size. A lesion is outside only if it is outside all scans of the visit. A lesion
    is not visible in the visit if a person entered "not visible" for a scan, and if no scan of the visit has an
    unreviewed proposal for this lesion; proposals with the status "absent" do not matter.
    """
    scans = _together(record.studies)
    studies = []
    for visit in scans:
        # a visit has the key of its first scan, and the names of all its scans
        names = dict.fromkeys(scan.name for scan in visit)
        studies.append(replace(visit[0], name=", ".join(names)))
    lesions = []
    for lesion in record.lesions:
        findings = {}
        for visit in scans:  # the finding that tells most stands for the visit
            candidates = [lesion.findings.get(study.key) for study in visit]
            finding = min(candidates, key=partial(_rank, lesion))
            if finding is not None:
                findings[visit[0].key] = finding
        lesions.append(replace(lesion, findings=findings))
    timeline = Timeline(FollowUp(tuple(studies), tuple(lesions)), scans)
    for number, study in enumerate(studies):
        if any(_is_seen(lesion.findings.get(study.key)) for lesion in lesions):
            timeline = replace(timeline, start=number)
            return replace(timeline, baseline=_find_baseline(timeline))
    return timeline


def diameter_mm(lesion: Lesion, finding: Finding | None) -> float | None:
    """Return the diameter of a lesion for the sum, mm: the long axis, or the short axis of a lymph node.

    The diameter of a lesion that was reviewed as not visible is 0. Returns None if the diameter is unknown.
    """
    if finding is None:
        return None
    if finding.state == NOT_VISIBLE:
        return 0.0
    if not finding.visible or not finding.size.confirmed:
        return None
    length = finding.size.short_mm if lesion.nodal else finding.size.long_mm
    return None if length is None or length < LEAST_AXIS_MM else length


def is_normal(lesion: Lesion, size_mm: float | None) -> bool:
    """Return whether a diameter means no disease: below 10 mm for a lymph node, 0 mm for any other lesion."""
    if size_mm is None:
        return False
    return size_mm < NORMAL_NODE_MM if lesion.nodal else size_mm <= 0


def why_unknown(lesion: Lesion, finding: Finding | None, study: Study) -> str:
    """Return a sentence that says why the diameter of a lesion in a study is unknown, and what to do.

    Args:
        lesion: the lesion.
        finding: its finding in the study, or None.
        study: the study.
    """
    axis = SHORT if lesion.nodal else LONG
    if finding is None:
        return f"not assessed in {study.label}; mark the lesion in this study."
    if finding.state == PROPOSED:
        return f"only proposed in {study.label}; confirm or move the place."
    if finding.state == OUTSIDE:
        return f"not in the scan of {study.label}."
    if axis in finding.size.axes and not finding.size.confirmed:
        return f"its axes in {study.label} were copied from another study; accept them, or draw new axes."
    return f"not measured in {study.label}; draw the {axis} axis."


def sentences(why: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return one sentence for each reason, such as "L1, L2: reason". why: pairs (lesion id, reason)."""
    # each id once, in order: the keys of a dictionary
    ids_by_reason: dict[str, dict[str, None]] = {}
    for lesion_id, reason in why:
        ids_by_reason.setdefault(reason, {})[lesion_id] = None
    return tuple(f"{', '.join(ids)}: {reason}" for reason, ids in ids_by_reason.items())


def _find_baseline(timeline: Timeline) -> int | None:
    """Return the number of the first visit that measures all targets; None if a new lesion comes before it."""
    for number in range(timeline.start, len(timeline.record.studies)):
        if timeline.news(number).new:
            return None
        sizes = timeline.sizes(number)
        if not sizes.missing:
            return number if sizes.at_least > 0 else None
    return None


def _together(studies: Sequence[Study]) -> tuple[tuple[Study, ...], ...]:
    """Group studies into visits. A study that belongs to several visits makes them one, in the place of the first."""
    visits: list[tuple[Study, ...]] = []
    for study in studies:
        joined = [visit for visit in visits if any(_is_one_visit(study, scan) for scan in visit)]
        place = visits.index(joined[0]) if joined else len(visits)
        visits = [visit for visit in visits if visit not in joined]
        visits.insert(place, (*chain.from_iterable(joined), study))
    return tuple(visits)


def _is_one_visit(study: Study, second: Study) -> bool:
    """Return whether two scans have the same date or the same DICOM study."""
    of_one_day = study.date is not None and study.date == second.date
    return of_one_day or (study.study_uid != "" and study.study_uid == second.study_uid)


def _rank(lesion: Lesion, finding: Finding | None) -> tuple[int, float]:
    """Return a sort key of what is known about a lesion in a study: smallest for the finding that tells most.

    In this order: measured (the largest first), visible, merged, proposed, not visible, proposed as absent, no finding,
    outside of the scan.
    """
    if finding is None:
        return 6, 0.0
    if finding.visible:
        size = diameter_mm(lesion, finding)
        return (1, 0.0) if size is None else (0, -size)
    if finding.state == PROPOSED:
        is_absent = finding.guess is not None and finding.guess.status == ABSENT
        return (5 if is_absent else 3), 0.0
    return {MERGED: 2, NOT_VISIBLE: 4, OUTSIDE: 7}[finding.state], 0.0


def _wholes(record: FollowUp, lesion: Lesion) -> list[Lesion]:
    """Return `lesion`, the lesion from which `lesion` split, the lesion from which that lesion split, and so on."""
    wholes = []
    while lesion not in wholes:  # otherwise, the lesions have split from each other
        wholes.append(lesion)
        if lesion.split_from:
            lesion = record.lesion(lesion.split_from)
    return wholes


def _is_seen(finding: Finding | None) -> bool:
    """Return whether a person saw the lesion in the study, by itself or merged into another one."""
    return finding is not None and (finding.visible or finding.state == MERGED)
