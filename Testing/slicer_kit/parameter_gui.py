"""Connections between parameters and widgets: which widget classes can show which types, and how.

The list is the original's, by exact class: a widget that is not in it (qMRMLCheckableNodeComboBox, QListWidget,
QTableWidget, QPlainTextEdit, QRadioButton, QGroupBox, subclasses of those listed ...) raises RuntimeError.
"""

import enum
import pathlib
import typing

import ctk
import qt
import slicer

from slicer_kit.parameter_types import FloatRange, split_annotated
from slicer_kit.parameter_validators import Choice, Decimals, Maximum, Minimum, RangeBounds, SingleStep, WithinRange

_BOOL_WIDGETS = {
    qt.QCheckBox: "stateChanged",
    ctk.ctkCheckBox: "stateChanged",
    qt.QPushButton: "toggled",
    ctk.ctkCheckablePushButton: "toggled",
}
_INT_WIDGETS = (qt.QSlider, qt.QSpinBox)
_NUMBER_WIDGETS = (
    qt.QDoubleSpinBox,
    ctk.ctkSliderWidget,
    ctk.ctkDoubleSlider,
    ctk.ctkDoubleSpinBox,
    slicer.qMRMLSliderWidget,
    slicer.qMRMLSpinBox,
)
_NEED_BOUNDS = (qt.QSlider, ctk.ctkSliderWidget, ctk.ctkDoubleSlider, slicer.qMRMLSliderWidget)
_COMBO_BOXES = (qt.QComboBox, ctk.ctkComboBox)
_PATH_WIDGETS = {
    ctk.ctkPathLineEdit: ("currentPathChanged", "currentPath"),
    ctk.ctkDirectoryButton: ("directoryChanged", "directory"),
}
_RANGE_WIDGETS = (ctk.ctkRangeWidget, ctk.ctkDoubleRangeSlider, slicer.qMRMLRangeWidget)


class Connector:
    """One widget and one parameter: `read` and `write` the widget's value, and a callback on change."""

    def __init__(self, widget, signal: str | None, read, write) -> None:
        self._widget, self._signal_name = widget, signal
        self.read, self.write = read, write
        self._callback = None

    def widget(self):
        return self._widget

    def on_changed(self, callback) -> None:
        """Call back on every change of the widget; None ends it."""
        if self._signal_name is None:
            return
        signal = getattr(self._widget, self._signal_name)
        if self._callback is not None:
            signal.disconnect(self._changed)
        self._callback = callback
        if callback is not None:
            signal.connect(self._changed)

    def _changed(self, *_values) -> None:
        self._callback()


def make_connector(widget, hint) -> Connector:
    """The connector of a widget for a parameter of this annotated type; RuntimeError where there is none."""
    kind, annotations = split_annotated(hint)
    cls = type(widget)
    if kind is bool and cls in _BOOL_WIDGETS:
        if not widget.checkable:
            widget.setCheckable(True)
        return Connector(widget, _BOOL_WIDGETS[cls], lambda: widget.checked, lambda value: widget.setChecked(value))
    if (kind is int and cls in _INT_WIDGETS + _NUMBER_WIDGETS) or (kind is float and cls in _NUMBER_WIDGETS):
        _set_bounds(widget, annotations)
        return Connector(widget, "valueChanged", lambda: kind(widget.value), lambda value: widget.setValue(value))
    if cls in _COMBO_BOXES and isinstance(kind, type):
        if issubclass(kind, enum.Enum):
            label = getattr(kind, "label", lambda member: member.name)
            return _combo_connector(widget, list(kind), label)
        if kind in (int, float, str, bool):
            choice = _find(annotations, Choice)
            if choice is None:
                raise RuntimeError(f"{widget.objectName}: a combo box can show a {kind.__name__} only with a Choice")
            return _combo_connector(widget, list(choice.choices), str)
    if kind is str and cls is qt.QLineEdit:
        return Connector(widget, "textChanged", lambda: widget.text, lambda value: _set_text(widget, value))
    if kind is str and cls is qt.QTextEdit:
        return Connector(widget, "textChanged", widget.toPlainText, lambda value: widget.setPlainText(value))
    if kind is str and cls is qt.QLabel:
        return Connector(widget, None, lambda: widget.text, lambda value: widget.setText(value))
    if isinstance(kind, type) and issubclass(kind, pathlib.PurePath) and cls in _PATH_WIDGETS:
        signal, name = _PATH_WIDGETS[cls]
        return Connector(
            widget, signal, lambda: kind(getattr(widget, name)), lambda value: setattr(widget, name, str(value))
        )
    if kind is FloatRange and cls in _RANGE_WIDGETS:
        return _range_connector(widget, annotations)
    node_types = _node_types(kind)
    if node_types and cls is slicer.qMRMLNodeComboBox:
        widget.nodeTypes = node_types  # the original does so too: the parameter's type decides, not the .ui file
        return Connector(widget, "currentNodeChanged", widget.currentNode, lambda value: widget.setCurrentNode(value))
    raise RuntimeError(
        f"Unable to create a GUI connector from {hint} to {cls.__name__} {widget.objectName!r}: "
        "remove its SlicerParameterName and connect it by hand"
    )


def _find(annotations: list, kind: type):
    return next((item for item in annotations if isinstance(item, kind)), None)


def _set_bounds(widget, annotations: list) -> None:
    decimals, step = _find(annotations, Decimals), _find(annotations, SingleStep)
    if decimals is not None:
        widget.decimals = decimals.value
    if step is not None:
        widget.singleStep = step.value
    both = _find(annotations, WithinRange)
    lower, upper = both or _find(annotations, Minimum), both or _find(annotations, Maximum)
    if type(widget) in _NEED_BOUNDS and (lower is None or upper is None):
        raise RuntimeError(
            f"{widget.objectName}: {type(widget).__name__} needs a bounded parameter, "
            "e.g. Annotated[float, WithinRange(0, 1)]"
        )
    whole = isinstance(widget, _INT_WIDGETS)
    widget.setMinimum(lower.minimum if lower is not None else -(2**31) if whole else float("-inf"))
    widget.setMaximum(upper.maximum if upper is not None else 2**31 - 1 if whole else float("inf"))


def _combo_connector(widget, values: list, label) -> Connector:
    widget.clear()
    widget.addItems([label(value) for value in values])

    def write(value):
        if value not in values:
            raise ValueError(f"{widget.objectName}: no item for {value!r} among {values}")
        widget.setCurrentIndex(values.index(value))

    return Connector(widget, "currentIndexChanged", lambda: values[widget.currentIndex], write)


def _set_text(line_edit, text: str) -> None:
    if line_edit.text != text:  # setting it anew would move the cursor of a user who types
        line_edit.setText(text)


def _range_connector(widget, annotations: list) -> Connector:
    bounds = _find(annotations, RangeBounds)
    if bounds is None:
        raise RuntimeError(f"{widget.objectName}: a range widget needs a parameter with RangeBounds")
    widget.setRange(bounds.minimum, bounds.maximum)
    return Connector(
        widget,
        "valuesChanged",
        lambda: FloatRange(widget.minimumValue, widget.maximumValue),
        lambda value: widget.setValues(value.minimum, value.maximum),
    )


def _node_types(kind) -> list[str]:
    """Class names of a node type or of a union of them (None aside); empty for anything else."""
    members = [member for member in typing.get_args(kind) or (kind,) if member is not type(None)]
    if all(isinstance(member, type) and issubclass(member, slicer.vtkMRMLNode) for member in members):
        return [member.__name__ for member in members]
    return []
