"""Lesions that were marked in two studies separately: which are the same, stated before anything is changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.lesions import OUTSIDE
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.status import DISAPPEARED, NEW

from ..shared.maps.MapStore import READY, WAITING, WORKING
from ..shared.Signal import Listener, Signal
from .FollowUpLogic import FollowUpLogic

if TYPE_CHECKING:
    from AnatomicalEmbedding.followup.assignment import RecordAssignment


@dataclass(frozen=True)
class PairingOffer:
    """changes: what agreeing does, a sentence each. notes: what it leaves as it is."""

    changes: tuple[str, ...]
    notes: tuple[str, ...]
    assignment: RecordAssignment
    basis: tuple  # what people had reviewed, and in which order the studies were, when it was made

    @property
    def sentences(self) -> tuple[str, ...]:
        """The changes, or a sentence that there are none."""
        return self.changes or (_("No two of these lesions are the same."),)

    def stillHolds(self, logic: FollowUpLogic) -> bool:
        """Has nobody changed anything since? Places proposed meanwhile do not count."""
        return self.basis == _basisOf(logic.record)


def whyNotPair(logic: FollowUpLogic, one: str, other: str) -> str:
    """Why lesions of two studies cannot be paired; "" where they can."""
    if one not in logic.volumes or other not in logic.volumes:
        return _("Choose two studies as prior and current first.")
    for study, second in ((one, other), (other, one)):
        if not _seenAlone(logic.record, study, second):
            return _("Pairing is for lesions marked in both studies separately; {study} has none of its own.").format(
                study=logic.record.study(study).label
            )
    for study in (one, other):
        status = logic.store.state(logic.volumes[study]).status
        if status in (WAITING, WORKING):
            return _("{study}: is being prepared.").format(study=logic.record.study(study).label)
        if status != READY:
            return _("{study}: is not prepared; press Prepare scans.").format(study=logic.record.study(study).label)
    return ""


def offerPairing(logic: FollowUpLogic, one: str, other: str) -> PairingOffer:
    """Which lesions of two studies are the same. Changes nothing. Raises AnatomicalEmbeddingError as `whyNotPair`."""
    from AnatomicalEmbedding.followup.assignment import assign_in_record

    if reason := whyNotPair(logic, one, other):
        raise AnatomicalEmbeddingError(reason)
    record = logic.record
    earlier, later = (study.key for study in record.studies if study.key in (one, other))
    maps = {study: logic.store.map(logic.volumes[study]) for study in (earlier, later)}
    found, apart = assign_in_record(record, earlier, later, maps).without_conflicts(record)
    changes = tuple(_changes(record, found))
    notes = (*_conflicts(apart), *_notes(record, found), *found.unread.values())
    return PairingOffer(changes, notes, found, _basisOf(record))


def agree(logic: FollowUpLogic, offer: PairingOffer) -> bool:
    """Do what was offered, as one step. Says why where it does not hold any more."""
    if not offer.stillHolds(logic):
        logic.reported.emit(_("The lesions have changed since they were compared; press Pair lesions again."))
        return False
    return logic.apply(offer.assignment.put_into)


def _seenAlone(record: FollowUp, study: str, other: str) -> bool:
    """Is there a lesion that a person saw in a study, and nobody has reviewed in the other?"""
    return any(
        (here := lesion.findings.get(study)) is not None
        and here.visible
        and ((there := lesion.findings.get(other)) is None or not there.reviewed)
        for lesion in record.lesions
    )


def _basisOf(record: FollowUp) -> tuple:
    reviewed = {
        lesion.id: {key: found for key, found in lesion.findings.items() if found.reviewed} for lesion in record.lesions
    }
    return tuple(study.key for study in record.studies), reviewed


def _conflicts(apart: Iterable[tuple[str, str]]) -> Iterator[str]:
    sentence = _("{one} and {other} look like one lesion, but both were reviewed in another study, so they stay apart.")
    for one, other in apart:
        yield sentence.format(one=one, other=other)


def _changes(record: FollowUp, found: RecordAssignment) -> Iterator[str]:
    earlier, later = (record.study(key).label for key in (found.earlier_study, found.later_study))
    kinds = (
        (found.same, _("{one} in {earlier} and {other} in {later} are one lesion, {one}: {how}.")),
        (found.split, _("{one} in {later} has split off from {other}: {how}.")),
        (found.merged, _("{one} has merged into {other} in {later}: {how}.")),
    )
    for pairs, sentence in kinds:
        for one, other in pairs:
            how = _certainty(found, (one, other))
            yield sentence.format(one=one, other=other, earlier=earlier, later=later, how=how)


def _certainty(found: RecordAssignment, pair: tuple[str, str]) -> str:
    near = found.nearness[pair]
    text = _("likely, {off:.0f} mm apart after matching, up to {expected:.0f} mm are to be expected")
    if not near.is_likely:
        text = _("uncertain, {off:.0f} mm apart after matching where {expected:.0f} mm are to be expected")
    return text.format(off=near.off_mm, expected=near.expected_mm)


def _notes(record: FollowUp, found: RecordAssignment) -> Iterator[str]:
    """On lesions that stay without partner."""
    earlier, later = (record.study(key).label for key in (found.earlier_study, found.later_study))
    gone = _("{lesion} in {here} has no partner in {there}: look there, and press Not visible if it has gone.")
    new = _("{lesion} in {here} is new: nothing marked in {there} lies at its place.")
    outside = _("{lesion} in {here} has no partner: {there} does not seem to show its place.")
    for words, here, there in ((found.earlier, earlier, later), (found.later, later, earlier)):
        for lesion, word in words.items():
            sentence = {DISAPPEARED: gone, NEW: new, OUTSIDE: outside}.get(word)
            if sentence is not None:
                yield sentence.format(lesion=lesion, here=here, there=there)


class Pairing(Listener):
    """offer: what is offered now, or None; one that does not hold any more is taken back. changed(): it may be another,
    or the reason why nothing can be offered.
    """

    def __init__(self, logic: FollowUpLogic) -> None:
        self.logic = logic
        self.changed = Signal()
        self.offer: PairingOffer | None = None
        self._studies = ("", "")
        self.listen(logic.changed, self.update)
        self.listen(logic.store.changed, lambda _volumeId: self.update())

    def setStudies(self, prior: str, current: str) -> None:
        """Keys of the studies that are compared, "" for none."""
        if (prior, current) != self._studies:
            self._studies = (prior, current)
            self._set(None)

    @property
    def reason(self) -> str:
        """Why nothing can be offered; "" where it can."""
        return whyNotPair(self.logic, *self._studies)

    @property
    def tip(self) -> str:
        """For the button."""
        return self.reason or _(
            "Find lesions that were marked in prior and current separately and are the same; nothing is changed before "
            "you agree."
        )

    def begin(self) -> None:
        """Offer what can be paired. Raises AnatomicalEmbeddingError, a sentence, where nothing can be offered."""
        self._set(offerPairing(self.logic, *self._studies))

    def agree(self) -> None:
        """Do what is offered, as one step."""
        offer = self.offer
        self._set(None)
        if offer is not None:
            agree(self.logic, offer)

    def cancel(self) -> None:
        """Take the offer back; nothing has changed."""
        self._set(None)

    def update(self) -> None:
        """Something has changed that the offer, or the reason, may depend on."""
        holds = self.offer is not None and self.offer.stillHolds(self.logic)
        self._set(self.offer if holds else None)

    def _set(self, offer: PairingOffer | None) -> None:
        self.offer = offer
        self.changed.emit()
