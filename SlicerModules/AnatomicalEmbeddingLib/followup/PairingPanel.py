"""Pairing of lesions that were marked in prior and current separately: what it would do, before it is done."""

from __future__ import annotations

from collections.abc import Callable

import slicer
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from .FollowUpLogic import FollowUpLogic
from .Pairing import Pairing


class PairingPanel:
    """ui: holds pairButton, and pairArea with pairLabel, agreeButton and cancelPairButton. say(sentence): why not.

    The offer stays next to the views, so that the lesions can be looked at before anybody agrees.
    """

    def __init__(self, ui, logic: FollowUpLogic, say: Callable[[str], None]) -> None:
        self.ui, self.pairing, self._say = ui, Pairing(logic), say
        ui.pairButton.connect("clicked(bool)", self._onPair)
        ui.agreeButton.connect("clicked(bool)", lambda: self.pairing.agree())
        ui.cancelPairButton.connect("clicked(bool)", lambda: self.pairing.cancel())
        self.pairing.changed.connect(self._show)
        self._show()

    def close(self) -> None:
        """Stop listening; the widgets stay."""
        self.pairing.close()

    def setStudies(self, prior: str, current: str) -> None:
        """Keys of the studies that are compared, "" for none."""
        self.pairing.setStudies(prior, current)

    def update(self) -> None:
        """Studies or scans may be others."""
        self.pairing.update()

    def _show(self) -> None:
        ui, offer = self.ui, self.pairing.offer
        ui.pairArea.visible = offer is not None
        if offer is not None:
            ui.pairLabel.text = "\n".join((*offer.sentences, *offer.notes))
            ui.agreeButton.visible = bool(offer.changes)
            ui.cancelPairButton.text = _("Cancel") if offer.changes else _("Close")
        ui.pairButton.enabled = not self.pairing.reason
        ui.pairButton.toolTip = self.pairing.tip

    def _onPair(self) -> None:
        try:
            with slicer.util.WaitCursor():
                self.pairing.begin()
        except AnatomicalEmbeddingError as error:
            self._say(str(error))
            return
        self._say("")
