"""Pairing of lesions that were marked in prior and current separately: what it would do, before it is done."""

from __future__ import annotations

from collections.abc import Callable

import slicer
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from .FollowUpLogic import FollowUpLogic
from .LesionPairing import PairingOffer, agree, offerPairing, whyNotPair


class PairingPanel:
    """ui: holds pairButton, and pairArea with pairLabel, agreeButton and cancelPairButton. say(sentence): why not.

    The offer stays beside the views, so that the lesions can be looked at before anybody agrees.
    """

    def __init__(self, ui, logic: FollowUpLogic, say: Callable[[str], None]) -> None:
        self.ui, self.logic, self._say = ui, logic, say
        self._studies = ("", "")
        self._offer: PairingOffer | None = None
        ui.pairButton.connect("clicked(bool)", self._onPair)
        ui.agreeButton.connect("clicked(bool)", self._onAgree)
        ui.cancelPairButton.connect("clicked(bool)", lambda: self._show(None))
        logic.changed.connect(self.update)
        logic.store.changed.connect(self._onMap)
        self._show(None)

    def close(self) -> None:
        """Stop listening; the widgets stay."""
        self.logic.changed.disconnect(self.update)
        self.logic.store.changed.disconnect(self._onMap)

    def setStudies(self, prior: str, current: str) -> None:
        """Keys of the studies that are compared, "" for none."""
        if (prior, current) != self._studies:
            self._studies = (prior, current)
            self._show(None)

    def update(self) -> None:
        """Whether lesions can be paired; an offer that does not hold any more is taken back."""
        if self._offer is not None and not self._offer.stillHolds(self.logic):
            self._show(None)
        reason = whyNotPair(self.logic, *self._studies)
        self.ui.pairButton.enabled = not reason
        self.ui.pairButton.toolTip = reason or _(
            "Find lesions that were marked in prior and current separately and are the same; nothing is changed before "
            "you agree."
        )

    def _onMap(self, _volumeId: str) -> None:
        self.update()

    def _onPair(self) -> None:
        try:
            with slicer.util.WaitCursor():
                offer = offerPairing(self.logic, *self._studies)
        except AnatomicalEmbeddingError as error:
            self._say(str(error))
            return
        self._say("")
        self._show(offer)

    def _onAgree(self) -> None:
        offer = self._offer
        self._show(None)
        if offer is not None:
            agree(self.logic, offer)

    def _show(self, offer: PairingOffer | None) -> None:
        ui, self._offer = self.ui, offer
        ui.pairArea.visible = offer is not None
        if offer is not None:
            lines = offer.changes or (_("No two of these lesions are the same."),)
            ui.pairLabel.text = "\n".join((*lines, *offer.notes))
            ui.agreeButton.visible = bool(offer.changes)
            ui.cancelPairButton.text = _("Cancel") if offer.changes else _("Close")
        self.update()
