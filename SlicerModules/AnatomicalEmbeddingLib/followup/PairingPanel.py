"""The part of the panel that shows which lesions of two studies may be the same, for the user to confirm."""

from collections.abc import Callable

import slicer
from slicer.i18n import tr as _

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from .FollowUpLogic import FollowUpLogic
from .Pairing import Pairing


class PairingPanel(Pairing):
    """Shows `offer` (see `Pairing`) in the panel, not in a dialog, so that the user can first look at the lesions.

    ui: the widgets pairButton, pairArea, pairLabel, agreeButton and cancelPairButton. say: called with a sentence
    that states why no pairs can be offered.
    """

    def __init__(self, ui, logic: FollowUpLogic, say: Callable[[str], None]) -> None:
        super().__init__(logic)
        self.ui = ui
        self._say = say
        self._tip = ui.pairButton.toolTip
        ui.pairButton.connect("clicked(bool)", self._onPair)
        ui.agreeButton.connect("clicked(bool)", lambda: self.agree())
        ui.cancelPairButton.connect("clicked(bool)", lambda: self.cancel())
        self.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        """Show or hide the pairs that the user can accept."""
        ui = self.ui
        offer = self.offer
        ui.pairArea.visible = offer is not None
        if offer is not None:
            changes = self.changes or [_("The two studies have no lesion in common.")]
            ui.pairLabel.text = "\n".join((*changes, *self.notes))
            ui.agreeButton.visible = bool(self.changes)
            ui.cancelPairButton.text = _("Cancel") if self.changes else _("Close")
        ui.pairButton.enabled = not self.reason
        ui.pairButton.toolTip = self.reason or self._tip

    def _onPair(self) -> None:
        self._say("")
        try:
            with slicer.util.WaitCursor():
                self.begin()
        except AnatomicalEmbeddingError as error:
            self._say(str(error))
