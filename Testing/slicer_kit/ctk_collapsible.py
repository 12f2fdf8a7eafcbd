# ruff: noqa: N801, N802, N815 - the names are those of Slicer and Qt
"""Doubles of ctkCollapsibleButton and ctkCollapsibleGroupBox: a bar that shows or hides the widgets below it."""

from PySide6 import QtCore, QtWidgets

from slicer_kit.pythonqt import stored, wrapped


class _Collapsible:
    """`collapsed` is the opposite of `checked`. Children are hidden while collapsed; one that was shown meanwhile
    appears when the widget opens again.
    """

    def _begin_open(self) -> None:
        self._hiding = False
        self.setCheckable(True)
        self.setChecked(True)
        self.toggled.connect(self._on_toggled)

    def _is_collapsed(self) -> bool:
        return not self.isChecked()

    def setCollapsed(self, collapsed: bool) -> None:
        self.setChecked(not collapsed)

    def _on_toggled(self, expanded: bool) -> None:
        self._hiding = True
        for child in self.children():
            if not isinstance(child, QtWidgets.QWidget) or child.isWindow():
                continue
            if not expanded and not child.isHidden():
                child.__dict__["_hidden_by_collapse"] = True
                child.hide()
            elif expanded and child.__dict__.pop("_hidden_by_collapse", False):
                child.show()
        self._hiding = False
        self.setMaximumHeight(16777215 if expanded else self._bar_height() + self.collapsedHeight)
        self.updateGeometry()

    def _bar_height(self) -> int:
        return self.fontMetrics().height() + 8

    def childEvent(self, event) -> None:
        if event.added() and isinstance(event.child(), QtWidgets.QWidget):
            event.child().installEventFilter(self)
        super().childEvent(event)

    def eventFilter(self, child, event) -> bool:
        if (
            event.type() == QtCore.QEvent.Type.ShowToParent
            and self._is_collapsed()
            and not self._hiding
        ):
            child.__dict__["_hidden_by_collapse"] = True
            child.hide()
        return False


@wrapped
class ctkCollapsibleButton(_Collapsible, QtWidgets.QAbstractButton):
    """A click on the bar opens and closes it."""

    contentsCollapsed = QtCore.Signal(bool)
    collapsedHeight, setCollapsedHeight = stored("collapsedHeight", int, 10, "updateGeometry")
    collapsed = QtCore.Property(bool, _Collapsible._is_collapsed, _Collapsible.setCollapsed)

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self.setSizePolicy(
            QtWidgets.QSizePolicy.Policy.Minimum, QtWidgets.QSizePolicy.Policy.Preferred
        )
        self.setContentsMargins(0, self._bar_height(), 0, 0)
        self._begin_open()
        self.toggled.connect(lambda expanded: self.contentsCollapsed.emit(not expanded))

    def sizeHint(self) -> QtCore.QSize:
        bar = QtCore.QSize(self.fontMetrics().horizontalAdvance(self.text) + 40, self._bar_height())
        if self._is_collapsed():
            return bar + QtCore.QSize(0, self.collapsedHeight)
        return bar if self.layout() is None else self.layout().totalSizeHint().expandedTo(bar)

    def minimumSizeHint(self) -> QtCore.QSize:
        collapsed = self._is_collapsed() or self.layout() is None
        return self.sizeHint() if collapsed else self.layout().totalMinimumSize()

    def hitButton(self, point) -> bool:
        return point.y() <= self._bar_height()

    def paintEvent(self, _event) -> None:
        """Nothing is drawn; Qt's base class has no drawing of its own."""


@wrapped
class ctkCollapsibleGroupBox(_Collapsible, QtWidgets.QGroupBox):
    """A group box whose title collapses it."""

    collapsedHeight, setCollapsedHeight = stored("collapsedHeight", int, 14)
    collapsed = QtCore.Property(bool, _Collapsible._is_collapsed, _Collapsible.setCollapsed)

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self._begin_open()

    def initStyleOption(self, option) -> None:
        super().initStyleOption(option)
        if self._is_collapsed():  # there is nothing to frame
            option.subControls &= ~QtWidgets.QStyle.SubControl.SC_GroupBoxFrame
