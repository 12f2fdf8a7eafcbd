# ruff: noqa: N801, N802, N815 - the names are those of CTK and Qt
"""Doubles of the CTK widgets that take a number or a path."""

import re

from PySide6 import QtCore, QtGui, QtWidgets

from slicer_kit.dialogs import DIALOGS
from slicer_kit.pythonqt import stored, wrapped


def _row(widget: QtWidgets.QWidget, *parts: QtWidgets.QWidget) -> None:
    """Lay the parts of a composed widget side by side without margins."""
    layout = QtWidgets.QHBoxLayout(widget)
    layout.setContentsMargins(0, 0, 0, 0)
    for part in parts:
        layout.addWidget(part)


@wrapped
class ctkSliderWidget(QtWidgets.QWidget):
    """A slider and a spin box with one value, always within [minimum, maximum]."""

    valueChanged = QtCore.Signal(float)
    pageStep, setPageStep = stored("pageStep", float, 10.0)

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self._slider = QtWidgets.QSlider(QtCore.Qt.Orientation.Horizontal)
        self._slider.setRange(0, 1000)
        self._spin_box = QtWidgets.QDoubleSpinBox()
        self._spin_box.setMinimumWidth(80)
        _row(self, self._slider, self._spin_box)
        self._value = 0.0
        self._spin_box.valueChanged.connect(self.setValue)

    def setValue(self, value: float) -> None:
        value = round(min(max(float(value), self.minimum), self.maximum), self._spin_box.decimals)
        if value != self._value:
            self._value = value
            self._show()
            self.valueChanged.emit(value)

    def _show(self) -> None:
        self._spin_box.blockSignals(True)
        self._spin_box.setValue(self._value)
        self._spin_box.blockSignals(False)
        span = self.maximum - self.minimum
        self._slider.setValue(round(1000 * (self._value - self.minimum) / span) if span > 0 else 0)

    def _set_range(self, minimum: float, maximum: float) -> None:
        self._spin_box.blockSignals(True)
        self._spin_box.setRange(minimum, max(minimum, maximum))
        self._spin_box.blockSignals(False)
        self.setValue(self._value)
        self._show()

    def setMinimum(self, minimum: float) -> None:
        self._set_range(minimum, self.maximum)

    def setMaximum(self, maximum: float) -> None:
        self._set_range(min(self.minimum, maximum), maximum)

    def _set_decimals(self, decimals: int) -> None:
        self._spin_box.setDecimals(decimals)

    def _set_step(self, step: float) -> None:
        self._spin_box.setSingleStep(step)

    value = QtCore.Property(float, lambda self: self._value, setValue)
    minimum = QtCore.Property(float, lambda self: self._spin_box.minimum, setMinimum)
    maximum = QtCore.Property(float, lambda self: self._spin_box.maximum, setMaximum)
    decimals = QtCore.Property(int, lambda self: self._spin_box.decimals, _set_decimals)
    singleStep = QtCore.Property(float, lambda self: self._spin_box.singleStep, _set_step)


@wrapped
class ctkPathLineEdit(QtWidgets.QWidget):
    """An editable path with a browse button; the button answers with DIALOGS.

    As in CTK, currentPathChanged tells of acceptable texts only: not of an empty one, nor of one that ends otherwise
    than the name filters ask for.
    """

    Dirs, Files, Readable = 0x1, 0x2, 0x10
    currentPathChanged = QtCore.Signal(str)
    validInputChanged = QtCore.Signal(bool)
    label, setLabel = stored("label", str, "")
    filters, setFilters = stored("filters", int, 0x7)
    nameFilters, setNameFilters = stored("nameFilters", "QStringList", [], "_set_pattern")

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self._combo = QtWidgets.QComboBox()
        self._combo.setEditable(True)
        self._combo.setSizePolicy(QtWidgets.QSizePolicy.Policy.Expanding, QtWidgets.QSizePolicy.Policy.Fixed)
        self._browse = QtWidgets.QToolButton()
        self._browse.setText("…")
        _row(self, self._combo, self._browse)
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

    def browse(self) -> None:
        kind = "open_file" if self.filters & self.Files else "directory"
        path = DIALOGS.record(kind, self.currentPath, self.label, filter=";;".join(self.nameFilters))
        if path:
            self.setCurrentPath(path)

    currentPath = QtCore.Property(str, lambda self: self._combo.currentText, setCurrentPath)


def _accepted(name_filters: list[str]) -> str:
    """CTK's regular expression of the texts that suit name filters: of "*.nii.gz" it looks at ".nii" alone."""
    patterns = [pattern for each in name_filters for pattern in re.split(r"[\s();]+", each)]
    endings = [found[1] for pattern in patterns if (found := re.search(r"\*\.(\w+)", pattern))]
    return "(" + "|".join(rf".*\.{ending}?$" for ending in endings) + ")" if endings else ".+"
