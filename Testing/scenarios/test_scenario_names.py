"""Scenarios run where few can run them: here is checked that every name in them is one that there is."""

import ast
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

TESTING = Path(__file__).resolve().parents[1]
IN_SLICER, MODULES = TESTING / "in_slicer", TESTING.parent / "SlicerModules"
SCENARIOS = sorted((IN_SLICER / "scenarios").glob("*.py"))
FILES = [*SCENARIOS, *sorted((IN_SLICER / "driver").glob("*.py")), IN_SLICER / "bench.py", IN_SLICER / "pictures.py"]
ROOTS = {"driver": IN_SLICER, "AnatomicalEmbeddingLib": MODULES, "AnatomicalEmbedding": TESTING.parent}
PANELS = ("panel", "landmarks", "roi", "setup")  # what scenarios call a module's widget, and the set-up's


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def chains(path):
    """Every dotted name of a file, as ("panel", "ui", "gridButton")."""
    for node in ast.walk(tree_of(path)):
        parts = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if parts and isinstance(node, ast.Name):
            yield (node.id, *parts)


@cache
def widgets():
    """Names of all widgets in the panels."""
    files = (MODULES / "Resources" / "UI").glob("*.ui")
    return {widget.get("name") for file in files for widget in ElementTree.parse(file).getroot().iter("widget")}


def defined_in(paths):
    """Functions, classes, fields and attributes of `self` that files define."""
    found = set()
    for path in paths:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.Assign):
                found |= {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return found


@cache
def of_modules():
    return defined_in(MODULES.glob("*.py"))


@cache
def of_library():
    return defined_in((MODULES / "AnatomicalEmbeddingLib").rglob("*.py"))


def test_widgets_of_panels_exist():
    wanted = {(p.stem, c[c.index("ui") + 1]) for p in FILES for c in chains(p) if "ui" in c[:-1]}
    assert len(wanted) > 50
    assert [pair for pair in wanted if pair[1] not in widgets()] == []


def test_parts_of_panels_exist():
    wrong = []
    for path in FILES:
        for first, *rest in chains(path):
            if first in PANELS and rest[0] != "ui":
                known = rest[0] in of_modules() | of_library() and set(rest[1:2]) <= of_library() | {"ui"}
                wrong += [] if known else [f"{path.stem}: {first}.{'.'.join(rest)}"]
    assert wrong == []


def test_what_a_person_does_exists():
    person = defined_in([IN_SLICER / "driver" / "user.py", IN_SLICER / "start.py"])
    eyes = defined_in([IN_SLICER / "driver" / "views.py"])
    dialogs = defined_in([IN_SLICER / "driver" / "dialogs.py"])
    wrong = []
    for path in FILES:
        for first, *rest in chains(path):
            if first == "user":
                known = {"views": eyes, "dialogs": dialogs}.get(rest[0], set(rest[1:2]))
                if rest[0] not in person or not set(rest[1:2]) <= known:
                    wrong.append(f"{path.stem}: user.{'.'.join(rest)}")
    assert wrong == []


def test_what_is_imported_exists():
    wrong = []
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module.split(".")[0] in ROOTS:
                parts = node.module.split(".")
                folder = ROOTS[parts[0]].joinpath(*parts)
                file = folder.with_suffix(".py") if folder.with_suffix(".py").is_file() else folder / "__init__.py"
                text = file.read_text(encoding="utf-8") if file.is_file() else ""
                for each in node.names:
                    if each.name not in text and not (folder / f"{each.name}.py").is_file():
                        wrong.append(f"{path.stem}: {node.module} has no {each.name}")
    assert wrong == []


def test_names_of_qt_exist(drawing):
    QtCore = pytest.importorskip("PySide6.QtCore")  # noqa: N806
    from PySide6 import QtGui, QtWidgets

    wrong = []
    for path in FILES:
        for first, *rest in chains(path):
            if first == "qt":
                found = next((getattr(m, rest[0]) for m in (QtCore, QtGui, QtWidgets) if hasattr(m, rest[0])), None)
                if found is None or not all(hasattr(found, name) for name in rest[1:2]):
                    wrong.append(f"{path.stem}: qt.{'.'.join(rest)}")
    assert wrong == []


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_says_what_it_shows_and_runs(path):
    assert ast.get_docstring(tree_of(path))
    runs = [n for n in tree_of(path).body if isinstance(n, ast.FunctionDef) and n.name.startswith("run")]
    assert runs[0].name == "run"
    assert all([argument.arg for argument in run.args.args] == ["user"] for run in runs)
