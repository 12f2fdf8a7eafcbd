"""A file dialog that opens in the folder that was used last."""

from __future__ import annotations

import qt
from slicer.i18n import tr as _

from . import ModuleSettings


def askForFile(parent, title: str, kinds: str, setting: str) -> str:
    """Return the file that the user chooses, or "". kinds: like "Reports (*.txt)". setting: key of the last folder."""
    folder = ModuleSettings.value(setting, "")
    path = qt.QFileDialog.getOpenFileName(parent, title, folder, kinds + ";;" + _("All files (*)"))
    if path:
        ModuleSettings.setValue(setting, str(qt.QFileInfo(path).absolutePath()))
    return path
