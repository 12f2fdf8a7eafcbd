"""The panels (.ui files): classes Slicer knows, parameters that exist and can be bound, widgets that get the scene."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from .parameters import Parameter, parameters_of
from .sources import Extension

_QT = {
    *("QWidget", "QFrame", "QLabel", "QPushButton", "QToolButton", "QCheckBox", "QRadioButton", "QComboBox"),
    *("QLineEdit", "QTextEdit", "QPlainTextEdit", "QTextBrowser", "QSpinBox", "QDoubleSpinBox", "QSlider"),
    *("QProgressBar", "QGroupBox", "QTabWidget", "QStackedWidget", "QScrollArea", "QSplitter", "QListWidget"),
    *("QTableWidget", "QTreeWidget", "QTableView", "QTreeView", "QListView", "QDialogButtonBox", "QDateEdit", "Line"),
}
_CTK = {
    *("ctkCollapsibleButton", "ctkCollapsibleGroupBox", "ctkCheckBox", "ctkCheckablePushButton", "ctkComboBox"),
    *("ctkSliderWidget", "ctkDoubleSlider", "ctkDoubleSpinBox", "ctkRangeWidget", "ctkDoubleRangeSlider"),
    *("ctkPathLineEdit", "ctkDirectoryButton", "ctkColorPickerButton", "ctkMenuButton", "ctkPushButton"),
    *("ctkExpandButton", "ctkFittedTextBrowser", "ctkSearchBox", "ctkCoordinatesWidget", "ctkCheckableComboBox"),
    "ctkDynamicSpacer",
}
_MRML = {
    *("qMRMLWidget", "qMRMLNodeComboBox", "qMRMLCheckableNodeComboBox", "qMRMLSliderWidget", "qMRMLSpinBox"),
    *("qMRMLRangeWidget", "qMRMLTableView", "qMRMLCoordinatesWidget", "qMRMLSegmentSelectorWidget"),
    *("qMRMLSegmentsTableView", "qMRMLSubjectHierarchyTreeView", "qMRMLSubjectHierarchyComboBox", "qMRMLPlotWidget"),
    *("qSlicerMarkupsPlaceWidget", "qSlicerSimpleMarkupsWidget"),
}
# classes that a parameter can be bound to, exactly, and the types they show; see Slicer's guiConnectors.py
_CONNECTORS = {
    kind: types
    for kinds, types in (
        (("QCheckBox", "QPushButton", "ctkCheckBox", "ctkCheckablePushButton"), {"bool"}),
        (("QSlider", "QSpinBox"), {"int"}),
        (("QDoubleSpinBox", "ctkDoubleSpinBox", "ctkDoubleSlider", "ctkSliderWidget"), {"int", "float"}),
        (("qMRMLSliderWidget", "qMRMLSpinBox"), {"int", "float"}),
        (("QLineEdit", "QLabel", "QTextEdit"), {"str"}),
        (("ctkRangeWidget", "ctkDoubleRangeSlider", "qMRMLRangeWidget"), {"FloatRange"}),
        (("ctkPathLineEdit", "ctkDirectoryButton"), {"Path"}),
        (("ctkColorPickerButton",), {"QColor"}),
    )
    for kind in kinds
}
_CHOOSERS = {"QComboBox", "ctkComboBox"}
_WITH_CHOICE = {"str", "int", "float", "bool"}
_BOUNDED = {"QSlider", "ctkSliderWidget", "ctkDoubleSlider", "qMRMLSliderWidget"}
_SCENE = ("mrmlSceneChanged(vtkMRMLScene*)", "setMRMLScene(vtkMRMLScene*)")


def panel_problems(path: Path, parameters: Mapping[str, Parameter]) -> list[str]:
    """All that is wrong with a .ui file whose widgets are bound to `parameters`."""
    top = ElementTree.parse(path).getroot()
    widgets = list(top.iter("widget"))
    names = Counter(widget.get("name") for widget in widgets)
    problems = [f"two widgets are called {name}" for name, count in names.items() if count > 1]
    for widget in widgets:
        problems += _class_problems(widget) + _binding_problems(widget, parameters)
    problems += _scene_problems(top, widgets)
    for connection in top.iter("connection"):
        for end in ("sender", "receiver"):
            if connection.findtext(end) not in names:
                problems.append(f"a connection's {end} {connection.findtext(end)} does not exist")
    return [f"{path.name}: {problem}" for problem in problems]


def parameters_for(extension: Extension, panel: Path) -> dict[str, Parameter]:
    """Fields of the parameter nodes of the modules that load a panel, be it themselves or by a file of the library."""
    using = [source for source in extension.sources if f"{panel.stem}.ui" in source.text]
    stems = {source.module_name.rsplit("/", 1)[-1] for source in using if not source.is_module}
    modules = [module for module in extension.modules if module in using or any(stem in module.text for stem in stems)]
    return {name: field for module in modules for name, field in parameters_of(module).items()}


def _class_problems(widget: ElementTree.Element) -> list[str]:
    kind, name = widget.get("class"), widget.get("name")
    if kind in _QT | _CTK | _MRML:
        return []
    return [f"{name} is a {kind}, which Slicer may not have (if it does, add it to ui_files.py)"]


def _binding_problems(widget: ElementTree.Element, parameters: Mapping[str, Parameter]) -> list[str]:
    key = next((e.findtext("string") for e in widget.findall("property[@name='SlicerParameterName']")), None)
    if key is None:
        return []
    kind, name = widget.get("class"), widget.get("name")
    if key.split(".")[0] not in parameters:
        return [f"{name} is bound to {key}, which is no field of the parameter node"]
    if "." in key:  # a field of a parameter pack: its type is told elsewhere
        return []
    parameter = parameters[key]
    plain = parameter.type.rsplit(".", 1)[-1]
    wrong = f"{name} is a {kind} and cannot be bound to {key}, a {parameter.type}"
    if kind == "qMRMLNodeComboBox":
        return [] if parameter.is_node else [wrong]
    if kind in _CHOOSERS:  # anything that is not a plain type must be an enum
        lacks_choice = plain in _WITH_CHOICE and "Choice" not in parameter.validators
        return [f"{name}: {key} needs the annotation Choice([...])"] if lacks_choice else []
    if kind not in _CONNECTORS:
        return [f"{name} is a {kind}, which no parameter can be bound to: connect it by hand"]
    if plain not in _CONNECTORS[kind]:
        return [wrong]
    if kind in _BOUNDED and not parameter.is_bounded:
        return [f"{name}: {key} is on a slider and needs WithinRange, or Minimum and Maximum"]
    if kind == "QPushButton" and widget.findtext("property[@name='checkable']/bool") != "true":
        return [f"{name} is bound to {key} but is not checkable"]
    return []


def _scene_problems(top: ElementTree.Element, widgets: list[ElementTree.Element]) -> list[str]:
    """Widgets of MRML that no connection hands the scene: they stay empty."""
    root = top.find("widget")
    given = {
        connection.findtext("receiver")
        for connection in top.iter("connection")
        if (connection.findtext("signal"), connection.findtext("slot")) == _SCENE
        and connection.findtext("sender") == root.get("name")
    }
    below = [widget for widget in widgets if widget is not root and widget.get("class") in _MRML]
    problems = [
        f"{widget.get('name')} does not get the scene: connect mrmlSceneChanged to setMRMLScene"
        for widget in below
        if widget.get("name") not in given
    ]
    if below and root.get("class") != "qMRMLWidget":
        problems.append(f"the outermost widget is a {root.get('class')}; only a qMRMLWidget can hand on the scene")
    return problems
