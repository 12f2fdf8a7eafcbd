"""Test the sources of the extension with the checks of `static_checks`."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from stage_install import ROOT
from static_checks import Extension, Source
from static_checks.modules import class_order, empty_header, hidden_package
from static_checks.scopes import (
    application_in_logic,
    foreign_imports,
    late_application_imports,
    names_gone_from_qt,
    qt_outside_panels,
    unsigned_connections,
    work_at_import,
)

PACKAGES = {"AnatomicalEmbedding", "AnatomicalEmbeddingLib", "Resources"}
BAD = {  # check -> a file in which it must find a problem
    foreign_imports: "import torch",
    late_application_imports: "def f():\n    import qt",
    work_at_import: "if True:\n    x = 1",
    application_in_logic: "import slicer\ndef f():\n    slicer.util.errorDisplay('x')",
    names_gone_from_qt: "import qt\ndef f(dialog):\n    dialog.exec_()",
    unsigned_connections: "import qt\ndef f(b, g):\n    b.clicked.connect(g)",
}


@pytest.mark.parametrize("check", BAD)
def test_every_file_passes(extension: Extension, check: Callable[[Source], list[str]]) -> None:
    assert check(Source("AnatomicalEmbeddingLib/Sample.py", BAD[check])), "the check finds nothing"
    assert extension.sources
    assert [problem for source in extension.sources for problem in check(source)] == []


def test_only_panels_tables_forms_and_modules_import_qt(extension: Extension) -> None:
    assert qt_outside_panels(
        Source("AnatomicalEmbeddingLib/boxes/Sample.py", "def f():\n    import qt")
    )
    assert qt_outside_panels(
        Source("AnatomicalEmbeddingLib/boxes/Sample.py", "from ctk import ctkPathLineEdit")
    )
    assert not qt_outside_panels(Source("AnatomicalEmbeddingLib/boxes/SamplePanel.py", "import qt"))
    assert not qt_outside_panels(Source("Sample.py", "import qt"))
    assert [problem for source in extension.sources for problem in qt_outside_panels(source)] == []


@pytest.mark.parametrize("check", [class_order, empty_header])
def test_modules_have_slicers_form(
    extension: Extension, check: Callable[[Source], list[str]]
) -> None:
    assert check(Source("Sample.py", "class Sample:\n    pass")), "the check finds nothing"
    assert extension.modules
    assert [problem for module in extension.modules for problem in check(module)] == []


def test_no_module_hides_a_package(extension: Extension) -> None:
    assert [
        problem for module in extension.modules for problem in hidden_package(module, PACKAGES)
    ] == []


def test_logic_loads_neither_torch_nor_qt(extension: Extension, tmp_path: Path) -> None:
    names = [
        source.module_name.replace("/", ".")
        for source in extension.logic
        if not source.is_package_file
    ]
    (tmp_path / "LoadsTorch.py").write_text(
        "try:\n    import torch\nexcept ImportError:\n    torch = None\n"
    )
    assert _loaded_with(["LoadsTorch"], tmp_path, tmp_path) == {"LoadsTorch": "torch"}
    assert _loaded_with(names, ROOT / "SlicerModules", tmp_path) == {}


def _loaded_with(names: list[str], folder: Path, cwd: Path) -> dict[str, str]:
    """Import modules of a folder in a process of its own; those that asked for torch, qt or ctk, and for which."""
    script = ROOT / "Testing/extension/import_without.py"
    command = [sys.executable, script, folder, "torch,qt,ctk", *names]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())
