"""Typed values in a vtkMRMLScriptedModuleNode: validators, defaults and serializers of slicer.parameterNodeWrapper.

The keys are those of the original (plain values by name, nodes as an empty parameter plus a node reference of the same
name, lists as `name.len`, `name.0` ...), so that a scene saved here opens in Slicer and the other way round.
"""

import collections.abc
import enum
import pathlib
import types
import typing
from dataclasses import dataclass

import slicer

from slicer_kit.parameter_validators import Exactly, IsInstance, NotNone, Validator

NoneType = type(None)


class Default:
    """Default value of a parameter, or a function that makes one."""

    def __init__(self, value=None, *, generator=None) -> None:
        self._value, self._generator = value, generator

    @property
    def value(self):
        return self._generator() if self._generator is not None else self._value


@dataclass(frozen=True)
class FloatRange:
    """A lower and an upper value."""

    minimum: float
    maximum: float


class _Simple:
    """A value kept as the text of one parameter."""

    def __init__(self, kind, default, to_text=str, from_text=None) -> None:
        self.kind, self._default, self._to_text = kind, default, to_text
        self._from_text = from_text or kind

    def validators(self) -> list[Validator]:
        return [NotNone(), IsInstance((int, float) if self.kind is float else self.kind)]

    def default(self):
        return self._default

    def is_in(self, node, name: str) -> bool:
        return bool(node.HasParameter(name))

    def write(self, node, name: str, value) -> None:
        node.SetParameter(name, self._to_text(value))

    def read(self, node, name: str):
        return self._from_text(node.GetParameter(name))

    def remove(self, node, name: str) -> None:
        node.UnsetParameter(name)


class _Node(_Simple):
    """A node reference; the parameter of the same name says that it was set, be it to None."""

    def __init__(self, kind) -> None:
        super().__init__(kind, None)

    def validators(self) -> list[Validator]:
        return [IsInstance(self.kind)]

    def write(self, node, name: str, value) -> None:
        node.SetParameter(name, "")
        node.SetNodeReferenceID(name, value.GetID() if value is not None else None)

    def read(self, node, name: str):
        return node.GetNodeReference(name)

    def remove(self, node, name: str) -> None:
        node.UnsetParameter(name)
        node.RemoveNodeReferenceIDs(name)


class Checked:
    """A serializer with the validators of its type and of the annotation."""

    def __init__(self, serializer, validators: list[Validator]) -> None:
        self._serializer = serializer
        self._validators = serializer.validators() + validators
        self.default, self.is_in, self.remove = serializer.default, serializer.is_in, serializer.remove
        self.read = serializer.read

    def validate(self, value) -> None:
        for validator in self._validators:
            validator.validate(value)

    def write(self, node, name: str, value) -> None:
        self.validate(value)
        self._serializer.write(node, name, value)


class _List:
    """`name.len` and one entry an element. Elements that are removed nodes read as None: the list keeps its length."""

    def __init__(self, element: Checked) -> None:
        self._element = element

    def validators(self) -> list[Validator]:
        return []

    def default(self) -> list:
        return []

    def is_in(self, node, name: str) -> bool:
        return bool(node.HasParameter(f"{name}.len"))

    def _length(self, node, name: str) -> int:
        return int(node.GetParameter(f"{name}.len")) if self.is_in(node, name) else 0

    def write(self, node, name: str, values) -> None:
        values = list(values)
        for value in values:
            self._element.validate(value)
        with slicer.util.NodeModify(node):
            for index in range(len(values), self._length(node, name)):
                self._element.remove(node, f"{name}.{index}")
            for index, value in enumerate(values):
                self._element.write(node, f"{name}.{index}", value)
            node.SetParameter(f"{name}.len", str(len(values)))

    def read(self, node, name: str) -> "ObservedList":
        values = [self._element.read(node, f"{name}.{index}") for index in range(self._length(node, name))]
        return ObservedList(values, lambda changed: self.write(node, name, changed))

    def remove(self, node, name: str) -> None:
        self.write(node, name, [])
        node.UnsetParameter(f"{name}.len")


class ObservedList(collections.abc.MutableSequence):
    """A list whose changes go to the parameter node; + and * are refused, as in the original."""

    def __init__(self, values: list, save) -> None:
        self._values, self._save = values, save

    def __repr__(self) -> str:
        return f"ObservedList({self._values})"

    def __eq__(self, other) -> bool:
        return self._values == (other._values if isinstance(other, ObservedList) else other)

    __hash__ = None

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index):
        return self._values[index]

    def __setitem__(self, index, value) -> None:
        self._values[index] = value
        self._save(self._values)

    def __delitem__(self, index) -> None:
        del self._values[index]
        self._save(self._values)

    def insert(self, index, value) -> None:
        self._values.insert(index, value)
        self._save(self._values)

    def _refuse(self, _other):
        raise NotImplementedError("ObservedList has no + and *; make a list() of it first")

    __add__ = __radd__ = __mul__ = __rmul__ = _refuse


class _Tuple:
    """One entry a member."""

    def __init__(self, members: list[Checked]) -> None:
        self._members = members

    def validators(self) -> list[Validator]:
        return []

    def default(self) -> tuple:
        return tuple(member.default() for member in self._members)

    def is_in(self, node, name: str) -> bool:
        return self._members[0].is_in(node, f"{name}.0")

    def write(self, node, name: str, values) -> None:
        values = tuple(values)
        if len(values) != len(self._members):
            raise ValueError(f"{name} takes {len(self._members)} values, not {len(values)}")
        with slicer.util.NodeModify(node):
            for index, (member, value) in enumerate(zip(self._members, values, strict=True)):
                member.write(node, f"{name}.{index}", value)

    def read(self, node, name: str) -> tuple:
        return tuple(member.read(node, f"{name}.{index}") for index, member in enumerate(self._members))

    def remove(self, node, name: str) -> None:
        for index, member in enumerate(self._members):
            member.remove(node, f"{name}.{index}")


class _Dict(_List):
    """A list of (key, value); a change of the dictionary that is read goes to the node only by assigning it."""

    def default(self) -> dict:
        return {}

    def write(self, node, name: str, values) -> None:
        super().write(node, name, values.items() if isinstance(values, dict) else values)

    def read(self, node, name: str) -> types.MappingProxyType:
        return types.MappingProxyType(dict(super().read(node, name)))


class _Union:
    """The value under the index of the first alternative that takes it; None is the default of Optional."""

    def __init__(self, alternatives: list[Checked], optional: bool) -> None:
        self._alternatives, self._optional = alternatives, optional

    def validators(self) -> list[Validator]:
        return []

    def default(self):
        return None if self._optional else self._alternatives[0].default()

    def is_in(self, node, name: str) -> bool:
        return any(kind.is_in(node, f"{name}.{index}") for index, kind in enumerate(self._alternatives))

    def write(self, node, name: str, value) -> None:
        for index, kind in enumerate(self._alternatives):
            try:
                kind.validate(value)
            except (TypeError, ValueError):
                continue
            with slicer.util.NodeModify(node):
                self.remove(node, name)
                kind.write(node, f"{name}.{index}", value)
            return
        raise TypeError(f"{name} cannot take {value!r} of type {type(value)}")

    def read(self, node, name: str):
        for index, kind in enumerate(self._alternatives):
            if kind.is_in(node, f"{name}.{index}"):
                return kind.read(node, f"{name}.{index}")
        raise KeyError(name)

    def remove(self, node, name: str) -> None:
        for index, kind in enumerate(self._alternatives):
            kind.remove(node, f"{name}.{index}")


class _None(_Simple):
    """Only None."""

    def __init__(self) -> None:
        super().__init__(NoneType, None, lambda _value: "True", lambda _text: None)

    def validators(self) -> list[Validator]:
        return [Exactly(None)]


def split_annotated(hint) -> tuple[type, list]:
    """The plain type and its annotations."""
    if typing.get_origin(hint) is typing.Annotated:
        kind, *annotations = typing.get_args(hint)
        return kind, annotations
    return hint, []


def make_serializer(hint) -> Checked:
    """The serializer of an annotated type; TypeError for types that parameter nodes cannot hold."""
    kind, annotations = split_annotated(hint)
    validators = [item() if isinstance(item, type) else item for item in annotations if _is_validator(item)]
    return Checked(_plain_serializer(kind), validators)


def _is_validator(item) -> bool:
    return isinstance(item, Validator) or (isinstance(item, type) and issubclass(item, Validator))


def _plain_serializer(kind):
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        return _List(make_serializer(members[0]))
    if origin is tuple:
        return _Tuple([make_serializer(member) for member in members])
    if origin is dict:
        return _Dict(Checked(_Tuple([make_serializer(member) for member in members]), []))
    if origin in (typing.Union, types.UnionType):
        return _Union([make_serializer(member) for member in members], members[1:] == (NoneType,))
    if kind in (int, float):
        return _Simple(kind, 0)
    if kind is str:
        return _Simple(str, "")
    if kind is bool:
        return _Simple(bool, False, lambda value: "True" if value else "False", lambda text: text == "True")
    if kind is NoneType:
        return _None()
    if isinstance(kind, type) and issubclass(kind, pathlib.PurePath):
        return _Simple(kind, kind())
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _Simple(kind, next(iter(kind)), lambda value: value.name, lambda name: _enum_member(kind, name))
    if isinstance(kind, type) and issubclass(kind, slicer.vtkMRMLNode):
        return _Node(kind)
    raise TypeError(f"a parameter node cannot hold values of type {kind}")


def _enum_member(kind: type[enum.Enum], name: str) -> enum.Enum:
    if name not in kind.__members__:
        raise ValueError(f"{name!r} is in the parameter node, but it is not a name in {kind!r}")
    return kind[name]
