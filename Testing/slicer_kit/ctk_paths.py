# ruff: noqa: N801, N802, N815 - the names are those of CTK and Qt
"""Doubles of the CTK widgets that hold a path; their dialogs answer with DIALOGS."""

import re
from pathlib import Path

from PySide6 import QtCore, QtGui, QtWidgets

from slicer_kit.ctk_numbers import row
from slicer_kit.dialogs import DIALOGS
from slicer_kit.pythonqt import stored, wrapped


@wrapped
class ctkPathLineEdit(QtWidgets.QWidget):
    """An editable path with a browse button; the button answers with DIALOGS.

    As in CTK, currentPathChanged tells of acceptable texts only: not of an empty one, nor of one that ends otherwise
    than the name filters ask for.
    """

    class Filter:
        Dirs, Files, Drives, NoSymLinks, Readable, Writable, Executable = 0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x40

    Dirs, Files, Drives, NoSymLinks = Filter.Dirs, Filter.Files, Filter.Drives, Filter.NoSymLinks
    Readable, Writable, Executable = Filter.Readable, Filter.Writable, Filter.Executable
    NoDotAndDotDot, AllEntries = 0x1000, 0x7

    currentPathChanged = QtCore.Signal(str)
    validInputChanged = QtCore.Signal(bool)
    label, setLabel = stored("label", str, "")
    filters, setFilters = stored("filters", int, 0x7)
    options, setOptions = stored("options", int, 0)
    nameFilters, setNameFilters = stored("nameFilters", "QStringList", [], "_set_pattern")
    settingKey, setSettingKey = stored("settingKey", str, "")
    sizeAdjustPolicy, setSizeAdjustPolicy = stored("sizeAdjustPolicy", int, 1)
    minimumContentsLength, setMinimumContentsLength = stored("minimumContentsLength", int, 0)
    showHistoryButton, setShowHistoryButton = stored("showHistoryButton", bool, True)

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self._combo = QtWidgets.QComboBox()
        self._combo.setEditable(True)
        self._combo.setSizePolicy(QtWidgets.QSizePolicy.Policy.Expanding, QtWidgets.QSizePolicy.Policy.Fixed)
        self._browse = QtWidgets.QToolButton()
        self._browse.setText("…")
        row(self, self._combo, self._browse)
        self._valid = False
        self._validator = QtGui.QRegularExpressionValidator(self)
        self._set_pattern()
        self._combo.lineEdit().setValidator(self._validator)
        self._combo.lineEdit().textChanged.connect(self._on_text)
        self._browse.clicked.connect(lambda _checked: self.browse())

    def _set_pattern(self) -> None:
        self._validator.setRegularExpression(QtCore.QRegularExpression(_accepted(self.nameFilters)))

    def _on_text(self, path: str) -> None:
        was_valid, self._valid = self._valid, self._combo.lineEdit().hasAcceptableInput()
        if self._valid:
            self.currentPathChanged.emit(path)
        if self._valid != was_valid:
            self.validInputChanged.emit(self._valid)

    def setCurrentPath(self, path: str) -> None:
        if not isinstance(path, str):
            raise TypeError(f"currentPath takes a string, not {path!r}")
        self._combo.setEditText(path)

    def setShowBrowseButton(self, shown: bool) -> None:
        self._browse.setVisible(shown)

    def browse(self) -> None:
        files = self.filters & self.Files
        kind = ("save_file" if self.filters & self.Writable else "open_file") if files else "directory"
        path = DIALOGS.record(kind, self.currentPath, self.label, filter=";;".join(self.nameFilters))
        if path:
            self.setCurrentPath(path)

    def addCurrentPathToHistory(self) -> None:
        if self.currentPath and self._combo.findText(self.currentPath) < 0:
            self._combo.addItem(self.currentPath)

    def retrieveHistory(self) -> None:
        """The history lives in the application's settings, which are empty here."""

    def comboBox(self) -> QtWidgets.QComboBox:
        return self._combo

    currentPath = QtCore.Property(str, lambda self: self._combo.currentText, setCurrentPath)
    showBrowseButton = QtCore.Property(bool, lambda self: not self._browse.isHidden(), setShowBrowseButton)


def _accepted(name_filters: list[str]) -> str:
    """CTK's regular expression of the texts that suit name filters: of "*.nii.gz" it looks at ".nii" alone."""
    patterns = [pattern for each in name_filters for pattern in re.split(r"[\s();]+", each)]
    endings = [found[1] for pattern in patterns if (found := re.search(r"\*\.(\w+)", pattern))]
    return "(" + "|".join(rf".*\.{ending}?$" for ending in endings) + ")" if endings else ".+"


@wrapped
class ctkDirectoryButton(QtWidgets.QWidget):
    """A button that shows a folder and asks for another when clicked; starts at the current folder."""

    directoryChanged = QtCore.Signal(str)
    directorySelected = QtCore.Signal(str)
    acceptMode, setAcceptMode = stored("acceptMode", int, 0)
    caption, setCaption = stored("caption", str, "")
    elideMode, setElideMode = stored("elideMode", int, 2)
    options, setOptions = stored("options", int, 1)
    text, setText = stored("text", str, "", "_show")

    def __init__(self, *arguments) -> None:
        folder = arguments[0] if arguments and isinstance(arguments[0], str) else "."
        parent = arguments[-1] if arguments and isinstance(arguments[-1], QtWidgets.QWidget) else None
        super().__init__(parent)
        self._button = QtWidgets.QPushButton()
        self._button.setIcon(self.style().standardIcon(QtWidgets.QStyle.StandardPixmap.SP_DirIcon))
        row(self, self._button)
        self._directory = str(Path(folder).absolute())
        self._show()
        self._button.clicked.connect(lambda _checked: self.browse())

    def _show(self) -> None:
        self._button.setText(self.text or self._directory)

    def setDirectory(self, path: str) -> None:
        path = str(Path(path or ".").absolute())
        changed = path != self._directory
        self._directory = path
        self._show()
        self.directorySelected.emit(path)
        if changed:
            self.directoryChanged.emit(path)

    def browse(self) -> str:
        path = DIALOGS.record("directory", self._directory, self.caption)
        if path:
            self.setDirectory(path)
        return path

    directory = QtCore.Property(str, lambda self: self._directory, setDirectory)
