"""Buttons and keys that say something of a lesion."""

from __future__ import annotations

from collections.abc import Callable

import qt
from slicer.i18n import tr as _

from . import ActionRules as Rules
from .FollowUpLogic import FollowUpLogic
from .LesionChoice import LesionChoice

_BUTTONS = {
    Rules.NEW: "newButton", Rules.CONFIRM: "confirmButton", Rules.MOVE: "moveButton",
    Rules.NOT_VISIBLE: "notVisibleButton", Rules.OUTSIDE: "outsideButton", Rules.LONG_AXIS: "longAxisButton",
    Rules.SHORT_AXIS: "shortAxisButton", Rules.ACCEPT: "acceptSizeButton", Rules.MERGE: "mergeButton",
    Rules.REMOVE: "removeButton", Rules.PREVIOUS: "previousButton", Rules.NEXT: "nextButton",
}  # fmt: skip


class LesionActions:
    """ui: holds the buttons. say(sentence): why a key did nothing.

    Keys act on the window of `keyParent` while `setKeysEnabled`; text fields keep their letters, as Qt lets them.
    """

    def __init__(self, ui, logic: FollowUpLogic, choice: LesionChoice, keyParent, say: Callable[[str], None]) -> None:
        self.ui, self.logic, self.choice, self._say = ui, logic, choice, say
        self._actions = {**Rules.actions(logic, choice), Rules.MERGE: self._offerMerge}
        self._buttons = {name: getattr(ui, button) for name, button in _BUTTONS.items()}
        self._keys = []
        for name, button in self._buttons.items():
            button.connect("clicked(bool)", self._slot(name))
            if name in Rules.KEYS:
                button.text = f"{button.text} ({Rules.KEYS[name]})"
                key = qt.QShortcut(qt.QKeySequence(Rules.KEYS[name]), keyParent)
                key.connect("activated()", self._slot(name))
                self._keys.append(key)
        self._escape = qt.QShortcut(qt.QKeySequence("Esc"), keyParent)
        self._escape.connect("activated()", lambda: logic.placing.stop())
        self._keys.append(self._escape)
        self._mergeMenu = qt.QMenu(ui.mergeButton)
        ui.undoButton.connect("clicked(bool)", lambda: logic.undo())
        ui.redoButton.connect("clicked(bool)", lambda: logic.redo())
        self.setKeysEnabled(False)
        for signal in (logic.changed, logic.placing.changed, choice.changed):
            signal.connect(self.update)
        self.update()

    def close(self) -> None:
        """Stop listening, and give the keys back."""
        for signal in (self.logic.changed, self.logic.placing.changed, self.choice.changed):
            signal.disconnect(self.update)
        for key in self._keys:
            key.setEnabled(False)
            key.deleteLater()
        self._keys = []

    def setKeysEnabled(self, enabled: bool) -> None:
        """Do the keys act?"""
        self._keysEnabled = enabled
        for key in self._keys:
            key.setEnabled(enabled)
        self._escape.setEnabled(enabled and self.logic.placing.active)

    def update(self) -> None:
        """What can be done now; a tool tip states what is missing where it cannot."""
        for name, button in self._buttons.items():
            reason = self._whyNot(name)
            button.enabled = not reason
            button.toolTip = reason or Rules.tipOf(name)
        ui, logic = self.ui, self.logic
        self._escape.setEnabled(self._keysEnabled and logic.placing.active)
        ui.undoButton.enabled, ui.redoButton.enabled = logic.canUndo, logic.canRedo
        ui.undoButton.toolTip = _("Take back the last thing you did.") if logic.canUndo else _("Nothing to take back.")
        ui.redoButton.toolTip = _("Do again what you took back.") if logic.canRedo else _("Nothing was taken back.")

    def run(self, name: str) -> None:
        """Do one thing, or say why it cannot be done."""
        reason = self._whyNot(name)
        if reason:
            self._say(reason)
        else:
            self._say("")
            self._actions[name]()

    def _whyNot(self, name: str) -> str:
        return Rules.whyNot(self.logic, name, self.choice.lesion, self.choice.study)

    def _slot(self, name: str) -> Callable[[], None]:
        return lambda: self.run(name)

    def _offerMerge(self) -> None:
        self.mergeMenu().popup(self.ui.mergeButton.mapToGlobal(qt.QPoint(0, self.ui.mergeButton.height)))

    def mergeMenu(self):
        """The lesions that the chosen one may have merged with."""
        lesion, study, menu = self.choice.lesion, self.choice.study, self._mergeMenu
        menu.clear()
        for other in Rules.mergeChoices(self.logic, lesion, study):
            merge = self._mergeWith(lesion, study, other)
            menu.addAction(self.logic.record.lesion(other).label).connect("triggered()", merge)
        return menu

    def _mergeWith(self, lesion: str, study: str, other: str) -> Callable[[], None]:
        return lambda: self.logic.merge(lesion, study, other)
