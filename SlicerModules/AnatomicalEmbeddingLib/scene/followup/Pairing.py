"""Pairing of lesions that were marked in two studies separately, as panel and page show it: the offer, and its end."""

from __future__ import annotations

from slicer.i18n import tr as _

from ..Signal import Signal
from .FollowUpLogic import FollowUpLogic
from .LesionPairing import PairingOffer, agree, offerPairing, whyNotPair


class Pairing:
    """offer: what is offered now, or None; one that does not hold any more is taken back. changed(): it may be another,
    or the reason why nothing can be offered.
    """

    def __init__(self, logic: FollowUpLogic) -> None:
        self.logic = logic
        self.changed = Signal()
        self.offer: PairingOffer | None = None
        self._studies = ("", "")
        logic.changed.connect(self.update)
        logic.store.changed.connect(self._onMap)

    def close(self) -> None:
        """Stop listening."""
        self.logic.changed.disconnect(self.update)
        self.logic.store.changed.disconnect(self._onMap)

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

    def _onMap(self, _volumeId: str) -> None:
        self.update()

    def _set(self, offer: PairingOffer | None) -> None:
        self.offer = offer
        self.changed.emit()
