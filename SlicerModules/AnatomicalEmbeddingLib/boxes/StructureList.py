"""The structures of the library as a list to tick, with a search box."""

from __future__ import annotations

from collections.abc import Iterable

import qt
from slicer.i18n import tr as _

from ..shared.Flag import Flag
from ..shared.Signal import Signal
from .StructureNames import titled


class StructureList:
    """changed(): the user has ticked or unticked a structure."""

    def __init__(self, searchEdit, listWidget, countLabel, clearButton) -> None:
        self.searchEdit, self.widget, self.countLabel, self.clearButton = (
            searchEdit,
            listWidget,
            countLabel,
            clearButton,
        )
        self.changed = Signal()
        self._names: list[str] = []
        self._filling = Flag()
        searchEdit.connect("textChanged(QString)", self._onSearch)
        listWidget.connect("itemChanged(QListWidgetItem*)", self._onItem)
        clearButton.connect("clicked(bool)", self._onClear)
        self._showCount()

    def setNames(self, names: Iterable[str]) -> None:
        """The structures that there are, in this order; ticks of those that stay are kept."""
        names = list(names)
        if names == self._names:
            return
        chosen, self._names = self.chosen, names
        with self._filling:
            self.widget.clear()
            for name in names:
                item = qt.QListWidgetItem(titled(name))
                item.setFlags(qt.Qt.ItemIsUserCheckable | qt.Qt.ItemIsEnabled | qt.Qt.ItemIsSelectable)
                item.setCheckState(qt.Qt.Checked if name in chosen else qt.Qt.Unchecked)
                self.widget.addItem(item)
        self._onSearch(self.searchEdit.text)
        self._showCount()

    @property
    def names(self) -> list[str]:
        """Of all structures."""
        return list(self._names)

    @property
    def chosen(self) -> list[str]:
        """Structures that are ticked, whether the search shows them or not."""
        return [name for n, name in enumerate(self._names) if self.widget.item(n).checkState() == qt.Qt.Checked]

    def setChosen(self, names: Iterable[str]) -> None:
        """Tick these, as far as they are in the list, and no others; `changed` is not emitted."""
        names = set(names)
        with self._filling:
            for n, name in enumerate(self._names):
                state = qt.Qt.Checked if name in names else qt.Qt.Unchecked
                if self.widget.item(n).checkState() != state:
                    self.widget.item(n).setCheckState(state)
        self._showCount()

    def _onSearch(self, text: str) -> None:
        """Show the structures that hold every word."""
        words = text.lower().split()
        for n, name in enumerate(self._names):
            shown = titled(name).lower()
            self.widget.item(n).setHidden(not all(word in shown for word in words))

    def _onItem(self, item) -> None:
        if not self._filling:
            self._showCount()
            self.changed.emit()

    def _onClear(self) -> None:
        self.setChosen([])
        self.changed.emit()

    def _showCount(self) -> None:
        chosen = self.chosen
        if not self._names:
            self.countLabel.text = _("There is no library for these weights.")
        elif not chosen:
            self.countLabel.text = _("Tick what to look for; there are {count} structures.").format(
                count=len(self._names)
            )
        else:
            self.countLabel.text = _("{chosen} of {count} structures ticked").format(
                chosen=len(chosen), count=len(self._names)
            )
        self.countLabel.toolTip = ", ".join(map(titled, chosen))
        self.clearButton.enabled = bool(chosen)
