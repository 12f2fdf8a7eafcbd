# ruff: noqa: N802, N803 - the names are those of Slicer and Qt
"""Load .ui files with doubles of Slicer's classes. A mistake in a file raises an error; Slicer would ignore it."""

import functools
import operator
import xml.etree.ElementTree as ET

from PySide6 import QtCore, QtUiTools, QtWidgets

from slicer_kit.pythonqt import lenient, property_names

CUSTOM_CLASSES: dict[str, type] = {}


def register(*classes: type) -> None:
    """Make widget classes known to .ui files by their names."""
    CUSTOM_CLASSES.update({cls.__name__: cls for cls in classes})


class QUiLoader(QtUiTools.QUiLoader):
    """Like the original, but a property that the class does not have and a connection of a signal or slot that does
    not exist raise ValueError; more is wrong with a file by Testing/extension/static_checks."""

    def load(self, device, parent=None):
        path = device.fileName()
        tree = ET.parse(path)
        _check_widgets(tree, path)
        connections = _take_connections(tree)
        self._created: list[QtCore.QObject] = []
        buffer = QtCore.QBuffer()
        buffer.setData(ET.tostring(tree.getroot()))
        buffer.open(QtCore.QIODevice.OpenModeFlag.ReadOnly)
        with lenient():
            root = super().load(buffer, parent)
        if root is None:
            raise ValueError(f"{path}: {self.errorString()}")
        for (
            widget
        ) in self._created:  # PySide6 makes children attributes of the root, Slicer does not
            root.__dict__.pop(widget.objectName, None)
        by_name = {
            element.objectName: element for element in [root, *root.findChildren(QtCore.QObject)]
        }
        for connection in connections:
            try:
                _connect(by_name, *connection)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
        # the Python sides of the widgets live as long as the root
        root.__dict__["_slicer_kit_created"] = self._created
        return root

    def createWidget(self, className, parent=None, name=""):
        cls = _widget_class(className)
        widget = cls(parent) if parent is not None else cls()
        widget.setObjectName(name)
        self._created.append(widget)
        return widget


def _widget_class(class_name: str) -> type | None:
    if class_name in CUSTOM_CLASSES:
        return CUSTOM_CLASSES[class_name]
    return getattr(QtWidgets, "QFrame" if class_name == "Line" else class_name, None)


def _check_widgets(tree: ET.ElementTree, path: str) -> None:
    for element in tree.iter("widget"):
        name = element.get("name")
        class_name = element.get("class")
        cls = _widget_class(class_name)
        for prop in element.findall("property"):
            if prop.get("stdset") == "0" or (
                class_name == "Line" and prop.get("name") == "orientation"
            ):
                continue
            if prop.get("name") not in property_names(cls):
                raise ValueError(f"{path}: {class_name} {name} has no property {prop.get('name')}")
            if class_name in CUSTOM_CLASSES and isinstance(
                getattr(cls, prop.get("name"), None), QtCore.Property
            ):
                _as_number(cls, prop)


def _as_number(cls: type, prop: ET.Element) -> None:
    """Enumerators of our doubles are plain numbers: `ctkPathLineEdit::Dirs|ctkPathLineEdit::Readable` becomes 17."""
    for value in [element for element in prop if element.tag in ("enum", "set")]:
        numbers = [
            getattr(cls, each.strip().rpartition("::")[2]) for each in (value.text or "").split("|")
        ]
        value.tag = "number"
        value.text = str(functools.reduce(operator.or_, numbers))


def _take_connections(tree: ET.ElementTree) -> list[tuple[str, str, str, str]]:
    """Remove the connections from the file and return them as (sender, signal, receiver, slot): PySide6 cannot pass
    VTK objects through Qt's own connections."""
    taken = []
    for connections in tree.iter("connections"):
        for connection in list(connections):
            taken.append(
                tuple(connection.findtext(key) for key in ("sender", "signal", "receiver", "slot"))
            )
            connections.remove(connection)
    return taken


def _connect(by_name: dict, sender: str, signal: str, receiver: str, slot: str) -> None:
    """Honour exactly the connections that the file has: a forgotten scene connection leaves its selector empty."""
    name, _, arguments = slot.rstrip(")").partition("(")
    function = getattr(by_name[receiver], name, None)
    if not callable(function):
        raise ValueError(f"{receiver} has no slot {slot}")
    count = len(arguments.split(",")) if arguments else 0

    def forward(*values):
        function(*values[:count])

    by_name[sender].connect(signal, forward)
