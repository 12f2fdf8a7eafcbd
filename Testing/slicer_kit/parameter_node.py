# ruff: noqa: N802, N803 - the names are those of Slicer and Qt
"""Double of slicer.parameterNodeWrapper: typed attributes over a vtkMRMLScriptedModuleNode, bound to widgets by the
dynamic property SlicerParameterName."""

import typing

import slicer
import vtk

from slicer_kit.parameter_gui import Connector, make_connector
from slicer_kit.parameter_types import Default, FloatRange, make_serializer, split_annotated
from slicer_kit.parameter_validators import (
    Choice,
    Decimals,
    Exclude,
    Maximum,
    Minimum,
    NotNone,
    RangeBounds,
    SingleStep,
    Validator,
    WithinRange,
)

__all__ = [
    "Choice",
    "Decimals",
    "Default",
    "Exclude",
    "FloatRange",
    "Maximum",
    "Minimum",
    "NotNone",
    "RangeBounds",
    "SingleStep",
    "SlicerParameterNamePropertyName",
    "Validator",
    "WithinRange",
    "findChildWidgetForParameter",
    "isParameterNodeWrapper",
    "parameterNodeWrapper",
]

SlicerParameterNamePropertyName = "SlicerParameterName"


class _Parameter:
    """One typed attribute of a wrapper class."""

    def __init__(self, name: str, hint, default: Default | None) -> None:
        self.name, self.hint = name, hint
        self.serializer = make_serializer(hint)
        annotated = [item for item in split_annotated(hint)[1] if isinstance(item, Default)]
        self.default = default or next(iter(annotated), None) or Default(generator=self.serializer.default)

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
            self.serializer.write(node, self.name, self.default.value)


def parameterNodeWrapper(cls=None):
    """Class decorator; every annotated attribute becomes a parameter."""
    if cls is None:
        return parameterNodeWrapper
    parameters = {}
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        default = Default(getattr(cls, name)) if hasattr(cls, name) else None
        parameters[name] = _Parameter(name, hint, default)
    reserved = [name for name in vars(_Wrapper) if not name.startswith("__")]
    taken = sorted(set(reserved) & (set(vars(cls)) | set(parameters)))
    if taken:
        raise ValueError(f"Cannot use the reserved name {taken[0]!r} in a parameterNodeWrapper")
    for name, parameter in parameters.items():
        setattr(cls, name, parameter)
    for name in ["__init__", *reserved]:
        setattr(cls, name, vars(_Wrapper)[name])
    cls.allParameters = parameters
    cls.dataType = staticmethod(lambda name: _find(cls, name).hint)
    return cls


class _Wrapper:
    """Methods given to every wrapper class."""

    _is_parameter_node_wrapper = True

    def __init__(self, parameterNode) -> None:
        self.parameterNode = parameterNode
        self._guis: dict[int, dict[str, Connector]] = {}
        self._next_tag = 0
        self._updating_gui = False
        for parameter in self.allParameters.values():
            parameter.ensure(parameterNode)
            parameter.serializer.read(parameterNode, parameter.name)  # a stale value raises now, as in the original

    def getValue(self, name: str):
        return _find(self, name).__get__(self)

    def setValue(self, name: str, value) -> None:
        _find(self, name).__set__(self, value)

    def default(self, name: str) -> Default:
        return _find(self, name).default

    def isCached(self, name: str) -> bool:
        """All types that this double holds are cached by the original."""
        return _find(self, name) is not None

    def connectGui(self, gui) -> None:
        """Bind the widgets that carry SlicerParameterName. As in Slicer (issue 7547) the tag is lost on the way, so
        that disconnectGui() can do nothing about it."""
        is_widget = hasattr(gui, "findChildren")
        widgets = gui.findChildren(_widget_class()) if is_widget else list(vars(gui).values())
        named = {widget.property(SlicerParameterNamePropertyName): widget for widget in widgets}
        self.connectParametersToGui({name: widget for name, widget in named.items() if name})

    def connectParametersToGui(self, mapping: dict) -> int:
        connectors = {name: make_connector(widget, _find(self, name).hint) for name, widget in mapping.items()}
        tag, self._next_tag = self._next_tag, self._next_tag + 1
        self._guis[tag] = connectors
        for name, connector in connectors.items():
            connector.write(self.getValue(name))
            connector.on_changed(lambda name=name, connector=connector: self._update_from_gui(name, connector))
        self.AddObserver(vtk.vtkCommand.ModifiedEvent, lambda *_event: self._update_gui())
        return tag

    def disconnectGui(self, tag: int | None) -> None:
        """As in Slicer the node's observer stays, and with it this wrapper, until the node is gone."""
        for connector in self._guis.pop(tag, {}).values():
            connector.on_changed(None)

    def _update_from_gui(self, name: str, connector: Connector) -> None:
        if not self._updating_gui:
            with slicer.util.NodeModify(self):
                self.setValue(name, connector.read())

    def _update_gui(self) -> None:
        if self._updating_gui:
            return
        self._updating_gui = True
        try:
            with slicer.util.NodeModify(self):
                for connectors in list(self._guis.values()):
                    for name, connector in connectors.items():
                        connector.write(self.getValue(name))
        finally:
            self._updating_gui = False

    def StartModify(self):
        return self.parameterNode.StartModify()

    def EndModify(self, wasModified):
        return self.parameterNode.EndModify(wasModified)

    def AddObserver(self, event, callback, priority: float = 0.0):
        return self.parameterNode.AddObserver(event, callback, priority)

    def RemoveObserver(self, tag):
        return self.parameterNode.RemoveObserver(tag)

    def Modified(self) -> None:
        self.parameterNode.Modified()


def _find(wrapper, name: str) -> _Parameter:
    if name not in wrapper.allParameters:
        raise ValueError(f"Cannot find a parameter named {name!r}; there are {', '.join(wrapper.allParameters)}")
    return wrapper.allParameters[name]


def isParameterNodeWrapper(cls_or_object) -> bool:
    return getattr(cls_or_object, "_is_parameter_node_wrapper", False)


def _widget_class() -> type:
    import qt

    return qt.QWidget


def findChildWidgetForParameter(widget, parameter: str):
    """The child that carries this SlicerParameterName, or None."""
    children = widget.findChildren(_widget_class())
    return next((child for child in children if child.property(SlicerParameterNamePropertyName) == parameter), None)
