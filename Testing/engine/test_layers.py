"""Test the architecture: allowed imports between packages, no Slicer in the engine, torch loaded only if needed."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import AnatomicalEmbedding

PACKAGE = Path(AnatomicalEmbedding.__file__).parent

# Folders and files of the engine, lowest first; each may import from those above it in this list and from itself.
LAYERS = (
    "errors", "files", "resources", "installation", "anatomy", "scan", "dicom", "phantom", "spine", "fields",
    "embedding", "matching", "structures", "training", "registration", "films", "relations", "landmarks",
    "segmentation", "words", "weights", "reports", "cohort", "audit", "followup", "evaluation", "api", "cli", "papers",
    "__main__",
)  # fmt: skip
MOST_FILES_AT_THE_ROOT = 6
NOT_IN_THE_ENGINE = {
    "slicer",
    "vtk",
    "qt",
    "ctk",
    "PythonQt",
    "PyQt5",
    "PySide6",
    "MRMLCorePython",
    "trame",
}
# What a plain installation holds; anything else may be imported where it is used only.
CORE = {"numpy", "torch", "SimpleITK", "safetensors", *sys.stdlib_module_names}


def module_of(path: Path) -> str:
    """Dotted name below the package: models.registry, phantom (for phantom/__init__.py)."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def imports_of(module: str) -> tuple[tuple[str, str], ...]:
    """(absolute name, when) of what a module imports; when: "loaded", "called" within functions, or "typing".

    Our own modules are named relative to the package with a leading dot.
    """
    return tuple(_imports(module))


def _imports(module: str) -> Iterator[tuple[str, str]]:
    path = SOURCES[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    package = [part for part in package if part]
    for node, when in _walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, when) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or "", when
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] + (node.module or "").split(".")
            base = [part for part in base if part]
            for alias in node.names:
                full = ".".join([*base, alias.name])
                yield "." + (full if full in SOURCES else ".".join(base)), when


def _walk(node: ast.AST, when: str = "loaded") -> Iterator[tuple[ast.AST, str]]:
    for child in ast.iter_child_nodes(node):
        inner = when
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            inner = "typing"
        elif (
            isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            and when == "loaded"
        ):
            inner = "called"
        yield child, inner
        yield from _walk(child, inner)


def own_imports(module: str) -> set[str]:
    """Our modules that a module imports, whenever it does."""
    return {name[1:] for name, _ in imports_of(module) if name.startswith(".")} - {module, ""}


def outside_imports(module: str, *moments: str) -> set[str]:
    """Packages of others that a module imports at these moments."""
    return {
        name.split(".")[0]
        for name, when in imports_of(module)
        if when in moments and not name.startswith(".")
    }


def layer(module: str) -> int:
    return LAYERS.index(module.split(".")[0])


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_every_file_has_its_layer():
    assert {module.split(".")[0] for module in SOURCES} - {""} == set(LAYERS)


def test_the_root_is_not_crowded():
    assert len(list(PACKAGE.glob("*.*"))) <= MOST_FILES_AT_THE_ROOT


@pytest.mark.parametrize("module", [name for name in SOURCES if name])
def test_arrows_point_down(module):
    assert [target for target in own_imports(module) if layer(target) > layer(module)] == []


def test_no_circles():
    # deferred imports and those for type checkers count as well
    TopologicalSorter({module: own_imports(module) for module in SOURCES}).prepare()


def test_only_the_command_evaluates():
    users = {
        module
        for module in SOURCES
        if any(name.startswith("evaluation") for name in own_imports(module))
    }
    assert {module for module in users if not module.startswith("evaluation")} == {"cli.evaluate"}


@pytest.mark.parametrize("module", SOURCES)
def test_nothing_of_slicer_is_in_the_engine(module):
    assert outside_imports(module, "loaded", "called", "typing") & NOT_IN_THE_ENGINE == set()


@pytest.mark.parametrize("module", SOURCES)
def test_a_plain_installation_can_import_every_module(module):
    assert outside_imports(module, "loaded") <= CORE


@pytest.mark.parametrize("module", ["", ".scan.volume", ".scan.points", ".errors", ".cli.main"])
def test_torch_is_not_loaded_by(module):
    code = f"import sys, AnatomicalEmbedding{module}; print('torch' in sys.modules)"
    assert run_python(code) == "False"


def test_help_needs_no_torch():
    code = (
        "import sys\n"
        "from AnatomicalEmbedding.cli import main\n"
        "try:\n    main(['match', '--help'])\n"
        "except SystemExit as end:\n    print(end.code, 'torch' in sys.modules)"
    )
    assert run_python(code).splitlines()[-1] == "0 False"


def test_the_public_names_are_there():
    for name in AnatomicalEmbedding.__all__:
        assert getattr(AnatomicalEmbedding, name).__name__.split(".")[-1] == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = AnatomicalEmbedding.nothing
