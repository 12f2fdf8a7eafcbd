"""The form for the name, site and kind of the chosen lesion."""

from collections.abc import Callable

from slicer.i18n import tr as _

from AnatomicalEmbedding.followup.record import FollowUp

from ..shared.panels.Widgets import fillComboBox
from ..shared.Signal import Flag, Listener
from .LesionActions import LesionActions


class LesionForm(Listener):
    """Shows and changes the chosen lesion. ui: has the widgets of the form, for example nameEdit and siteEdit."""

    def __init__(self, ui, choice: LesionActions) -> None:
        self.ui = ui
        self.logic = choice.logic
        self.choice = choice
        self._filling = Flag()
        self._lesion = ""  # id of the lesion at the last `update`
        self._edits = {"name": ui.nameEdit, "site": ui.siteEdit}
        for name, textEdit in self._edits.items():
            textEdit.connect("editingFinished()", self._writer(name, textEdit))
            # so that the keys of the actions work again
            textEdit.connect("returnPressed()", textEdit.clearFocus)
        ui.targetCheckBox.connect("toggled(bool)", lambda on: self._describe(target=on))
        ui.nodalCheckBox.connect("toggled(bool)", lambda on: self._describe(nodal=on))
        ui.splitSelector.connect(
            "activated(int)", lambda n: self._describe(split_from=ui.splitSelector.itemData(n))
        )
        self.updateAt(self.logic.changed, choice.changed)

    def update(self) -> None:
        """Fill the form with the values of the chosen lesion. Texts that the user is typing do not change."""
        ui = self.ui
        record = self.logic.record
        lesions = {lesion.id: lesion for lesion in record.lesions}
        lesion = lesions.get(self.choice.lesion)
        with self._filling:
            ui.formArea.setEnabled(lesion is not None)
            ui.formArea.setToolTip(
                _("Choose a lesion in the table first.") if lesion is None else ""
            )
            for name, edit in self._edits.items():
                text = "" if lesion is None else getattr(lesion, name)
                isHalfWritten = edit.modified and self._lesion == self.choice.lesion
                if edit.text != text and not isHalfWritten:
                    edit.text = text
            ui.targetCheckBox.checked = lesion is not None and lesion.target
            ui.nodalCheckBox.checked = lesion is not None and lesion.nodal
            choices = [("", _("no lesion"))]
            if lesion is not None:
                choices += [
                    (key, whole.label) for key, whole in lesions.items() if whole is not lesion
                ]
            chosen = "" if lesion is None else lesion.split_from
            fillComboBox(ui.splitSelector, choices, chosen)
        self._lesion = self.choice.lesion

    def _writer(self, name: str, textEdit) -> Callable[[], None]:
        """Return a function that stores the text of a field in the record. name: what the text is of the lesion."""

        def write() -> None:
            textEdit.modified = False  # the record has this text now, so undo may change the field
            self._describe(**{name: textEdit.text.strip()})

        return write

    def _describe(self, **changes) -> None:
        """Change the chosen lesion in the record, unless `update` fills the form. changes: see `FollowUp.describe`."""
        if not self._filling and self.choice.lesion:
            self.logic.apply(FollowUp.describe, self.choice.lesion, **changes)
