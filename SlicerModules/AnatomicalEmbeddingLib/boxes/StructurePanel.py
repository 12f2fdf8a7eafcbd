"""A list of the structures in the library, with check boxes and a search field."""

from collections.abc import Iterable

import qt
from slicer.i18n import tr as _

from ..shared.Signal import Flag, Signal
from .StructureNames import titled


class StructurePanel:
    """Lets the user tick structures. Signal changed(): emitted when the user ticks or unticks a structure.

    names: names of all structures in the list. ui: the widgets searchEdit, structureList, countLabel and
    clearStructuresButton.
    """

    def __init__(self, ui) -> None:
        self._search = ui.searchEdit
        self._list = ui.structureList
        self._count = ui.countLabel
        self._clear = ui.clearStructuresButton
        self.changed = Signal()
        self.names: list[str] = []
        self._filling = Flag()
        self._search.connect("textChanged(QString)", self._onSearch)
        self._list.connect("itemChanged(QListWidgetItem*)", self._onItem)
        self._clear.connect("clicked(bool)", self._onClear)
        self._showCount()

    def setNames(self, names: Iterable[str]) -> None:
        """Fill the list with these names, in this order. Structures that were ticked stay ticked."""
        names = list(names)
        if names == self.names:
            return
        chosen = self.chosen
        self.names = names
        with self._filling:
            self._list.clear()
            for name in names:
                item = qt.QListWidgetItem(titled(name))
                item.setFlags(
                    qt.Qt.ItemIsUserCheckable | qt.Qt.ItemIsEnabled | qt.Qt.ItemIsSelectable
                )
                item.setCheckState(qt.Qt.Checked if name in chosen else qt.Qt.Unchecked)
                self._list.addItem(item)
        self._onSearch(self._search.text)
        self._showCount()

    @property
    def chosen(self) -> list[str]:
        """Names of all ticked structures, including structures that the search hides."""
        return [
            name
            for n, name in enumerate(self.names)
            if self._list.item(n).checkState() == qt.Qt.Checked
        ]

    def setChosen(self, names: Iterable[str]) -> None:
        """Tick only these structures; names that are not in the list are ignored. `changed` is not emitted."""
        names = set(names)
        with self._filling:
            for n, name in enumerate(self.names):
                state = qt.Qt.Checked if name in names else qt.Qt.Unchecked
                if self._list.item(n).checkState() != state:
                    self._list.item(n).setCheckState(state)
        self._showCount()

    def _onSearch(self, text: str) -> None:
        words = text.lower().split()
        for n, name in enumerate(self.names):
            self._list.item(n).setHidden(not all(word in titled(name).lower() for word in words))

    def _onItem(self, item) -> None:
        if not self._filling:
            self._showCount()
            self.changed.emit()

    def _onClear(self) -> None:
        self.setChosen([])
        self.changed.emit()

    def _showCount(self) -> None:
        """Say how many structures are ticked; the tool tip has their names."""
        chosen = self.chosen
        count = len(self.names)
        if not count:
            text = _("There is no structure library for these weights.")
        elif not chosen:
            text = _("Tick the structures to find, out of {count} structures.").format(count=count)
        else:
            text = _("{chosen} of {count} structures ticked").format(
                chosen=len(chosen), count=count
            )
        self._count.text = text
        self._count.toolTip = ", ".join(map(titled, chosen))
        self._clear.enabled = bool(chosen)
