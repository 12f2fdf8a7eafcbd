"""Give the PySide6 classes of this process the behaviour of PythonQt.

In 3D Slicer, a Qt property is an attribute (`button.enabled = False`, `table.rowCount`), slots and setters are methods,
signals are connected by signature (`button.connect("clicked(bool)", slot)`), and `name` is the object name. Attributes
that the C++ class does not have cannot be set, so a typing error in an attribute name raises an error.
"""

import ctypes
import functools
import sys
import types
from contextlib import contextmanager

from PySide6 import QtCore, QtGui, QtWidgets

# classes that stand for C++ classes: attributes other than their properties are refused
_wrapped: set[type] = set()
# PySide6 itself keeps the signals and slots of objects that C++ made as attributes
_SET_BY_PYSIDE = (QtCore.SignalInstance, types.BuiltinFunctionType)
_lenient = False
_CONNECTIONS = "_slicer_kit_connections"


def apply() -> None:
    """Patch every QObject class of PySide6; done once a process."""
    if "name" in vars(QtCore.QObject):
        return
    classes = _qobject_classes()
    single_shot = QtCore.QTimer.singleShot
    replacements = [
        (cls, name, _as_property(cls, name)) for cls in classes for name in _own_or_overridden(cls)
    ]
    for cls, name, replacement in replacements:
        setattr(cls, name, replacement)
    QtCore.QTimer.singleShot = staticmethod(
        lambda milliseconds, slot: single_shot(milliseconds, lambda: slot())
    )
    _keep_constants_alive()
    QtCore.QObject.name = QtCore.QObject.objectName
    QtCore.QObject.className = lambda self: next(
        cls.__name__ for cls in type(self).__mro__ if cls in _wrapped
    )
    QtCore.QObject.__getattribute__ = _getattribute_of(QtCore.QObject)
    for cls in classes:  # each has one of its own
        cls.__setattr__ = _setattr
    _compare_with_numbers(QtCore.Qt.CheckState)
    _wrapped.update(classes)


def _keep_constants_alive() -> None:
    """PySide6 6.12.0 gives None, True and False away without counting them, which ends a process of Python 3.11 after
    some thousand calls ("deallocating None"); from Python 3.12 on they need no counting."""
    if sys.version_info < (3, 12):
        for constant in (None, True, False):
            ctypes.c_ssize_t.from_address(id(constant)).value += 1 << 40


def _compare_with_numbers(kind: type) -> None:
    """PythonQt's enumerators are integers: `state == qt.Qt.Checked` holds for the 2 that stateChanged(int) sends."""
    kind.__eq__ = lambda self, other: (
        self.value == (other.value if isinstance(other, kind) else other)
    )
    kind.__hash__ = lambda self: hash(self.value)
    kind.__int__ = kind.__index__ = lambda self: self.value


def wrapped(cls: type) -> type:
    """Class decorator: this double stands for a C++ class, so only its properties and _private names can be set."""
    _wrapped.add(cls)
    return cls


@contextmanager
def lenient():
    """Context: any attribute can be set on any object (PySide6's own code does so)."""
    global _lenient
    _lenient = True
    try:
        yield
    finally:
        _lenient = False


_ACCEPTED = {
    bool: (bool, int),
    int: int,
    float: (int, float),
    str: str,
    "QStringList": (list, tuple),
}


def stored(name: str, kind, default, changed: str = ""):
    """A Qt property of a double and its setX: `text, setText = stored("text", str, "")`.

    `changed` names a method called without arguments after the value has changed.
    """

    accepted = _ACCEPTED.get(kind, object)

    def get(self):
        return self.__dict__.get(f"_stored_{name}", default)

    def put(self, value):
        if not isinstance(value, accepted):
            raise TypeError(f"{name} of {type(self).__name__} takes {kind}, not {value!r}")
        before = get(self)
        self.__dict__[f"_stored_{name}"] = value
        if changed and value != before:
            getattr(self, changed)()

    return QtCore.Property(kind, get, put), put


def _qobject_classes() -> list[type]:
    found = {}
    for module in (QtCore, QtGui, QtWidgets):
        # dir() also names classes not made yet
        for value in [getattr(module, name) for name in dir(module)]:
            if isinstance(value, type) and issubclass(value, QtCore.QObject):
                found[value] = None
    applications = (QtCore.QCoreApplication, QtGui.QGuiApplication, QtWidgets.QApplication)
    return [
        cls for cls in sorted(found, key=lambda cls: len(cls.__mro__)) if cls not in applications
    ]


def _own_or_overridden(cls: type) -> list[str]:
    """Properties that the class declares, and inherited ones whose getter it declares anew."""
    meta = cls.staticMetaObject
    names = [meta.property(index).name() for index in range(meta.propertyCount())]
    own = {
        meta.property(index).name() for index in range(meta.propertyOffset(), meta.propertyCount())
    }
    return [name for name in names if name in own or callable(vars(cls).get(name))]


def _as_property(cls: type, name: str) -> property:
    capital = name[0].upper() + name[1:]
    getter = next(
        (f for f in (getattr(cls, name, None), getattr(cls, "is" + capital, None)) if callable(f)),
        None,
    )
    setter = getattr(cls, "set" + capital, None)
    meta = cls.staticMetaObject
    writable = meta.property(meta.indexOfProperty(name)).isWritable()

    def get(self):
        return getter(self) if getter is not None else QtCore.QObject.property(self, name)

    def set_(self, value):
        if not writable:
            raise AttributeError(f"{name} of {type(self).__name__} is read-only")
        if callable(setter):
            setter(self, value)
        else:
            QtCore.QObject.setProperty(self, name, value)

    return property(get, set_)


def _getattribute_of(cls: type):
    """`__getattribute__` for a PySide6 class that looks connect and disconnect up in C++ before any class attribute."""
    plain = cls.__getattribute__
    ours = {"connect": connect, "disconnect": disconnect}

    def getattribute(self, name):
        if name not in ours:
            return plain(self, name)

        def by_signature_or_pysides_own(*arguments):
            if len(arguments) < 3 and isinstance(arguments[0], str):
                return ours[name](self, *arguments)
            # called by PySide6 itself, e.g. in QTimer.singleShot
            return plain(self, name)(*arguments)

        return by_signature_or_pysides_own

    return getattribute


def _setattr(self, name, value):
    # written out, because Python refuses to call PySide6's own __setattr__ for subclasses made in Python
    cls = type(self)
    attribute = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
    if isinstance(attribute, QtCore.Property):
        if attribute.fset is None:
            raise AttributeError(f"{name} of {cls.__name__} is read-only")
        attribute.fset(self, value)
    elif hasattr(attribute, "__set__"):
        attribute.__set__(self, value)
    elif (
        cls not in _wrapped or name.startswith("_") or isinstance(value, _SET_BY_PYSIDE) or _lenient
    ):
        self.__dict__[name] = value
    elif name.encode() in [bytes(key.data()) for key in self.dynamicPropertyNames()]:
        self.setProperty(name, value)
    else:
        raise AttributeError(
            f"{name!r} does not exist and creating new attributes on {cls.__name__} is not allowed"
        )


def connect(self, signature: str, slot) -> bool:
    """Call the slot with the arguments that the signature names, as many of them as the slot takes.

    Raises ValueError where the object has no signal of that exact signature (PythonQt only returns False).
    """
    normalized = _normalized(signature)
    named = normalized.partition("(")[2].count(",") + (not normalized.endswith("()"))
    count = min(named, _positional_arguments(slot, named))

    def forward(*values):
        return slot(*values[:count])

    doubled = getattr(type(self), "SIGNALS", {}).get(normalized)
    if doubled is not None:
        getattr(self, doubled).connect(forward)
    elif normalized in signal_signatures(type(self)):
        QtCore.QObject.connect(self, QtCore.SIGNAL(normalized), forward)
    else:
        raise ValueError(f"{type(self).__name__} {self.objectName!r} has no signal {signature}")
    self.__dict__.setdefault(_CONNECTIONS, []).append((normalized, slot, forward))
    return True


def disconnect(self, signature: str, slot=None) -> bool:
    """Undo one connect() of the same signature and slot; False where there was none."""
    normalized = _normalized(signature)
    connections = self.__dict__.get(_CONNECTIONS, [])
    for entry in reversed(connections):
        if entry[0] == normalized and (slot is None or entry[1] == slot):
            connections.remove(entry)
            doubled = getattr(type(self), "SIGNALS", {}).get(normalized)
            if doubled is not None:
                getattr(self, doubled).disconnect(entry[2])
            else:
                QtCore.QObject.disconnect(self, QtCore.SIGNAL(normalized), entry[2])
            return True
    return False


# The two below ask the class: the object's own metaObject() would take the class's with it when the object is deleted.


@functools.cache
def signal_signatures(cls: type) -> frozenset[str]:
    """Signatures of all signals of a class."""
    meta = cls.staticMetaObject
    methods = [meta.method(index) for index in range(meta.methodCount())]
    signals = [
        method for method in methods if method.methodType() == QtCore.QMetaMethod.MethodType.Signal
    ]
    return frozenset(bytes(method.methodSignature().data()).decode() for method in signals)


@functools.cache
def property_names(cls: type) -> frozenset[str]:
    """Names of all Qt properties of a class."""
    meta = cls.staticMetaObject
    return frozenset(meta.property(index).name() for index in range(meta.propertyCount()))


def _normalized(signature: str) -> str:
    return bytes(QtCore.QMetaObject.normalizedSignature(signature).data()).decode()


def _positional_arguments(slot, limit: int) -> int:
    """PythonQt counts the arguments of functions and methods only; any other callable gets them all."""
    function = slot.__func__ if isinstance(slot, types.MethodType) else slot
    # takes *args
    if not isinstance(function, types.FunctionType) or function.__code__.co_flags & 0x04:
        return limit
    return function.__code__.co_argcount - isinstance(slot, types.MethodType)
