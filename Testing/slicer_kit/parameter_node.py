# ruff: noqa: N802, N803 - the names are those of Slicer and Qt
"""Double of slicer.parameterNodeWrapper for values of the types bool, int, float, str, nodes, and lists of these.

The values are stored in a vtkMRMLScriptedModuleNode and connected to widgets. The keys are those of the original (plain
values by name, nodes as an empty parameter and a node reference of the same name, lists as `name.len`, `name.0` ...).
So 3D Slicer can open a scene that was saved here, and the double can open a scene of 3D Slicer. As in the original,
values are read from the node only when the node reports a change. Other types raise TypeError.
"""

import typing
import weakref

import qt
import slicer
import vtk

__all__ = ["WithinRange", "parameterNodeWrapper"]

_DEFAULTS = {bool: False, int: 0, float: 0.0, str: ""}
_NUMBERS = {int: qt.QSpinBox, float: qt.QDoubleSpinBox}
_RESERVED = "allParameters default isCached dataType getValue setValue connectGui connectParametersToGui disconnectGui"


class WithinRange:
    """Annotation of a number: its bounds, which the widget takes over."""

    def __init__(self, minimum, maximum) -> None:
        self.minimum = minimum
        self.maximum = maximum


class _ReadList(tuple):
    """Equal to a list of the same. The original writes what is changed in it to the node, this one refuses to be
    changed; + and * are refused there too."""

    __slots__ = ()
    __hash__ = None

    def __eq__(self, other) -> bool:
        return list(self) == list(other)

    def _refuse(self, _other):
        raise NotImplementedError(
            "the list of a parameter node has no + and *; make a list() of it first"
        )

    __add__ = __radd__ = __mul__ = __rmul__ = _refuse


class _Parameter:
    """One typed attribute of a wrapper class, and how a node keeps it."""

    def __init__(self, name: str, hint, default) -> None:
        kind, *annotations = (
            typing.get_args(hint) if typing.get_origin(hint) is typing.Annotated else (hint,)
        )
        self.name = name
        self.is_list = typing.get_origin(kind) is list
        self.kind = typing.get_args(kind)[0] if self.is_list else kind
        self.is_node = isinstance(self.kind, type) and issubclass(self.kind, slicer.vtkMRMLNode)
        if not self.is_node and self.kind not in _DEFAULTS:
            raise TypeError(f"the double of a parameter node cannot hold values of type {kind}")
        self.limits = next((each for each in annotations if isinstance(each, WithinRange)), None)
        self.default = (
            default if default is not None else [] if self.is_list else _DEFAULTS.get(self.kind)
        )

    def __get__(self, wrapper, cls=None):
        return self if wrapper is None else wrapper._values[self.name]

    def __set__(self, wrapper, value) -> None:
        with slicer.util.NodeModify(wrapper.parameterNode):
            self.write(wrapper.parameterNode, value)
            wrapper._values[self.name] = self.read(wrapper.parameterNode)

    def read(self, node):
        """The value; a node that has none (new, or its scene was closed) gets the default."""
        if not node.HasParameter(f"{self.name}.len" if self.is_list else self.name):
            self.write(node, self.default)
        if not self.is_list:
            return self._read_one(node, self.name)
        # nodes that are gone are None: the list keeps its length
        count = int(node.GetParameter(f"{self.name}.len"))
        return _ReadList(self._read_one(node, f"{self.name}.{n}") for n in range(count))

    def write(self, node, value) -> None:
        values = value if self.is_list else [value]
        for each in values:
            self._check(each)
        if not self.is_list:
            self._write_one(node, self.name, value)
            return
        for n in range(len(values), int(node.GetParameter(f"{self.name}.len") or 0)):
            node.UnsetParameter(f"{self.name}.{n}")
            node.RemoveNodeReferenceIDs(f"{self.name}.{n}")
        for n, each in enumerate(values):
            self._write_one(node, f"{self.name}.{n}", each)
        node.SetParameter(f"{self.name}.len", str(len(values)))

    def _check(self, value) -> None:
        wanted = (int, float) if self.kind is float else self.kind
        if not isinstance(value, wanted) and not (self.is_node and value is None):
            raise TypeError(
                f"Value must be of type {self.kind}, but {value!r} is of type {type(value)}"
            )
        if self.limits is not None and not self.limits.minimum <= value <= self.limits.maximum:
            raise ValueError(
                f"Value must be within [{self.limits.minimum}, {self.limits.maximum}], is {value}"
            )

    def _read_one(self, node, key: str):
        if self.is_node:
            return node.GetNodeReference(key)
        return (
            node.GetParameter(key) == "True"
            if self.kind is bool
            else self.kind(node.GetParameter(key))
        )

    def _write_one(self, node, key: str, value) -> None:
        # that it is there says that it was set, be it None
        node.SetParameter(key, "" if self.is_node else str(value))
        if self.is_node:
            node.SetNodeReferenceID(key, value.GetID() if value is not None else None)

    def connector(self, widget) -> tuple:
        """Signal, getter and setter of a widget. RuntimeError where the original has no connector for its class."""
        if self.is_node and not self.is_list and type(widget) is slicer.qMRMLNodeComboBox:
            # in the original too the type decides, not the .ui file
            widget.nodeTypes = [self.kind.__name__]
            return widget.currentNodeChanged, widget.currentNode, widget.setCurrentNode
        if self.kind is bool and type(widget) is qt.QCheckBox:
            return widget.stateChanged, lambda: widget.checked, widget.setChecked
        if type(widget) is not _NUMBERS.get(self.kind) or self.limits is None:
            raise RuntimeError(
                f"Unable to create a GUI connector from {self.kind} to {type(widget).__name__} {widget.objectName!r}: "
                "remove its SlicerParameterName and connect it by hand, or give a number its bounds"
            )
        widget.minimum = self.limits.minimum
        widget.maximum = self.limits.maximum
        return widget.valueChanged, lambda: widget.value, widget.setValue


def parameterNodeWrapper(cls):
    """Class decorator; every annotated attribute becomes a parameter."""
    hints = typing.get_type_hints(cls, include_extras=True)
    for name in _RESERVED.split():
        if name in hints:
            raise ValueError(f"Cannot use reserved name {name!r} in a parameterNodeWrapper")
    cls.allParameters = {
        name: _Parameter(name, hint, getattr(cls, name, None)) for name, hint in hints.items()
    }
    for name, member in (
        cls.allParameters | {k: v for k, v in vars(_Wrapper).items() if callable(v)}
    ).items():
        setattr(cls, name, member)
    return cls


class _Wrapper:
    """Methods given to every wrapper class."""

    def __init__(self, parameterNode) -> None:
        self.parameterNode = parameterNode
        self._values = {}
        self._guis: dict[
            int, tuple[dict, int]
        ] = {}  # by tag: connectors by parameter, and the observer
        self._next_tag = 0
        self._updating_gui = False
        me = weakref.ref(self)
        # one each: VTK calls the first observer of a node last, so its value is old
        for name in self.allParameters:
            self._read(name)
            tag = parameterNode.AddObserver(
                vtk.vtkCommand.ModifiedEvent, lambda *_event, name=name: me()._read(name)
            )
            weakref.finalize(self, parameterNode.RemoveObserver, tag)

    def _read(self, name: str) -> None:
        self._values[name] = self.allParameters[name].read(self.parameterNode)

    def connectGui(self, gui) -> int:
        named = {widget.property("SlicerParameterName"): widget for widget in vars(gui).values()}
        unknown = sorted(name for name in named if name and name not in self.allParameters)
        if unknown:
            raise ValueError(f"Cannot find a param with the given name: {unknown[0]}")
        connectors = {
            name: self.allParameters[name].connector(widget)
            for name, widget in named.items()
            if name
        }
        slots = {}
        for name, (signal, getter, setter) in connectors.items():
            setter(getattr(self, name))
            slots[name] = lambda *_values, name=name, getter=getter: self._update_from_gui(
                name, getter
            )
            signal.connect(slots[name])
        observer = self.parameterNode.AddObserver(
            vtk.vtkCommand.ModifiedEvent, lambda *_event: self._update_gui()
        )
        tag = self._next_tag
        self._next_tag = self._next_tag + 1
        self._guis[tag] = {name: (*connectors[name], slots[name]) for name in connectors}, observer
        return tag

    def disconnectGui(self, tag: int) -> None:
        connectors, observer = self._guis.pop(tag)
        for signal, _getter, _setter, slot in connectors.values():
            signal.disconnect(slot)
        self.parameterNode.RemoveObserver(observer)

    def _update_from_gui(self, name: str, getter) -> None:
        if not self._updating_gui:
            setattr(self, name, getter())

    def _update_gui(self) -> None:
        if self._updating_gui:
            return
        self._updating_gui = True
        try:
            with slicer.util.NodeModify(self.parameterNode):
                for connectors, _observer in list(self._guis.values()):
                    for name, (_signal, _getter, setter, _slot) in connectors.items():
                        setter(getattr(self, name))
        finally:
            self._updating_gui = False
