"""Observers of the scene. They are removed together with the widget that they belong to."""

import shiboken6
from PySide6 import QtWidgets


class SceneObservation:
    """Observers of VTK objects that call a widget for as long as its Qt side exists."""

    def __init__(self, widget: QtWidgets.QWidget) -> None:
        self._widget = widget
        self._tags: list[tuple[object, int]] = []

    def add(self, caller, events, slot, call_data_type=None) -> None:
        """Call the slot with (caller, event), and with call data where its VTK type is given."""

        def guarded(*arguments):
            if shiboken6.isValid(self._widget):
                slot(*arguments)
            else:
                self.clear()

        if call_data_type is not None:
            guarded.CallDataType = call_data_type
        for event in events:
            self._tags.append((caller, caller.AddObserver(event, guarded)))

    def clear(self) -> None:
        """End all of them."""
        for caller, tag in self._tags:
            caller.RemoveObserver(tag)
        self._tags.clear()
