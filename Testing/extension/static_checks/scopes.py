"""Check imports, code at file scope, what logic files use, and Qt names that Qt 5 or Qt 6 does not have."""

import ast
import sys

from .sources import Source, at_file_scope, imports, in_application

_ALLOWED = {
    *("slicer", "vtk", "numpy", "scipy", "SimpleITK", "qt", "ctk", "SampleData", "DICOMLib"),
    *("AnatomicalEmbedding", "AnatomicalEmbeddingLib", ""),  # "": relative ones
}
_MAY_COME_LATE = ("SampleData", "DICOMLib", "slicer.packaging")
_APPLICATION = {"app", "modules", "mrmlScene"}
# functions of slicer.util that need slicer.app or qt
_UTIL_OF_APPLICATION = {
    "errorDisplay",
    "warningDisplay",
    "infoDisplay",
    "messageBox",
    "confirmOkCancelDisplay",
    "confirmYesNoDisplay",
    "confirmRetryCloseDisplay",
    "createProgressDialog",
    "delayDisplay",
    "showStatusMessage",
    "mainWindow",
    "loadVolume",
    "loadMarkups",
    "loadSegmentation",
    "loadScene",
    "loadNodeFromFile",
    "saveNode",
    "saveScene",
    "exportNode",
    "getModuleLogic",
    "getModuleWidget",
    "modulePath",
    "moduleNames",
    "selectModule",
    "loadUI",
    "resetSliceViews",
    "settingsValue",
    "tempDirectory",
    "launchConsoleProcess",
    "pip_install",
    "restart",
}
_GONE = {
    "QRegExp": "use QRegularExpression",
    "QRegExpValidator": "use QRegularExpressionValidator",
    "QTextCodec": "Qt 6 has none",
    "QDesktopWidget": "use QScreen",
    "setMargin": "use setContentsMargins",
    "exec_": "use exec",
}
_QT_SIGNALS = {
    "clicked",
    "toggled",
    "triggered",
    "pressed",
    "released",
    "timeout",
    "valueChanged",
    "textChanged",
    "textEdited",
    "editingFinished",
    "returnPressed",
    "currentIndexChanged",
    "currentNodeChanged",
    "activated",
    "itemChanged",
    "itemSelectionChanged",
    "cellClicked",
    "cellDoubleClicked",
    "checkedNodesChanged",
    "destroyed",
    "contentsCollapsed",
    "stateChanged",
    "currentPathChanged",
    "directoryChanged",
    "customContextMenuRequested",
}


def foreign_imports(source: Source) -> list[str]:
    """Imports at file scope beyond the standard library and what Slicer brings."""
    allowed = sys.stdlib_module_names | _ALLOWED
    return [
        source.at(
            node, f"{name} is imported at file scope: import it in the function that needs it"
        )
        for node, name in imports(at_file_scope(source.tree))
        if name.split(".")[0] not in allowed
    ]


def late_application_imports(source: Source) -> list[str]:
    """Parts of the application imported inside of functions: whether a file is logic must be seen from its head. Those
    that a Slicer may lack, or that load much, are excepted.
    """
    early = {id(node) for node in at_file_scope(source.tree)}
    return [
        source.at(
            node,
            f"{name} is imported in a function: import it at file scope, or keep the file free of it",
        )
        for node, name in imports(ast.walk(source.tree))
        if in_application(name) and not name.startswith(_MAY_COME_LATE) and id(node) not in early
    ]


def work_at_import(source: Source) -> list[str]:
    """Statements at file scope that do something. The library's start-up, which finds the engine, may."""
    if source.name == "AnatomicalEmbeddingLib/__init__.py":
        return []
    docstring = source.tree.body[:1] if ast.get_docstring(source.tree) else []
    quiet = (
        ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.FunctionDef | ast.ClassDef
    )
    scope = set(map(id, at_file_scope(source.tree)))
    return [
        source.at(node, "runs at import: move it into a function")
        for node in source.tree.body
        if not isinstance(node, quiet) and node not in docstring and id(node) in scope
    ]


def application_in_logic(source: Source) -> list[str]:
    """Uses of the application in a file that imports nothing of it."""
    if not source.is_logic:
        return []
    problems = []
    for node in ast.walk(source.tree):
        used = None
        if isinstance(node, ast.Attribute):
            used = _application_part(ast.unparse(node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            used = next(
                filter(None, (_application_part(name) for _, name in imports([node]))), None
            )
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr"):
            used = _application_part(
                ".".join(ast.unparse(argument).strip("'") for argument in node.args[:2])
            )
        if used:
            problems.append(
                source.at(node, f"logic uses {used}: pass the scene or nodes as arguments")
            )
    return problems


def _application_part(dotted: str) -> str | None:
    """The application's part of a dotted name, None where it has none."""
    parts = dotted.split(".")
    if in_application(dotted):
        return dotted
    if (
        len(parts) == 2
        and parts[0] == "slicer"
        and (parts[1] in _APPLICATION or parts[1].startswith(("qMRML", "qSlicer")))
    ):
        return dotted
    if len(parts) == 3 and parts[:2] == ["slicer", "util"] and parts[2] in _UTIL_OF_APPLICATION:
        return dotted
    return None


def names_gone_from_qt(source: Source) -> list[str]:
    return [
        source.at(node, f"{node.attr} is not in both Qt 5.15 and Qt 6: {_GONE[node.attr]}")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and node.attr in _GONE
    ]


def unsigned_connections(source: Source) -> list[str]:
    """Qt signals connected as attributes: PythonQt cannot tell the overloads of a signal apart by its name alone."""
    return [
        source.at(node, f'write connect("{node.func.value.attr}(...)", slot)')
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("connect", "disconnect")
        and isinstance(node.func.value, ast.Attribute)
        and node.func.value.attr in _QT_SIGNALS
    ]


def qt_outside_panels(source: Source) -> list[str]:
    """Imports of Qt in a file whose name does not say that it is a panel: only *Panel.py, *Table.py, *Form.py and
    modules may.
    """
    if source.is_module or source.name.endswith(("Panel.py", "Table.py", "Form.py")):
        return []
    return [
        source.at(
            node,
            f"imports {name}: call the file *Panel.py, *Table.py or *Form.py, or keep it free of Qt",
        )
        for node, name in imports(ast.walk(source.tree))
        if name.split(".")[0] in ("qt", "ctk")
    ]
