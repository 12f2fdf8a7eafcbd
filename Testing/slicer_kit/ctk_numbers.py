# ruff: noqa: N801, N802, N815 - the names are those of CTK and Qt
"""Doubles of the CTK widgets that hold numbers: sliders with spin boxes, ranges."""

from PySide6 import QtCore, QtWidgets

from slicer_kit.pythonqt import stored, wrapped


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
