# ruff: noqa: N801, N802, N815 - the names are those of Slicer and Qt
"""Doubles of ctkCollapsibleButton and ctkCollapsibleGroupBox: a bar with a triangle that hides what is under it."""

from PySide6 import QtCore, QtGui, QtWidgets

from slicer_kit.pythonqt import stored, wrapped

_BAR = QtGui.QColor("#e4e6e9")
_BAR_EDGE = QtGui.QColor("#c3c7cc")


class _HidesChildren:
    """Children are hidden while collapsed; one that was shown meanwhile appears when the widget opens again."""

    def _hide_or_show_children(self, collapsed: bool) -> None:
        self._hiding = True
        for child in self.children():
            if not isinstance(child, QtWidgets.QWidget) or child.isWindow():
                continue
            if collapsed and not child.isHidden():
                child.__dict__["_hidden_by_collapse"] = True
                child.hide()
            elif not collapsed and child.__dict__.pop("_hidden_by_collapse", False):
                child.show()
        self._hiding = False

    def childEvent(self, event) -> None:
        child = event.child()
        if event.added() and isinstance(child, QtWidgets.QWidget):
            child.installEventFilter(self)
        super().childEvent(event)

    def eventFilter(self, child, event) -> bool:
        if event.type() == QtCore.QEvent.Type.ShowToParent and self._is_collapsed() and not self._hiding:
            child.__dict__["_hidden_by_collapse"] = True
            child.hide()
        return False


@wrapped
class ctkCollapsibleButton(_HidesChildren, QtWidgets.QAbstractButton):
    """`collapsed` is the opposite of `checked`; a click on the bar toggles both."""

    contentsCollapsed = QtCore.Signal(bool)
    collapsedHeight, setCollapsedHeight = stored("collapsedHeight", int, 10, "updateGeometry")

    def __init__(self, text="", parent=None) -> None:
        if not isinstance(text, str):
            text, parent = "", text
        super().__init__(parent)
        self._hiding = False
        self.setText(text)
        self.setCheckable(True)
        self.setChecked(True)
        self.setSizePolicy(QtWidgets.QSizePolicy.Policy.Minimum, QtWidgets.QSizePolicy.Policy.Preferred)
        self.setContentsMargins(0, self._bar_height(), 0, 0)
        self.toggled.connect(self._on_toggled)

    def _is_collapsed(self) -> bool:
        return not self.isChecked()

    def setCollapsed(self, collapsed: bool) -> None:
        self.setChecked(not collapsed)

    collapsed = QtCore.Property(bool, _is_collapsed, setCollapsed)

    def _on_toggled(self, expanded: bool) -> None:
        self._hide_or_show_children(not expanded)
        self.setMaximumHeight(16777215 if expanded else self._bar_height() + self.collapsedHeight)
        self.updateGeometry()
        self.contentsCollapsed.emit(not expanded)

    def _bar_height(self) -> int:
        return self.fontMetrics().height() + 8

    def sizeHint(self) -> QtCore.QSize:
        bar = QtCore.QSize(self.fontMetrics().horizontalAdvance(self.text) + 40, self._bar_height())
        if self._is_collapsed():
            return bar + QtCore.QSize(0, self.collapsedHeight)
        contents = self.layout().totalSizeHint() if self.layout() is not None else bar
        return contents.expandedTo(bar)

    def minimumSizeHint(self) -> QtCore.QSize:
        if self._is_collapsed() or self.layout() is None:
            return self.sizeHint()
        return self.layout().totalMinimumSize()

    def hitButton(self, point) -> bool:
        return point.y() <= self._bar_height()

    def paintEvent(self, _event) -> None:
        painter = QtGui.QPainter(self)
        painter.setRenderHint(QtGui.QPainter.RenderHint.Antialiasing)
        bar = QtCore.QRectF(0.5, 0.5, QtWidgets.QWidget.width.fget(self) - 1, self._bar_height() - 1)
        painter.setPen(QtGui.QPen(_BAR_EDGE))
        painter.setBrush(_BAR)
        painter.drawRoundedRect(bar, 3, 3)
        center = QtCore.QPointF(14, bar.center().y())
        shape = [(-3, -4.5), (-3, 4.5), (4, 0)] if self._is_collapsed() else [(-4.5, -3), (4.5, -3), (0, 4)]
        painter.setPen(QtCore.Qt.PenStyle.NoPen)
        painter.setBrush(QtGui.QColor("#505860"))
        painter.drawPolygon(QtGui.QPolygonF([center + QtCore.QPointF(x, y) for x, y in shape]))
        painter.setPen(self.palette.color(QtGui.QPalette.ColorRole.WindowText))
        painter.drawText(bar.adjusted(28, 0, -6, 0), QtCore.Qt.AlignmentFlag.AlignVCenter, self.text)
        painter.end()


@wrapped
class ctkCollapsibleGroupBox(_HidesChildren, QtWidgets.QGroupBox):
    """A group box whose title collapses it."""

    collapsedHeight, setCollapsedHeight = stored("collapsedHeight", int, 14)

    def __init__(self, title="", parent=None) -> None:
        if not isinstance(title, str):
            title, parent = "", title
        super().__init__(title, parent)
        self._hiding = False
        self.setCheckable(True)
        self.setChecked(True)
        self.toggled.connect(self._on_toggled)

    def _on_toggled(self, expanded: bool) -> None:
        self._hide_or_show_children(not expanded)
        self.setMaximumHeight(16777215 if expanded else self.fontMetrics().height() + self.collapsedHeight)
        self.updateGeometry()

    def paintEvent(self, event) -> None:
        if not self._is_collapsed():
            super().paintEvent(event)
            return
        option = QtWidgets.QStyleOptionGroupBox()
        self.initStyleOption(option)
        option.subControls &= ~QtWidgets.QStyle.SubControl.SC_GroupBoxFrame  # there is nothing to frame
        painter = QtWidgets.QStylePainter(self)
        painter.drawComplexControl(QtWidgets.QStyle.ComplexControl.CC_GroupBox, option)
        painter.end()

    def _is_collapsed(self) -> bool:
        return not self.isChecked()

    def setCollapsed(self, collapsed: bool) -> None:
        self.setChecked(not collapsed)

    collapsed = QtCore.Property(bool, _is_collapsed, setCollapsed)
