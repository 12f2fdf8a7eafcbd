"""The extension's Python sources. Each check is shown to fail on a bad sample before it is trusted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from stage_install import ROOT
from static_checks import Extension, Source
from static_checks.modules import class_order, empty_header, hidden_package
from static_checks.repository import checkout_files, shared_test_names, too_large
from static_checks.scopes import (
    application_in_logic,
    foreign_imports,
    late_application_imports,
    names_gone_from_qt,
    unsigned_connections,
    work_at_import,
)
from static_checks.texts import untranslatable, untranslated

LIB = "AnatomicalEmbeddingLib/Sample.py"
MODULE = "Sample.py"
EVERY_FILE = [
    foreign_imports,
    late_application_imports,
    work_at_import,
    application_in_logic,
    names_gone_from_qt,
    unsigned_connections,
    untranslated,
    untranslatable,
]
PACKAGES = {"AnatomicalEmbedding", "AnatomicalEmbeddingLib", "Resources"}

GOOD_MODULE = '''\
"""A sample."""
import qt
import slicer
from slicer.i18n import tr as _
from slicer.i18n import translate

class Sample(ScriptedLoadableModule):
    def __init__(self, parent):
        ScriptedLoadableModule.__init__(self, parent)
        self.parent.title = _("Sample")
        self.parent.categories = [translate("qSlicerAbstractCoreModule", "Registration")]
        self.parent.contributors = ["The developers"]
        self.parent.helpText = _("See {url}.").format(url="x")
        parent.acknowledgementText = _("Thanks.")

@parameterNodeWrapper
class SampleParameterNode:
    volume: vtkMRMLScalarVolumeNode

class SampleWidget(ScriptedLoadableModuleWidget, VTKObservationMixin):
    def setup(self):
        self.label.text = _("{n} points").format(n=3)
        self.button.connect("clicked(bool)", self.onClicked)

class SampleLogic(ScriptedLoadableModuleLogic):
    pass

class SampleTest(ScriptedLoadableModuleTest):
    pass
'''


@pytest.mark.parametrize("check", EVERY_FILE)
def test_every_file_passes(extension: Extension, check: Callable[[Source], list[str]]) -> None:
    assert extension.sources
    assert [problem for source in extension.sources for problem in check(source)] == []


@pytest.mark.parametrize("check", [*EVERY_FILE, class_order, empty_header])
def test_a_good_module_passes(check: Callable[[Source], list[str]]) -> None:
    assert check(Source(MODULE, GOOD_MODULE)) == []


@pytest.mark.parametrize(
    ("check", "name", "text"),
    [
        (foreign_imports, LIB, "import torch"),
        (foreign_imports, LIB, "from requests.adapters import X"),
        (foreign_imports, LIB, "try:\n    import pandas\nexcept ImportError:\n    pandas = None"),
        (foreign_imports, MODULE, "class Sample:\n    import skimage"),
        (late_application_imports, LIB, "def f():\n    import qt"),
        (late_application_imports, LIB, "import qt\ndef f():\n    from ctk import ctkSliderWidget"),
        (late_application_imports, LIB, "def f():\n    from slicer.i18n import tr"),
        (work_at_import, LIB, "print(1)"),
        (work_at_import, LIB, "if True:\n    x = 1"),
        (work_at_import, MODULE, '"""Text."""\nfor x in range(3):\n    pass'),
        (application_in_logic, LIB, "import slicer\ndef f():\n    return slicer.app.temporaryPath"),
        (application_in_logic, LIB, "import slicer\ndef f():\n    return slicer.modules.markups.logic()"),
        (application_in_logic, LIB, "import slicer\ndef f(scene=slicer.mrmlScene):\n    return scene"),
        (application_in_logic, LIB, "from slicer import mrmlScene"),
        (application_in_logic, LIB, "from slicer.util import mainWindow"),
        (application_in_logic, LIB, "import slicer\ndef f():\n    slicer.util.errorDisplay('x')"),
        (application_in_logic, LIB, "import slicer\nw = slicer.qMRMLWidget"),
        (application_in_logic, LIB, "import slicer\ndef f():\n    return getattr(slicer, 'app', None)"),
        (names_gone_from_qt, LIB, "import qt\nx = qt.QRegExp('a')"),
        (names_gone_from_qt, LIB, "import qt\ndef f(dialog):\n    dialog.exec_()"),
        (names_gone_from_qt, LIB, "import qt\ndef f(layout):\n    layout.setMargin(0)"),
        (unsigned_connections, LIB, "import qt\ndef f(b, g):\n    b.clicked.connect(g)"),
        (unsigned_connections, MODULE, "def f(self):\n    self.ui.timer.timeout.disconnect(self.g)"),
        (untranslated, MODULE, "def f(self):\n    self.ui.label.text = 'Ready'"),
        (untranslated, MODULE, "def f(self):\n    self.ui.label.setText('Ready')"),
        (untranslated, MODULE, "def f(self, n):\n    self.ui.label.text = f'{n} points'"),
        (untranslated, MODULE, "def f(self, n):\n    self.ui.label.toolTip = _('Ready') + ' soon'"),
        (untranslated, MODULE, "def f(self, n):\n    self.ui.label.text = _('One') if n == 1 else 'Many'"),
        (untranslated, MODULE, "def f(self, n):\n    self.ui.label.text = '{n} points'.format(n=n)"),
        (untranslated, MODULE, "def f():\n    slicer.util.errorDisplay('Failed', detailedText='Why')"),
        (untranslated, MODULE, "def f():\n    with slicer.util.tryWithErrorDisplay('Failed'):\n        pass"),
        (untranslated, MODULE, "def f(table):\n    table.setHorizontalHeaderLabels([_('Point'), 'Error'])"),
        (untranslated, LIB, "import qt\ndef f():\n    return qt.QPushButton('Apply')"),
        (untranslated, LIB, "import qt\ndef f(tabs, page):\n    tabs.addTab(page, 'Points')"),
        (untranslatable, MODULE, "def f(n):\n    return _(f'{n} points')"),
        (untranslatable, MODULE, "def f(n):\n    return _('{} points'.format(n))"),
        (untranslatable, MODULE, "def f(text):\n    return _(text)"),
        (untranslatable, MODULE, "def f(text):\n    return translate('Context', 'a' + text)"),
        (class_order, MODULE, GOOD_MODULE.replace("class SampleLogic", "class Logic")),
        (class_order, MODULE, GOOD_MODULE.replace("@parameterNodeWrapper\n", "")),
        (class_order, MODULE, GOOD_MODULE.replace("(ScriptedLoadableModuleTest)", "")),
        (class_order, MODULE, GOOD_MODULE.replace("SampleLogic", "S").replace("SampleTest", "SampleLogic")),
        (class_order, "Other.py", GOOD_MODULE),
        (empty_header, MODULE, GOOD_MODULE.replace('_("Thanks.")', '_("")')),
        (empty_header, MODULE, GOOD_MODULE.replace('["The developers"]', "[]")),
        (empty_header, MODULE, GOOD_MODULE.replace('"Registration"', '" "')),
        (empty_header, MODULE, GOOD_MODULE.replace("self.parent.title", "self.title")),
    ],
)  # fmt: skip
def test_bad_files_fail(check: Callable[[Source], list[str]], name: str, text: str) -> None:
    problems = check(Source(name, text))
    assert problems
    assert all(problem.startswith(f"{name}:") for problem in problems)


@pytest.mark.parametrize(
    ("check", "name", "text"),
    [
        (foreign_imports, LIB, "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch"),
        (foreign_imports, LIB, "def f():\n    import torch"),
        (foreign_imports, MODULE, "import SampleData"),
        (foreign_imports, LIB, "from .Signal import Signal\nfrom AnatomicalEmbedding.errors import VolumeError"),
        (work_at_import, LIB, "def main():\n    pass\nif __name__ == '__main__':\n    main()"),
        (application_in_logic, LIB, "import slicer\ndef f(v):\n    return slicer.util.arrayFromVolume(v)"),
        (application_in_logic, LIB, "import qt\nimport slicer\ndef f():\n    return slicer.app"),
        (unsigned_connections, LIB, "import qt\ndef f(b, s, g):\n    b.connect('clicked()', g)\n    s.said.connect(g)"),
        (untranslated, MODULE, "def f(self, n):\n    self.ui.label.text = f'{n:.1f} mm <b>{n}</b>'"),
        (untranslated, MODULE, "def f(box, name):\n    box.addItem(_('Automatic'), 'auto')\n    box.addItem(name)"),
        (application_in_logic, LIB, "import slicer\nfrom slicer.i18n import tr as _\nslicer.app"),
        (late_application_imports, LIB, "import slicer\ndef f():\n    import SampleData\n    return slicer.app"),
        (untranslated, LIB, "def f(node):\n    node.text = 'Ready'"),
    ],
)  # fmt: skip
def test_what_is_allowed_passes(check: Callable[[Source], list[str]], name: str, text: str) -> None:
    assert check(Source(name, text)) == []


@pytest.mark.parametrize("check", [class_order, empty_header])
def test_modules_have_slicers_form(extension: Extension, check: Callable[[Source], list[str]]) -> None:
    assert extension.modules
    assert [problem for module in extension.modules for problem in check(module)] == []


def test_no_module_hides_a_package(extension: Extension) -> None:
    assert [problem for module in extension.modules for problem in hidden_package(module, PACKAGES)] == []
    assert hidden_package(Source("AnatomicalEmbedding.py", ""), PACKAGES)


def test_logic_loads_neither_torch_nor_qt(extension: Extension, tmp_path: Path) -> None:
    names = [source.module_name.replace("/", ".") for source in extension.logic if not source.is_package_file]
    assert names
    assert _loaded_with(names, ROOT / "SlicerModules", tmp_path) == {}


def test_loading_torch_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "Late.py").write_text("def f():\n    import torch\n")
    (tmp_path / "Early.py").write_text("import AnatomicalEmbedding.embedding.inference\n")
    (tmp_path / "Hidden.py").write_text("try:\n    import torch\nexcept ImportError:\n    torch = None\n")
    found = _loaded_with(["Late", "Early", "Hidden"], tmp_path, tmp_path)
    assert found == {"Early": "torch", "Hidden": "torch"}


def _loaded_with(names: list[str], folder: Path, cwd: Path) -> dict[str, str]:
    """Import modules of a folder in a process of its own; those that asked for torch, qt or ctk, and for which."""
    script = ROOT / "Testing/extension/import_without.py"
    command = [sys.executable, script, folder, "torch,qt,ctk", *names]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


def test_the_checkout_is_small_enough_for_the_index(tmp_path: Path) -> None:
    assert too_large(_checkout()) == []
    (tmp_path / "large").write_bytes(bytes(11))
    assert too_large([tmp_path / "large"], limit=11) == []
    assert "large" in too_large([tmp_path / "large"], limit=10)[0]


def test_test_files_have_names_of_their_own(tmp_path: Path) -> None:
    files = [path for path in _checkout() if path.is_relative_to(ROOT / "Testing")]
    assert shared_test_names(files) == []
    twins = [tmp_path / "a/test_x.py", tmp_path / "b/test_x.py", tmp_path / "a/conftest.py", tmp_path / "b/conftest.py"]
    assert shared_test_names(twins) == ["2 test files are called test_x.py"]


def _checkout() -> list[Path]:
    try:
        return checkout_files(ROOT)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
