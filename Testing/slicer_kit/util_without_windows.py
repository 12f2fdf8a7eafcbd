# ruff: noqa: N803 - the names are those of Slicer
"""The functions of the real slicer.util that open windows or need the main window, without them."""

import logging

import slicer.util
from PySide6 import QtWidgets

from slicer_kit.dialogs import DIALOGS
from slicer_kit.qt_double import button_for


def patch_util(kit) -> None:
    """Let messages and questions go to DIALOGS, status messages and module changes to the kit."""

    def delay_display(message, autoCloseMsec=1000, parent=None, **_options):
        logging.info(message)
        if not 0 <= autoCloseMsec < 400:  # shorter ones are not shown
            DIALOGS.record("delay", message)
        kit.process_events()

    def show_status_message(message, duration=0) -> bool:
        kit.status_messages.append(message)
        return True

    slicer.util._messageDisplay = _message_display
    slicer.util.messageBox = _message_box
    slicer.util.delayDisplay = delay_display
    slicer.util.showStatusMessage = show_status_message
    slicer.util.selectModule = lambda module: kit.select(module if isinstance(module, str) else module.name)
    slicer.util.resetSliceViews = slicer.util.resetThreeDViews = lambda: None


def _message_display(level, text, _testing_value, mainWindowNeeded=False, **options):
    logging.log(level, text)
    kind = {logging.WARNING: "warning", logging.ERROR: "error"}.get(level, "info")
    title = options.pop("windowTitle", None) or f"{slicer.app.applicationName} {kind}"
    return _ask_or_tell(kind, text, title, options)


def _message_box(text, parent=None, windowTitle=None, **options):
    return _ask_or_tell("info", text, windowTitle, options)


def _ask_or_tell(kind: str, text: str, title: str | None, options: dict):
    """A dialog with one button tells, with more it asks."""
    ok = QtWidgets.QMessageBox.StandardButton.Ok
    buttons = options.get("standardButtons") or ok
    answer = DIALOGS.record(kind if buttons == ok else "confirm", text, title, **options)
    return button_for(answer, buttons)
