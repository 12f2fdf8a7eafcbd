"""Combo boxes whose entries are known by a value, not by their text or place."""

from __future__ import annotations

from collections.abc import Sequence


def fillComboBox(comboBox, entries: Sequence[tuple[str, str]], current: str | None) -> None:
    """Entries (value, text), without telling anyone; no entry is current where `current` is none of them."""
    values = [value for value, _text in entries]
    blocked = comboBox.blockSignals(True)
    comboBox.clear()
    for value, text in entries:
        comboBox.addItem(text, value)
    comboBox.setCurrentIndex(values.index(current) if current in values else -1)
    comboBox.blockSignals(blocked)
