"""Finds lesions that were marked separately in two studies but are the same lesion. The user must accept the pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from slicer.i18n import tr as _

from AnatomicalEmbedding.followup.lesions import OUTSIDE
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.status import DISAPPEARED, NEW

from ..shared.maps.MapStore import READY, WAITING, WORKING
from ..shared.Signal import Listener, Signal
from .FollowUpLogic import FollowUpLogic

if TYPE_CHECKING:
    from AnatomicalEmbedding.followup.assignment import Assignment


class Pairing(Listener):
    """Finds which lesions of two studies are the same lesion. Signal changed(): `offer` or `reason` may have changed.

    offer: the pairs that the user can accept; None if nothing is offered. If a person changes a
    finding, `offer` becomes None. reason: why nothing can be offered, or "". changes: a sentence for each pair in
    `offer`. notes: sentences about the lesions that `offer` does not change.
    """

    def __init__(self, logic: FollowUpLogic) -> None:
        self.logic = logic
        self.changed = Signal()
        self.offer: Assignment | None = None
        self.changes = []
        self.notes = []
        self._studies = ("", "")
        self.listen(logic.changed, self.update)
        self.listen(logic.store.changed, lambda _volumeId: self.update())

    def setStudies(self, prior: str, current: str) -> None:
        """Set the keys of the two studies to compare; "" for no study. If a key has changed, `offer` becomes None."""
        if (prior, current) != self._studies:
            self._studies = (prior, current)
            self.cancel()

    @property
    def reason(self) -> str:
        """A sentence that states why no pairs can be offered now; "" if pairs can be offered."""
        logic = self.logic
        earlier, later = self._studies
        if earlier not in logic.volumes or later not in logic.volumes:
            return _("Choose two studies as prior and current first.")
        for study, second in ((earlier, later), (later, earlier)):
            if not _hasOwn(logic.record, study, second):
                text = _(
                    "{study}: has no lesion of its own; mark a lesion here that is not marked in the other study."
                )
                return text.format(study=logic.record.study(study).label)
        for study in (earlier, later):
            status = logic.store.state(logic.volumes[study]).status
            if status != READY:
                text = _("{study}: is not prepared; press Prepare scans.")
                if status in (WAITING, WORKING):
                    text = _("{study}: is being prepared; please wait.")
                return text.format(study=logic.record.study(study).label)
        return ""

    def begin(self) -> None:
        """Find pairs of lesions and set `offer`. The record does not change. Call `begin` only if `reason` is empty."""
        from AnatomicalEmbedding.followup.assignment import assign_in_record

        record = self.logic.record
        earlier, later = (study.key for study in record.studies if study.key in self._studies)
        maps = {
            study: self.logic.store.map(self.logic.volumes[study]) for study in (earlier, later)
        }
        assignment = assign_in_record(record, earlier, later, maps)
        text = _(
            "{one} and {other} look like one lesion, but a study shows both, so they remain two lesions."
        )
        conflicts = (text.format(one=lesion, other=match) for lesion, match in assignment.apart)
        labels = [record.study(study).label for study in (earlier, later)]
        self.changes = list(_changes(assignment, *labels))
        self.notes = [*conflicts, *_notes(assignment, *labels), *assignment.unread.values()]
        self._basis = _basisOf(record)
        self._set(assignment)

    def agree(self) -> bool:
        """Apply `offer` to the record. One undo reverses all changes. Returns True if the record was changed."""
        offer = self.offer
        self.cancel()
        return offer is not None and self.logic.apply(offer.put_into)

    def cancel(self) -> None:
        """Set `offer` to None, without a change of the record."""
        self._set(None)

    def update(self) -> None:
        """Set `offer` to None if a reviewed finding or the order of the studies has changed since `begin`."""
        holds = self.offer is not None and self._basis == _basisOf(self.logic.record)
        self._set(self.offer if holds else None)

    def _set(self, offer: Assignment | None) -> None:
        self.offer = offer
        self.changed.emit()


def _hasOwn(record: FollowUp, study: str, otherStudy: str) -> bool:
    """Return whether a person saw a lesion in the study `study` that no person has reviewed in `otherStudy`."""
    reviewed = [lesion.reviewed for lesion in record.lesions]  # study key -> finding
    return any(
        study in findings and findings[study].visible and otherStudy not in findings
        for findings in reviewed
    )


def _basisOf(record: FollowUp) -> tuple:
    """Return the values on which pairing depends: the order of the studies, and all reviewed findings."""
    reviewed = {lesion.id: lesion.reviewed for lesion in record.lesions}
    return tuple(study.key for study in record.studies), reviewed


def _changes(assignment: Assignment, earlier: str, later: str) -> Iterator[str]:
    """Yield a sentence for each pair of lesions that is one lesion. earlier, later: labels of the studies."""
    sentence = _("{one} in {earlier} and {other} in {later} are the same lesion, {one}: {how}.")
    reason = _(
        "{chance}, because matching puts them {off:.0f} mm apart; at most {expected:.0f} mm are expected"
    )
    for lesion, match in assignment.same:
        off, expected = assignment.distances[lesion, match]
        chance = _("likely") if off <= expected else _("uncertain")
        how = reason.format(chance=chance, off=off, expected=expected)
        yield sentence.format(one=lesion, other=match, earlier=earlier, later=later, how=how)


def _notes(assignment: Assignment, earlier: str, later: str) -> Iterator[str]:
    """Yield a sentence for each lesion of one study that has no matching lesion in the other study.

    earlier, later: labels of the studies.
    """
    sentences = {
        DISAPPEARED: _(
            "{lesion} in {here} has no matching lesion in {there}. "
            "If {lesion} is not visible in {there}, press Not visible."
        ),
        NEW: _("{lesion} in {here} is new: no lesion is marked at its place in {there}."),
        OUTSIDE: _(
            "{lesion} in {here} has no matching lesion: {there} probably does not show its place."
        ),
    }
    for lesion, word in assignment.earlier.items():
        yield sentences[word].format(lesion=lesion, here=earlier, there=later)
    for lesion, word in assignment.later.items():
        yield sentences[word].format(lesion=lesion, here=later, there=earlier)
