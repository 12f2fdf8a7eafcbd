# ruff: noqa: N802, N803 - the names are those of Slicer and Qt
"""Double of slicer.parameterNodeWrapper, as far as the modules use it: bool, int, float, str, nodes and lists of these
over a vtkMRMLScriptedModuleNode, bound to widgets.

The keys are those of the original (plain values by name, nodes as an empty parameter and a node reference of the same
name, lists as `name.len`, `name.0` ...): a scene saved here opens in Slicer and the other way round. What the
double does not know raises.
"""

import typing

import ctk
import qt
import slicer
import vtk

__all__ = ["WithinRange", "parameterNodeWrapper"]

_DEFAULTS = {bool: False, int: 0, float: 0.0, str: ""}
_SHOWN = {  # by exact class: what a widget shows, its signal, getter and setter
    qt.QCheckBox: ((bool,), "stateChanged", lambda w: w.checked, lambda w, value: w.setChecked(value)),
    qt.QSpinBox: ((int,), "valueChanged", lambda w: w.value, lambda w, value: w.setValue(value)),
    qt.QDoubleSpinBox: ((float,), "valueChanged", lambda w: w.value, lambda w, value: w.setValue(value)),
    ctk.ctkSliderWidget: ((float,), "valueChanged", lambda w: w.value, lambda w, value: w.setValue(value)),
}


class WithinRange:
    """Annotation of a number: its bounds, which the widget takes over."""

    def __init__(self, minimum, maximum) -> None:
        self.minimum, self.maximum = minimum, maximum


class _Plain:
    """A value kept as the text of a parameter."""

    def __init__(self, kind: type, limits: WithinRange | None) -> None:
        self.kind, self.limits, self.default = kind, limits, _DEFAULTS[kind]

    def check(self, value) -> None:
        if not isinstance(value, (int, float) if self.kind is float else self.kind):
            raise TypeError(f"Value must be of type {self.kind}, but {value!r} is of type {type(value)}")
        if self.limits is not None and not self.limits.minimum <= value <= self.limits.maximum:
            raise ValueError(f"Value must be within [{self.limits.minimum}, {self.limits.maximum}], is {value}")

    def is_in(self, node, name: str) -> bool:
        return bool(node.HasParameter(name))

    def write(self, node, name: str, value) -> None:
        self.check(value)
        node.SetParameter(name, str(value))

    def read(self, node, name: str):
        text = node.GetParameter(name)
        return text == "True" if self.kind is bool else self.kind(text)

    def remove(self, node, name: str) -> None:
        node.UnsetParameter(name)


class _Node(_Plain):
    """A node reference; the parameter of the same name says that it was set, be it to None."""

    def __init__(self, kind: type) -> None:
        self.kind, self.limits, self.default = kind, None, None

    def check(self, value) -> None:
        if value is not None and not isinstance(value, self.kind):
            raise TypeError(f"Value must be of type {self.kind}, but {value!r} is of type {type(value)}")

    def write(self, node, name: str, value) -> None:
        self.check(value)
        node.SetParameter(name, "")
        node.SetNodeReferenceID(name, value.GetID() if value is not None else None)

    def read(self, node, name: str):
        return node.GetNodeReference(name)

    def remove(self, node, name: str) -> None:
        node.UnsetParameter(name)
        node.RemoveNodeReferenceIDs(name)


class _List:
    """`name.len` and one entry an element. Elements that are removed nodes read as None: the list keeps its length."""

    def __init__(self, element: _Plain) -> None:
        self._element, self.default = element, []

    def is_in(self, node, name: str) -> bool:
        return bool(node.HasParameter(f"{name}.len"))

    def _length(self, node, name: str) -> int:
        return int(node.GetParameter(f"{name}.len")) if self.is_in(node, name) else 0

    def write(self, node, name: str, values) -> None:
        values = list(values)
        for value in values:
            self._element.check(value)
        with slicer.util.NodeModify(node):
            for index in range(len(values), self._length(node, name)):
                self._element.remove(node, f"{name}.{index}")
            for index, value in enumerate(values):
                self._element.write(node, f"{name}.{index}", value)
            node.SetParameter(f"{name}.len", str(len(values)))

    def read(self, node, name: str) -> tuple:
        """The original's list writes what is changed in it to the node; this one refuses to be changed."""
        return _ReadList(self._element.read(node, f"{name}.{index}") for index in range(self._length(node, name)))


class _ReadList(tuple):
    """Equal to a list of the same, as the original's; + and * are refused, as there."""

    __slots__ = ()
    __hash__ = None

    def __eq__(self, other) -> bool:
        return list(self) == list(other)

    def _refuse(self, _other):
        raise NotImplementedError("the list of a parameter node has no + and *; make a list() of it first")

    __add__ = __radd__ = __mul__ = __rmul__ = _refuse


def _serializer(hint):
    kind, *annotations = typing.get_args(hint) if typing.get_origin(hint) is typing.Annotated else (hint,)
    limits = next((each for each in annotations if isinstance(each, WithinRange)), None)
    if typing.get_origin(kind) is list:
        return _List(_serializer(typing.get_args(kind)[0]))
    if kind in _DEFAULTS:
        return _Plain(kind, limits)
    if isinstance(kind, type) and issubclass(kind, slicer.vtkMRMLNode):
        return _Node(kind)
    raise TypeError(f"the double of a parameter node cannot hold values of type {kind}")


class _Parameter:
    """One typed attribute of a wrapper class."""

    def __init__(self, name: str, hint, default) -> None:
        self.name, self.serializer = name, _serializer(hint)
        self._default = self.serializer.default if default is None else default

    def __get__(self, wrapper, cls=None):
        if wrapper is None:
            return self
        self.ensure(wrapper.parameterNode)
        return self.serializer.read(wrapper.parameterNode, self.name)

    def __set__(self, wrapper, value) -> None:
        with slicer.util.NodeModify(wrapper.parameterNode):
            self.serializer.write(wrapper.parameterNode, self.name, value)

    def ensure(self, node) -> None:
        """A value that is not there (new node, closed scene) is written with its default."""
        if not self.serializer.is_in(node, self.name):
            self.serializer.write(node, self.name, self._default)


def parameterNodeWrapper(cls):
    """Class decorator; every annotated attribute becomes a parameter."""
    hints = typing.get_type_hints(cls, include_extras=True)
    cls.allParameters = {name: _Parameter(name, hint, getattr(cls, name, None)) for name, hint in hints.items()}
    taken = sorted(set(vars(_Wrapper)) & set(hints))
    if taken:
        raise ValueError(f"Cannot use the reserved name {taken[0]!r} in a parameterNodeWrapper")
    for name, parameter in cls.allParameters.items():
        setattr(cls, name, parameter)
    for name, method in vars(_Wrapper).items():
        if callable(method):
            setattr(cls, name, method)
    return cls


class _Wrapper:
    """Methods given to every wrapper class."""

    def __init__(self, parameterNode) -> None:
        self.parameterNode = parameterNode
        self._guis: dict[int, dict[str, _Connector]] = {}
        self._next_tag, self._updating_gui = 0, False
        for parameter in self.allParameters.values():
            parameter.ensure(parameterNode)
            parameter.serializer.read(parameterNode, parameter.name)  # a stale value raises now, as in the original

    def connectParametersToGui(self, mapping: dict) -> int:
        for name in mapping:
            if name not in self.allParameters:
                known = ", ".join(self.allParameters)
                raise ValueError(f"Cannot find a parameter named {name!r}; there are {known}")
        connectors = {name: _Connector(widget, self.allParameters[name].serializer) for name, widget in mapping.items()}
        tag, self._next_tag = self._next_tag, self._next_tag + 1
        self._guis[tag] = connectors
        for name, connector in connectors.items():
            connector.write(getattr(self, name))
            connector.connect(lambda name=name, connector=connector: self._update_from_gui(name, connector))
        self.AddObserver(vtk.vtkCommand.ModifiedEvent, lambda *_event: self._update_gui())
        return tag

    def disconnectGui(self, tag: int) -> None:
        """As in Slicer the node's observer stays, and with it this wrapper, until the node is gone."""
        for connector in self._guis.pop(tag, {}).values():
            connector.disconnect()

    def _update_from_gui(self, name: str, connector) -> None:
        if not self._updating_gui:
            setattr(self, name, connector.read())

    def _update_gui(self) -> None:
        if self._updating_gui:
            return
        self._updating_gui = True
        try:
            with slicer.util.NodeModify(self.parameterNode):
                for connectors in list(self._guis.values()):
                    for name, connector in connectors.items():
                        connector.write(getattr(self, name))
        finally:
            self._updating_gui = False

    def AddObserver(self, event, callback, priority: float = 0.0):
        return self.parameterNode.AddObserver(event, callback, priority)

    def RemoveObserver(self, tag):
        return self.parameterNode.RemoveObserver(tag)


class _Connector:
    """One widget and one parameter. RuntimeError where the original has no connector for the widget's class."""

    def __init__(self, widget, serializer) -> None:
        self._widget, self._forward = widget, None
        kind = getattr(serializer, "kind", None)
        if type(widget) is slicer.qMRMLNodeComboBox and isinstance(serializer, _Node):
            widget.nodeTypes = [
                kind.__name__
            ]  # the original does so too: the parameter's type decides, not the .ui file
            self._signal, self._get = widget.currentNodeChanged, lambda w: w.currentNode()
            self._set = lambda w, value: w.setCurrentNode(value)
            return
        kinds, signal, self._get, self._set = _SHOWN.get(type(widget), ((), "", None, None))
        if kind not in kinds:
            raise RuntimeError(
                f"Unable to create a GUI connector from {kind} to {type(widget).__name__} {widget.objectName!r}: "
                "remove its SlicerParameterName and connect it by hand"
            )
        if serializer.limits is not None:
            widget.setMinimum(serializer.limits.minimum)
            widget.setMaximum(serializer.limits.maximum)
        elif type(widget) is ctk.ctkSliderWidget:
            raise RuntimeError(f"{widget.objectName}: a slider needs a bounded parameter")
        self._signal = getattr(widget, signal)

    def read(self):
        return self._get(self._widget)

    def write(self, value) -> None:
        self._set(self._widget, value)

    def connect(self, changed) -> None:
        self._forward = lambda *_values: changed()
        self._signal.connect(self._forward)

    def disconnect(self) -> None:
        self._signal.disconnect(self._forward)
