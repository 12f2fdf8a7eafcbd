"""The buttons and the keyboard keys for the actions on a lesion."""

from collections.abc import Callable
from functools import partial

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
        self._keyParent = keyParent
        self._keys = []
        for name, button in self._buttons.items():
            if KEYS[name]:
                button.text = f"{button.text} ({KEYS[name]})"
            self._connect(button, KEYS[name], partial(self.run, name))
        self._connect(ui.undoButton, "Ctrl+Z", logic.undo)
        self._connect(ui.redoButton, "Ctrl+Y", logic.redo)
        self._escape = self._addKey("Esc", logic.placing.stop)
        self._mergeMenu = qt.QMenu(ui.mergeButton)
        self.setKeysEnabled(False)
        self.atEnd(self._giveKeysBack)
        self.updateAt(logic.changed, logic.placing.changed, choice.changed)

    def _connect(self, button, keys: str, run: Callable[[], object]) -> None:
        """Call `run` when the user presses a button or its keys. keys: such as "Ctrl+Z"; "" for none."""
        button.connect("clicked(bool)", lambda _on: run())
        if keys:
            self._addKey(keys, run)

    def _addKey(self, keys: str, run: Callable[[], object]):
        """Call `run` when the user presses these keys in the window. Returns the shortcut."""
        key = qt.QShortcut(qt.QKeySequence(keys), self._keyParent)
        key.connect("activated()", lambda: run())
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
