"""The architecture: arrows point down, nothing of Slicer is in the engine, and torch is loaded only when needed."""

from __future__ import annotations

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

# Lowest first; a file may import from its own layer and from those above it in this list.
LAYERS = (
    {"errors", "files", "resources", "grid_reading", "calibration"},
    {
        "volume_checks",
        "nifti_header",
        "simpleitk_bridge",
        "dicom_geometry",
        "dicom",
        "image_files",
        "image_writing",
        "volume",
        "points",
        "markups",
        "boxes",
        "cropping",
    },
    {"phantom", "working_grid", "body", "device", "models"},
    {"embedding", "slabs", "cache", "inference"},
    {
        "target_rows",
        "neighbourhood",
        "local_affine",
        "coordinate_matching",
        "descriptor_matching",
        "block_matching",
        "question",
        "second_look",
        "confidence",
        "matching",
        "template_ensemble",
        "localization",
        "margins",
        "structure_library",
        "body_affine",
        "coverage",
        "orientation",
    },
    {"registration"},
    {"pictures", "report", "box_report", "registration_report"},
    {"followup"},
    {"training", "evaluation"},
    {"cli", "__main__"},
)
# `template_map.match(points, target_map)` is the spine of the public interface: it defers to matching.
UPWARD = {("embedding", "matching")}
NOT_IN_THE_ENGINE = {"slicer", "vtk", "qt", "ctk", "PythonQt", "PyQt5", "PySide6", "MRMLCorePython", "trame"}
# What a plain installation holds; anything else may be imported where it is used only.
CORE = {"numpy", "torch", "SimpleITK", "safetensors", *sys.stdlib_module_names}


def module_of(path: Path) -> str:
    """Dotted name below the package: models.registry, phantom (for phantom/__init__.py)."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def imports_of(module: str, deferred: bool) -> tuple[str, ...]:
    """Absolute names of what a module imports: within functions when `deferred`, else when it is loaded.

    Our own modules are named relative to the package with a leading dot. Imports for type checkers only do not count.
    """
    return tuple(_imports(module, deferred))


def _imports(module: str, deferred: bool) -> Iterator[str]:
    path = SOURCES[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    package = [part for part in package if part]
    for node, inside in _walk(ast.parse(path.read_text(encoding="utf-8"))):
        if inside != deferred:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] + (node.module or "").split(".")
            base = [part for part in base if part]
            for alias in node.names:
                full = ".".join([*base, alias.name])
                yield "." + (full if full in SOURCES else ".".join(base))


def _walk(node: ast.AST, inside: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        within = inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield child, within
        yield from _walk(child, within)


def layer(module: str) -> int:
    top = module.split(".")[0]
    return next(n for n, names in enumerate(LAYERS) if top in names)


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_every_file_has_its_layer():
    tops = {module.split(".")[0] for module in SOURCES} - {""}
    listed = [name for names in LAYERS for name in names]
    assert tops == set(listed)
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("module", [name for name in SOURCES if name])
def test_arrows_point_down(module):
    wrong = [
        target
        for deferred in (False, True)
        for target in (name[1:] for name in imports_of(module, deferred) if name.startswith("."))
        if target and layer(target) > layer(module) and not (deferred and (module, target) in UPWARD)
    ]
    assert wrong == []


def test_no_circles():
    graph = {m: {n[1:] for n in imports_of(m, deferred=False) if n.startswith(".")} - {m, ""} for m in SOURCES}
    # a package's __init__ runs before its files; a file that imports a sibling does not depend on what else is there
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("module", SOURCES)
def test_nothing_of_slicer_is_in_the_engine(module):
    for deferred in (False, True):
        assert {name.split(".")[0] for name in imports_of(module, deferred)} & NOT_IN_THE_ENGINE == set()


@pytest.mark.parametrize("module", SOURCES)
def test_a_plain_installation_can_import_every_module(module):
    assert {name.split(".")[0] for name in imports_of(module, deferred=False) if not name.startswith(".")} <= CORE


@pytest.mark.parametrize("module", ["", ".volume", ".points", ".errors", ".cli.main"])
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
        assert getattr(AnatomicalEmbedding, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = AnatomicalEmbedding.nothing
