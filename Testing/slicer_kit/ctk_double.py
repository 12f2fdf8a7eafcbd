# ruff: noqa: N801, N802, N815 - the names are those of Slicer and Qt
"""The `ctk` module: doubles of the CTK widgets that scripted modules use."""

import sys
import types
from pathlib import Path

from PySide6 import QtCore, QtGui, QtWidgets

from slicer_kit.ctk_collapsible import ctkCollapsibleButton, ctkCollapsibleGroupBox  # noqa: F401 - found by build()
from slicer_kit.dialogs import DIALOGS
from slicer_kit.pythonqt import stored, wrapped
from slicer_kit.ui_loader import register


def build() -> types.ModuleType:
    """Make the module, register its classes for .ui files and put it into sys.modules as `ctk`."""
    module = types.ModuleType("ctk", __doc__)
    classes = [value for name, value in globals().items() if name.startswith("ctk")]
    register(*classes)
    for cls in classes:
        setattr(module, cls.__name__, cls)
    sys.modules["ctk"] = module
    return module


def row(widget: QtWidgets.QWidget, *parts: QtWidgets.QWidget) -> None:
    """Lay the parts of a composed widget side by side without margins."""
    layout = QtWidgets.QHBoxLayout(widget)
    layout.setContentsMargins(0, 0, 0, 0)
    for part in parts:
        layout.addWidget(part)


@wrapped
class ctkSliderWidget(QtWidgets.QWidget):
    """A slider and a spin box with one value, always within [minimum, maximum]."""

    valueChanged = QtCore.Signal(float)
    valueIsChanging = QtCore.Signal(float)
    pageStep, setPageStep = stored("pageStep", float, 10.0)
    tickInterval, setTickInterval = stored("tickInterval", float, 0.0)
    tickPosition, setTickPosition = stored("tickPosition", int, 0)
    tracking, setTracking = stored("tracking", bool, True)
    popupSlider, setPopupSlider = stored("popupSlider", bool, False)
    spinBoxAlignment, setSpinBoxAlignment = stored("spinBoxAlignment", int, 1)

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self._slider = QtWidgets.QSlider(QtCore.Qt.Orientation.Horizontal)
        self._slider.setRange(0, 1000)
        self._spin_box = QtWidgets.QDoubleSpinBox()
        self._spin_box.setRange(0, 99)
        self._spin_box.setMinimumWidth(80)
        row(self, self._slider, self._spin_box)
        self._layout_stretch()
        self._value = 0.0
        self._spin_box.valueChanged.connect(self.setValue)
        self._slider.sliderMoved.connect(self._on_slider_moved)

    def _layout_stretch(self) -> None:
        self.layout().setStretch(0, 1)

    def _on_slider_moved(self, position: int) -> None:
        self.setValue(self.minimum + (self.maximum - self.minimum) * position / 1000)

    def setValue(self, value: float) -> None:
        value = min(max(float(value), self.minimum), self.maximum)
        value = round(value, self._spin_box.decimals)
        if value == self._value:
            return
        self._value = value
        self._show()
        self.valueChanged.emit(value)

    def _show(self) -> None:
        for part in (self._spin_box, self._slider):
            part.blockSignals(True)
        self._spin_box.setValue(self._value)
        span = self.maximum - self.minimum
        self._slider.setValue(round(1000 * (self._value - self.minimum) / span) if span > 0 else 0)
        for part in (self._spin_box, self._slider):
            part.blockSignals(False)

    def setRange(self, minimum: float, maximum: float) -> None:
        self._spin_box.blockSignals(True)
        self._spin_box.setRange(minimum, max(minimum, maximum))
        self._spin_box.blockSignals(False)
        self.setValue(self._value)
        self._show()

    def setMinimum(self, minimum: float) -> None:
        self.setRange(minimum, self.maximum)

    def setMaximum(self, maximum: float) -> None:
        self.setRange(min(self.minimum, maximum), maximum)

    def setDecimals(self, decimals: int) -> None:
        self._spin_box.setDecimals(decimals)

    def setSingleStep(self, step: float) -> None:
        self._spin_box.setSingleStep(step)

    def setPrefix(self, prefix: str) -> None:
        self._spin_box.setPrefix(prefix)

    def setSuffix(self, suffix: str) -> None:
        self._spin_box.setSuffix(suffix)

    def setSpinBoxVisible(self, visible: bool) -> None:
        self._spin_box.setVisible(visible)

    def reset(self) -> None:
        self.setValue(0.0)

    def spinBox(self) -> QtWidgets.QDoubleSpinBox:
        return self._spin_box

    def slider(self) -> QtWidgets.QSlider:
        return self._slider

    value = QtCore.Property(float, lambda self: self._value, setValue)
    minimum = QtCore.Property(float, lambda self: self._spin_box.minimum, setMinimum)
    maximum = QtCore.Property(float, lambda self: self._spin_box.maximum, setMaximum)
    decimals = QtCore.Property(int, lambda self: self._spin_box.decimals, setDecimals)
    singleStep = QtCore.Property(float, lambda self: self._spin_box.singleStep, setSingleStep)
    prefix = QtCore.Property(str, lambda self: self._spin_box.prefix, setPrefix)
    suffix = QtCore.Property(str, lambda self: self._spin_box.suffix, setSuffix)
    spinBoxVisible = QtCore.Property(bool, lambda self: not self._spin_box.isHidden(), setSpinBoxVisible)


@wrapped
class ctkPathLineEdit(QtWidgets.QWidget):
    """An editable path with a browse button; the button answers with DIALOGS."""

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
    nameFilters, setNameFilters = stored("nameFilters", "QStringList", [])
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
        self._combo.editTextChanged.connect(self.currentPathChanged)
        self._browse.clicked.connect(lambda _checked: self.browse())

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


@wrapped
class ctkComboBox(QtWidgets.QComboBox):
    """A combo box with a text for "nothing selected" and elision."""

    defaultText, setDefaultText = stored("defaultText", str, "", "_show_default")
    elideMode, setElideMode = stored("elideMode", int, 3)
    scrollWheelEffect, setScrollWheelEffect = stored("scrollWheelEffect", int, 1)

    def _show_default(self) -> None:
        self.setPlaceholderText(self.defaultText)


@wrapped
class ctkCheckableComboBox(QtWidgets.QComboBox):
    """A combo box whose items have check marks."""

    checkedIndexesChanged = QtCore.Signal()

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self.model().rowsInserted.connect(self._make_checkable)
        self.model().itemChanged.connect(lambda _item: self.checkedIndexesChanged.emit())

    def _make_checkable(self, _parent, first: int, last: int) -> None:
        self.model().blockSignals(True)
        for index in range(first, last + 1):
            item = self.model().item(index)
            item.setFlags(item.flags() | QtCore.Qt.ItemFlag.ItemIsUserCheckable)
            item.setData(QtCore.Qt.CheckState.Unchecked, QtCore.Qt.ItemDataRole.CheckStateRole)
        self.model().blockSignals(False)

    def checkableModel(self):
        return self.model()

    def checkState(self, index) -> QtCore.Qt.CheckState:
        return self.model().itemFromIndex(index).checkState()

    def setCheckState(self, index, state) -> None:
        self.model().itemFromIndex(index).setCheckState(state)

    def checkedIndexes(self) -> list:
        indexes = [self.model().index(row, 0) for row in range(self.count)]
        return [index for index in indexes if self.checkState(index) == QtCore.Qt.CheckState.Checked]

    def allChecked(self) -> bool:
        return len(self.checkedIndexes()) == self.count

    def noneChecked(self) -> bool:
        return not self.checkedIndexes()


@wrapped
class ctkCheckBox(QtWidgets.QCheckBox):
    """A check box with an icon for its indicator."""

    indicatorIcon, setIndicatorIcon = stored("indicatorIcon", QtGui.QIcon, QtGui.QIcon())


@wrapped
class ctkPushButton(QtWidgets.QPushButton):
    """A push button with aligned text."""

    buttonTextAlignment, setButtonTextAlignment = stored("buttonTextAlignment", int, 132)
    iconAlignment, setIconAlignment = stored("iconAlignment", int, 129)


@wrapped
class ctkCheckablePushButton(ctkPushButton):
    """A push button with a check box on it."""

    checkBoxControlsButton, setCheckBoxControlsButton = stored("checkBoxControlsButton", bool, True)
    checkBoxUserCheckable, setCheckBoxUserCheckable = stored("checkBoxUserCheckable", bool, True)
    indicatorAlignment, setIndicatorAlignment = stored("indicatorAlignment", int, 129)


@wrapped
class ctkMenuButton(QtWidgets.QPushButton):
    """A push button with a separate arrow for its menu."""


@wrapped
class ctkExpandButton(QtWidgets.QToolButton):
    """An arrow that shows and hides something else."""

    mirrorOnExpand, setMirrorOnExpand = stored("mirrorOnExpand", bool, True)
    orientation, setOrientation = stored("orientation", int, 1)


@wrapped
class ctkSearchBox(QtWidgets.QLineEdit):
    """A line edit with a magnifier."""

    showSearchIcon, setShowSearchIcon = stored("showSearchIcon", bool, False)
    alwaysShowClearIcon, setAlwaysShowClearIcon = stored("alwaysShowClearIcon", bool, False)


@wrapped
class ctkFittedTextBrowser(QtWidgets.QTextBrowser):
    """A text browser as high as its text."""

    collapsed, setCollapsed = stored("collapsed", bool, True)
    collapsibleText, setCollapsibleText = stored("collapsibleText", str, "")
    showDetailsText, setShowDetailsText = stored("showDetailsText", str, "")
    hideDetailsText, setHideDetailsText = stored("hideDetailsText", str, "")


@wrapped
class ctkDoubleSpinBox(QtWidgets.QDoubleSpinBox):
    """A spin box that can show as many decimals as its value has."""

    decimalsOption, setDecimalsOption = stored("decimalsOption", int, 1)


@wrapped
class ctkDoubleSlider(ctkSliderWidget):
    """A slider of floating point values (drawn like ctkSliderWidget, without the spin box)."""

    def __init__(self, *arguments) -> None:
        super().__init__(arguments[-1] if arguments and isinstance(arguments[-1], QtWidgets.QWidget) else None)
        self.spinBox().hide()


@wrapped
class ctkRangeWidget(QtWidgets.QWidget):
    """A lower and an upper value within [minimum, maximum]."""

    valuesChanged = QtCore.Signal(float, float)
    singleStep, setSingleStep = stored("singleStep", float, 1.0)
    decimals, setDecimals = stored("decimals", int, 2)
    suffix, setSuffix = stored("suffix", str, "")
    prefix, setPrefix = stored("prefix", str, "")

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self._lower, self._upper = QtWidgets.QDoubleSpinBox(), QtWidgets.QDoubleSpinBox()
        row(self, self._lower, self._upper)
        self.setRange(0, 99)
        self.setValues(0, 99)
        for box in (self._lower, self._upper):
            box.valueChanged.connect(self._emit)

    def _emit(self, *_value) -> None:
        self.valuesChanged.emit(self._lower.value, self._upper.value)

    def setRange(self, minimum: float, maximum: float) -> None:
        for box in (self._lower, self._upper):
            box.setRange(minimum, maximum)

    def setValues(self, lower: float, upper: float) -> None:
        self._lower.setValue(lower)
        self._upper.setValue(upper)

    def setMinimumValue(self, value: float) -> None:
        self.setValues(value, self._upper.value)

    def setMaximumValue(self, value: float) -> None:
        self.setValues(self._lower.value, value)

    def setMinimum(self, value: float) -> None:
        self.setRange(value, self._upper.maximum)

    def setMaximum(self, value: float) -> None:
        self.setRange(self._lower.minimum, value)

    minimumValue = QtCore.Property(float, lambda self: self._lower.value, setMinimumValue)
    maximumValue = QtCore.Property(float, lambda self: self._upper.value, setMaximumValue)
    minimum = QtCore.Property(float, lambda self: self._lower.minimum, setMinimum)
    maximum = QtCore.Property(float, lambda self: self._lower.maximum, setMaximum)


@wrapped
class ctkDoubleRangeSlider(ctkRangeWidget):
    """A slider with two handles (drawn as two spin boxes)."""


@wrapped
class ctkColorPickerButton(QtWidgets.QPushButton):
    """A button that shows a colour and asks for another when clicked."""

    colorChanged = QtCore.Signal(QtGui.QColor)
    color, setColor = stored("color", QtGui.QColor, QtGui.QColor("black"), "_on_color")
    displayColorName, setDisplayColorName = stored("displayColorName", bool, True)

    def _on_color(self) -> None:
        pixmap = QtGui.QPixmap(14, 14)
        pixmap.fill(self.color)
        self.setIcon(QtGui.QIcon(pixmap))
        self.colorChanged.emit(self.color)


@wrapped
class ctkMessageBox(QtWidgets.QMessageBox):
    """A message box with a "don't show again" box; exec() answers with DIALOGS."""

    dontShowAgainVisible, setDontShowAgainVisible = stored("dontShowAgainVisible", bool, False)
    dontShowAgain, setDontShowAgain = stored("dontShowAgain", bool, False)
    dontShowAgainSettingsKey, setDontShowAgainSettingsKey = stored("dontShowAgainSettingsKey", str, "")
