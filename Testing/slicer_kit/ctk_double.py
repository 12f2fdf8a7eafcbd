# ruff: noqa: N801, N802, N815 - the names are those of CTK and Qt
"""The `ctk` module: doubles of the CTK widgets that our modules use."""

import re
import sys
import types

from PySide6 import QtCore, QtWidgets

from slicer_kit.ctk_collapsible import ctkCollapsibleButton, ctkCollapsibleGroupBox
from slicer_kit.dialogs import DIALOGS
from slicer_kit.pythonqt import stored, wrapped
from slicer_kit.ui_loader import register


def build() -> None:
    """Make the module, register its classes for .ui files and put it into sys.modules as `ctk`."""
    sys.modules["ctk"] = module = types.ModuleType("ctk", __doc__)
    for cls in (ctkCollapsibleButton, ctkCollapsibleGroupBox, ctkPathLineEdit):
        register(cls)
        setattr(module, cls.__name__, cls)


@wrapped
class ctkPathLineEdit(QtWidgets.QWidget):
    """An editable path with a browse button; the button answers with DIALOGS.

    As in CTK, currentPathChanged tells of acceptable texts only: not of an empty one, nor of one that ends otherwise
    than the name filters ask for.
    """

    Dirs, Files, Readable = 0x1, 0x2, 0x10
    currentPathChanged = QtCore.Signal(str)
    label, setLabel = stored("label", str, "")
    filters, setFilters = stored("filters", int, 0x7)
    nameFilters, setNameFilters = stored("nameFilters", "QStringList", [])

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self._combo = QtWidgets.QComboBox()
        self._combo.setEditable(True)
        self._combo.setSizePolicy(
            QtWidgets.QSizePolicy.Policy.Expanding, QtWidgets.QSizePolicy.Policy.Fixed
        )
        browse = QtWidgets.QToolButton()
        browse.setText("…")
        layout = QtWidgets.QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._combo)
        layout.addWidget(browse)
        self._combo.lineEdit().textChanged.connect(self._on_text)
        browse.clicked.connect(lambda _checked: self.browse())

    def _on_text(self, path: str) -> None:
        if re.fullmatch(_accepted(self.nameFilters), path):
            self.currentPathChanged.emit(path)

    def setCurrentPath(self, path: str) -> None:
        if not isinstance(path, str):
            raise TypeError(f"currentPath takes a string, not {path!r}")
        self._combo.setEditText(path)

    def browse(self) -> None:
        kind = "open_file" if self.filters & self.Files else "directory"
        path = DIALOGS.record(
            kind, self.currentPath, self.label, filter=";;".join(self.nameFilters)
        )
        if path:
            self.setCurrentPath(path)

    currentPath = QtCore.Property(str, lambda self: self._combo.currentText, setCurrentPath)


def _accepted(name_filters: list[str]) -> str:
    """CTK's regular expression of the texts that suit name filters: of "*.nii.gz" it looks at ".nii" alone."""
    patterns = [pattern for each in name_filters for pattern in re.split(r"[\s();]+", each)]
    endings = [found[1] for pattern in patterns if (found := re.search(r"\*\.(\w+)", pattern))]
    return "(" + "|".join(rf".*\.{ending}?$" for ending in endings) + ")" if endings else ".+"
