"""A file dialog that opens in the folder of the file that was chosen last."""

import qt
from slicer.i18n import tr as _

from . import ModuleSettings


def askForFile(parent, title: str, kinds: str, setting: str) -> str:
    """Return the path of the file that the user chooses; "" if the user cancels.

    Args:
        parent: the widget over which the dialog opens.
        title: title of the dialog.
        kinds: kinds of files, such as "Reports (*.txt)".
        setting: key under which the last folder is stored.
    """
    folder = ModuleSettings.value(setting, "")
    path = qt.QFileDialog.getOpenFileName(parent, title, folder, kinds + ";;" + _("All files (*)"))
    if path:
        ModuleSettings.setValue(setting, str(qt.QFileInfo(path).absolutePath()))
    return path
