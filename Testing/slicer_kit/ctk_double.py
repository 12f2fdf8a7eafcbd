# ruff: noqa: N801, N802, N815 - the names are those of Slicer and Qt
"""The `ctk` module: doubles of the CTK widgets that scripted modules use."""

import sys
import types

from PySide6 import QtCore, QtGui, QtWidgets

from slicer_kit.ctk_collapsible import ctkCollapsibleButton, ctkCollapsibleGroupBox  # noqa: F401 - build() finds them all
from slicer_kit.ctk_numbers import (  # noqa: F401
    ctkDoubleRangeSlider,
    ctkDoubleSlider,
    ctkDoubleSpinBox,
    ctkRangeWidget,
    ctkSliderWidget,
)
from slicer_kit.ctk_paths import ctkDirectoryButton, ctkPathLineEdit  # noqa: F401
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
