"""The buttons and the keyboard keys for the actions on a lesion."""

from collections.abc import Callable

import qt

from AnatomicalEmbedding.followup.record import FollowUp

from ..shared.Signal import Listener
from .LesionActions import KEYS, MERGE, LesionActions


class LesionActionsPanel(Listener):
    """Connects the buttons and the keys with the actions. ui: has the buttons and their tool tips. say(sentence):
    called with the reason if an action is not possible, otherwise with "".

    The keys work in the window of `keyParent` after `setKeysEnabled(True)`, but not while the user types text.
    """

    def __init__(self, ui, choice: LesionActions, keyParent, say: Callable[[str], None]) -> None:
        self.ui = ui
        self.logic = choice.logic
        self.choice = choice
        self._say = say
        logic = self.logic
        self._buttons = {name: getattr(ui, f"{name}Button") for name in KEYS}
        self._tips = {name: button.toolTip for name, button in self._buttons.items()}
        self._keys = []
        for name, button in self._buttons.items():
            button.connect("clicked(bool)", self._slot(name))
            if KEYS[name]:
                button.text = f"{button.text} ({KEYS[name]})"
                self._addKey(KEYS[name], keyParent, self._slot(name))
        self._escape = self._addKey("Esc", keyParent, lambda: logic.placing.stop())
        self._mergeMenu = qt.QMenu(ui.mergeButton)
        for button, keys, step in (
            (ui.undoButton, "Ctrl+Z", logic.undo),
            (ui.redoButton, "Ctrl+Y", logic.redo),
        ):
            button.connect("clicked(bool)", lambda _on, step=step: step())
            self._addKey(keys, keyParent, lambda step=step: step())
        self.setKeysEnabled(False)
        self.atEnd(self._giveKeysBack)
        for signal in (logic.changed, logic.placing.changed, choice.changed):
            self.listen(signal, self.update)
        self.update()

    def _addKey(self, keys: str, parent, slot: Callable[[], None]):
        """Call `slot` when the user presses `keys`, such as "Ctrl+Z", in the window of `parent`. Returns a shortcut."""
        key = qt.QShortcut(qt.QKeySequence(keys), parent)
        key.connect("activated()", slot)
        self._keys.append(key)
        return key

    def _giveKeysBack(self) -> None:
        """Remove all shortcuts; the window, which stays, may use the keys for something else."""
        for key in self._keys:
            key.setEnabled(False)
            key.deleteLater()
        self._keys = []

    def setKeysEnabled(self, enabled: bool) -> None:
        """Enable or disable the keyboard keys of all actions."""
        self._keysEnabled = enabled
        for key in self._keys:
            key.setEnabled(enabled)
        self._escape.setEnabled(enabled and self.logic.placing.active)

    def update(self) -> None:
        """Enable the buttons of the possible actions. The tool tip of a disabled button states the reason."""
        for name, button in self._buttons.items():
            reason = self.choice.whyNot(name)
            button.enabled = not reason
            button.toolTip = reason or self._tips[name]
        ui = self.ui
        history = self.logic.history
        self._escape.setEnabled(self._keysEnabled and self.logic.placing.active)
        ui.undoButton.enabled = history.canUndo
        ui.redoButton.enabled = history.canRedo

    def run(self, name: str) -> None:
        """Run an action. If it is not possible now, show the reason."""
        reason = self.choice.whyNot(name)
        self._say(reason)
        if not reason and name == MERGE:
            self.mergeMenu().popup(
                self.ui.mergeButton.mapToGlobal(qt.QPoint(0, self.ui.mergeButton.height))
            )
        elif not reason:
            self.choice.run(name)

    def mergeMenu(self):
        """Fill and return the menu of the lesions into which the chosen lesion can merge."""
        lesion = self.choice.lesion
        study = self.choice.study
        menu = self._mergeMenu
        menu.clear()
        for partner in self.choice.mergeChoices():
            entry = menu.addAction(self.logic.record.lesion(partner).label)
            entry.connect(
                "triggered()",
                lambda partner=partner: self.logic.apply(FollowUp.merge, lesion, study, partner),
            )
        return menu

    def _slot(self, name: str) -> Callable[[], None]:
        return lambda: self.run(name)
