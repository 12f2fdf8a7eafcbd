"""Proposals of places, as soon as maps and findings allow them."""

from __future__ import annotations

from collections.abc import Mapping

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.record import FollowUp

from ..shared.maps.MapStore import MapStore
from ..shared.Signal import Signal


class Proposer:
    """Proposes places of all lesions in all studies whose maps are ready, each once.

    reported(sentence): why a place could not be proposed.
    """

    def __init__(self, store: MapStore) -> None:
        self.store = store
        self.reported = Signal()
        self._asked: dict[str, dict[str, tuple]] = {}

    def propose(self, record: FollowUp, volumes: Mapping[str, object]) -> FollowUp:
        """The record with new proposals, and without the ones whose source has gone. volumes: by study key."""
        record = _withoutGroundless(record)
        maps = {study: found for study, node in volumes.items() if (found := self.store.map(node)) is not None}
        questions = {study: _question(record, study, maps) for study in maps}
        changed = [study for study, question in questions.items() if question != self._asked.get(study, {})]
        if changed:
            record = self._ask(record, changed, questions, maps)
        self._asked = {study: _question(record, study, maps) for study in maps}
        return record

    def forget(self) -> None:
        """Start anew, for another record."""
        self._asked = {}

    def _ask(self, record: FollowUp, studies: list[str], questions: Mapping[str, dict], maps: Mapping) -> FollowUp:
        from AnatomicalEmbedding.followup.proposing import find_places

        try:
            found = find_places(record, studies, maps)
        except AnatomicalEmbeddingError as error:
            self.reported.emit(str(error))
            return record
        for study, reasons in found.reasons.items():
            for lesion in reasons.keys() & questions[study].keys():
                self.reported.emit(reasons[lesion])
                record = record.forget(lesion, study)
        return found.put_into(record)


def _question(record: FollowUp, study: str, maps: Mapping[str, object]) -> dict[str, tuple]:
    """Unreviewed lesion -> all that its proposal in a study depends on."""
    question, order = {}, tuple((each.key, each.date) for each in record.studies)
    for lesion in record.lesions:
        found = lesion.findings.get(study)
        seen = {key: each for key, each in lesion.findings.items() if each.visible and key in maps}
        if seen and (found is None or not found.reviewed):
            sources = ((key, id(maps[key]), each.point_ras, str(each.size)) for key, each in sorted(seen.items()))
            question[lesion.id] = (id(maps[study]), order, found is None, *sources)
    return question


def _withoutGroundless(record: FollowUp) -> FollowUp:
    """The record without proposals whose source has gone."""
    for lesion, study in record.unreviewed():
        guess = lesion.findings[study.key].guess
        source = None if guess is None else lesion.findings.get(guess.source)
        if guess is not None and (source is None or not source.visible):
            record = record.forget(lesion.id, study.key)
    return record
