"""The record of one patient: the studies in order of time, the lesions, and a method for each action of a person.

A record is immutable: each method returns a new record. To undo an action, use the previous record. A method that
raises an error changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import AnatomicalEmbeddingError
from .lesions import (
    CONFIRMED,
    LEAST_AXIS_MM,
    MARKED,
    MERGED,
    MOVED,
    NOT_VISIBLE,
    OUTSIDE,
    PROPOSED,
    WITH_PLACE,
    Axis,
    Finding,
    Lesion,
    Measurement,
    Point,
    Study,
)


@dataclass(frozen=True)
class FollowUp:
    """The record of one patient. studies: in order of time. lesions: in the order in which a person marked them."""

    studies: tuple[Study, ...] = ()
    lesions: tuple[Lesion, ...] = ()

    # -- reading -----------------------------------------------------------------------------------------------------

    def lesion(self, lesion_id: str) -> Lesion:
        """Return the lesion with this id. Raises AnatomicalEmbeddingError if the record has no such lesion."""
        for lesion in self.lesions:
            if lesion.id == lesion_id:
                return lesion
        raise AnatomicalEmbeddingError(
            f"lesion {lesion_id!r}: is not in this record; choose another lesion."
        )

    def study(self, key: str) -> Study:
        """Return the study with this key. Raises AnatomicalEmbeddingError if the record has no such study."""
        for study in self.studies:
            if study.key == key:
                return study
        raise AnatomicalEmbeddingError(
            f"study {key!r}: is not in this record; load this study first."
        )

    def finding(self, lesion_id: str, study: str) -> Finding | None:
        """Return the finding of a lesion in a study; None if the lesion has no finding in this study."""
        self.study(study)
        return self.lesion(lesion_id).findings.get(study)

    def stands_for(self, lesion_id: str, study: str) -> str:
        """Return `lesion_id`, or the id of the lesion into which this lesion has merged in the study."""
        visited = set()
        while lesion_id not in visited:  # otherwise, the lesions have merged into each other
            visited.add(lesion_id)
            finding = self.finding(lesion_id, study)
            if finding is not None and finding.state == MERGED:
                lesion_id = finding.into
        return lesion_id

    def unreviewed(self) -> list[tuple[Lesion, Study]]:
        """Return pairs (lesion, study) for all proposals that no person has reviewed, study by study."""
        return [
            (lesion, study)
            for study in self.studies
            for lesion in self.lesions
            if study.key in lesion.findings and study.key not in lesion.reviewed
        ]

    # -- studies and lesions -----------------------------------------------------------------------------------------

    def with_studies(self, studies: Iterable[Study]) -> FollowUp:
        """Return a copy with these studies. A finding is kept even if its study is missing in `studies`."""
        studies = tuple(studies)
        if len({study.key for study in studies}) < len(studies):
            raise AnatomicalEmbeddingError(
                "two studies have the same key; give each study a different key."
            )
        return replace(self, studies=studies)

    def mark(self, study: str, point_ras: Point, lesion_id: str | None = None) -> FollowUp:
        """Mark a lesion at a place in a study.

        Args:
            study: key of the study.
            point_ras: (3,) RAS mm.
            lesion_id: a lesion of the record; None for a new lesion.
        """
        record = self
        if lesion_id is None:
            lesion_id = self.free_id()
            record = replace(self, lesions=(*self.lesions, Lesion(lesion_id)))
        finding = record.finding(lesion_id, study) or Finding(MARKED)
        return record._set(lesion_id, study, _placed(finding, MARKED, _point(point_ras)))

    def free_id(self) -> str:
        """Return the id that the next new lesion will get."""
        used_ids = {lesion.id for lesion in self.lesions}
        number = 1
        while f"L{number}" in used_ids:
            number += 1
        return f"L{number}"

    def remove(self, lesion_id: str) -> FollowUp:
        """Remove a lesion. Other lesions then no longer state that they merged into this lesion or split from it."""
        self.lesion(lesion_id)
        return self._without(lesion_id, "")

    def unite(self, lesion_id: str, other_id: str) -> FollowUp:
        """Join two lesions: `lesion_id` keeps its id, Tracking UID and name, and gets the findings of `other_id`.

        The lesion `other_id` is removed. If both lesions have a finding in a study, the reviewed finding is kept.
        Raises AnatomicalEmbeddingError if a person reviewed both lesions in the same study.
        """
        united = self.lesion(lesion_id)
        second = self.lesion(other_id)
        if united is second:
            raise AnatomicalEmbeddingError(
                f"{lesion_id}: cannot be joined with itself; choose another lesion."
            )
        united_ids = (lesion_id, other_id)
        findings: dict[str, Finding] = {}
        for key, finding in (*united.findings.items(), *second.findings.items()):
            if finding.into in united_ids:
                continue
            if key not in findings or not findings[key].reviewed:
                findings[key] = finding
            elif finding.reviewed:
                labels = {study.key: study.label for study in self.studies}
                raise AnatomicalEmbeddingError(
                    f"{lesion_id}, {other_id}: both were reviewed in {labels.get(key, key)}, so they are two lesions; "
                    "to join the lesions, remove the finding of one lesion in that study."
                )
        split_from = united.split_from or second.split_from
        if split_from in united_ids:
            split_from = ""
        name = united.name or second.name
        site = united.site or second.site
        united = replace(united, findings=findings, name=name, site=site, split_from=split_from)
        return self._with(united)._without(other_id, lesion_id)

    def describe(self, lesion_id: str, **changes: Any) -> FollowUp:
        """Change the fields name, site, target, nodal or split_from of a lesion.

        If `split_from` changes to the id of a lesion X, the changed lesion becomes nodal if X is nodal, and non-target
        if X is non-target. `nodal` and `target` in `changes` have priority.
        """
        if changes.get("split_from"):
            part = self.lesion(lesion_id)
            whole = self.lesion(str(changes["split_from"]))
            if whole is part:
                raise AnatomicalEmbeddingError(
                    f"{lesion_id}: cannot be a part of itself; choose another lesion."
                )
            if whole.id != part.split_from:
                changes = {
                    "target": part.target and whole.target,
                    "nodal": part.nodal or whole.nodal,
                    **changes,
                }
        return self._with(replace(self.lesion(lesion_id), **changes))

    # -- proposals ---------------------------------------------------------------------------------------------------

    def propose(self, study: str, proposals: Mapping[str, Finding]) -> FollowUp:
        """Enter proposals in a study. A reviewed finding is not replaced. proposals: lesion id -> finding; the size of
        the finding is entered as not confirmed.
        """
        record = self
        for lesion_id, proposal in proposals.items():
            present = self.finding(lesion_id, study)
            if present is None or not present.reviewed:
                place = _point(proposal.point_ras)
                size = replace(proposal.size, confirmed=False)
                finding = replace(proposal, point_ras=place, size=size)
                record = record._set(lesion_id, study, finding)
        return record

    def offer_size(self, lesion_id: str, study: str, size: Measurement) -> FollowUp:
        """Enter axes that were copied from another study as not confirmed. The place does not change.

        Args:
            lesion_id: the lesion.
            study: key of the study.
            size: the axes.
        """
        finding = self._known(lesion_id, study)
        return self._set(lesion_id, study, replace(finding, size=replace(size, confirmed=False)))

    def keep_query(self, lesion_id: str, study: str, query: str) -> FollowUp:
        """Store the query of a lesion's place in a study.

        Args:
            lesion_id: the lesion.
            study: key of the study.
            query: see `Finding.query`.
        """
        return self._set(lesion_id, study, replace(self._known(lesion_id, study), query=query))

    def forget(self, lesion_id: str, study: str) -> FollowUp:
        """Remove the finding of a lesion in a study, so that the lesion can be proposed there again."""
        self.study(study)
        lesion = self.lesion(lesion_id)
        findings = {key: finding for key, finding in lesion.findings.items() if key != study}
        return self._with(replace(lesion, findings=findings))

    # -- actions of a person -----------------------------------------------------------------------------------------

    def confirm(self, lesion_id: str, study: str) -> FollowUp:
        """Confirm a proposed place. Axes copied from another study stay unconfirmed; `accept_size` confirms them."""
        finding = self._known(lesion_id, study)
        if finding.state != PROPOSED:
            return self
        return self._set(lesion_id, study, replace(finding, state=CONFIRMED))

    def move(self, lesion_id: str, study: str, point_ras: Point) -> FollowUp:
        """Move a lesion to another place in a study. Unconfirmed axes move with the lesion.

        Args:
            lesion_id: the lesion.
            study: key of the study.
            point_ras: (3,) RAS mm.
        """
        finding = self._known(lesion_id, study)
        state = MARKED if finding.state == MARKED or finding.guess is None else MOVED
        return self._set(lesion_id, study, _placed(finding, state, _point(point_ras)))

    def not_visible(self, lesion_id: str, study: str) -> FollowUp:
        """Record that the scan shows the place, but not the lesion. The lesion then counts as 0 mm (RECIST 1.1)."""
        return self._gone(lesion_id, study, NOT_VISIBLE)

    def outside(self, lesion_id: str, study: str) -> FollowUp:
        """Record that the scan does not show the place of the lesion."""
        return self._gone(lesion_id, study, OUTSIDE)

    def merge(self, lesion_id: str, study: str, target_id: str) -> FollowUp:
        """Record that a lesion has merged into another lesion. In this study, only the other lesion is measured.

        Args:
            lesion_id: the lesion.
            study: key of the study.
            target_id: the lesion into which it has merged.
        """
        self.lesion(target_id)
        if target_id == lesion_id:
            raise AnatomicalEmbeddingError(
                f"{lesion_id}: cannot merge into itself; choose another lesion."
            )
        target = self.finding(target_id, study)
        if target is not None and target.state == MERGED:
            raise AnatomicalEmbeddingError(
                f"{target_id}: has merged into {target.into} in this study; choose {target.into}."
            )
        if target is not None:
            _require_place(target_id, target)
        return self._gone(lesion_id, study, MERGED, target_id)

    def measure(
        self, lesion_id: str, study: str, long_axis: Axis | None, short_axis: Axis | None
    ) -> FollowUp:
        """Set the axes that a person drew or corrected, and confirm the place.

        Args:
            lesion_id: the lesion.
            study: key of the study.
            long_axis, short_axis: two ends each, RAS mm; None without the axis.

        Raises:
            AnatomicalEmbeddingError: an axis is shorter than 0.1 mm, or the lesion has no place in the study.
        """
        finding = self._known(lesion_id, study)
        _require_place(lesion_id, finding)
        size = Measurement(_axis(long_axis), _axis(short_axis), confirmed=True)
        for kind, axis in size.axes.items():
            if math.dist(*axis) < LEAST_AXIS_MM:
                raise AnatomicalEmbeddingError(
                    f"{lesion_id}: its {kind} axis is shorter than {LEAST_AXIS_MM} mm; draw the axis from edge to edge,"
                    " or mark the lesion as not visible."
                )
        return self._set(lesion_id, study, replace(finding, size=size)).confirm(lesion_id, study)

    def accept_size(self, lesion_id: str, study: str) -> FollowUp:
        """Confirm the axes of a finding without changing them."""
        size = self._known(lesion_id, study).size
        return self.measure(lesion_id, study, size.long_axis, size.short_axis)

    # ----------------------------------------------------------------------------------------------------------------

    def _known(self, lesion_id: str, study: str) -> Finding:
        """Return the finding of a lesion in a study. Raises AnatomicalEmbeddingError if there is none."""
        finding = self.finding(lesion_id, study)
        if finding is None:
            label = self.study(study).label
            raise AnatomicalEmbeddingError(
                f"{lesion_id}: has no place in {label}; mark the lesion in this study."
            )
        return finding

    def _gone(self, lesion_id: str, study: str, state: str, target_id: str = "") -> FollowUp:
        """Set a state without a place; what was proposed is kept. target_id: the lesion it has merged into, or ""."""
        finding = self.finding(lesion_id, study) or Finding(state)
        return self._set(lesion_id, study, Finding(state, guess=finding.guess, into=target_id))

    def _set(self, lesion_id: str, study: str, finding: Finding) -> FollowUp:
        """Return the record with this finding of a lesion in a study. An earlier finding is replaced."""
        self.study(study)
        lesion = self.lesion(lesion_id)
        return self._with(replace(lesion, findings={**lesion.findings, study: finding}))

    def _without(self, lesion_id: str, instead: str) -> FollowUp:
        """Return the record without the lesion. In the entries `split_from` and `into` of other lesions, `instead`
        replaces the id of the removed lesion. If `instead` is "", findings with the removed lesion as `into` are
        removed, too."""
        lesions = []
        for lesion in self.lesions:
            if lesion.id == lesion_id:
                continue
            findings = {}
            for key, finding in lesion.findings.items():
                if finding.into != lesion_id:
                    findings[key] = finding
                elif instead:
                    findings[key] = replace(finding, into=instead)
            split_from = instead if lesion.split_from == lesion_id else lesion.split_from
            lesions.append(replace(lesion, findings=findings, split_from=split_from))
        return replace(self, lesions=tuple(lesions))

    def _with(self, lesion: Lesion) -> FollowUp:
        """Return the record with this lesion in the place of the lesion with its ID."""
        lesions = (lesion if present.id == lesion.id else present for present in self.lesions)
        return replace(self, lesions=tuple(lesions))


def _require_place(lesion_id: str, finding: Finding) -> None:
    """Raise AnatomicalEmbeddingError if a finding has no place."""
    if finding.state not in WITH_PLACE:
        raise AnatomicalEmbeddingError(
            f"{lesion_id}: has no place in this study, as its state is {finding.state}; mark a place first."
        )


def _placed(finding: Finding, state: str, place: Point) -> Finding:
    """Return the finding with the given state, moved to `place`. Axes that no person confirmed are moved, too."""
    size = finding.size
    if finding.point_ras is not None and not size.confirmed:
        size = size.moved(finding.point_ras, place)
    return Finding(state, place, finding.guess, size)


def _axis(axis: Axis | None) -> Axis | None:
    """Check both ends of an axis; see `_point`."""
    return None if axis is None else (_point(axis[0]), _point(axis[1]))


def _point(point: Iterable[float]) -> Point:
    """Return three coordinates as floats. Raises AnatomicalEmbeddingError if one is not finite."""
    x, y, z = (float(value) for value in point)
    if not all(map(math.isfinite, (x, y, z))):
        raise AnatomicalEmbeddingError(
            f"point ({x}, {y}, {z}): is not finite; give three finite coordinates in mm."
        )
    return x, y, z
