"""Test the start of `anatemb view`: wrong options, missing packages, and imports. Needs no trame."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from AnatomicalEmbedding.cli import main, view

VIEWER = Path(__file__).resolve().parents[2] / "SlicerModules" / "AnatomicalEmbeddingViewer"


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["--host", "0.0.0.0"], "--token"),
        (["--host", "0.0.0.0", "--token", "short"], "use at least 16"),
        (["--host", "0.0.0.0", "--token", "with spaces in it, long"], "use at least 16"),
        (["nowhere.nii.gz"], "nowhere.nii.gz: no such file or folder; check the path."),
        (["--model", "nowhere"], "nowhere: no such weights; give a file"),
        (["--model", "/"], "/: no such weights; give a file"),
    ],
)
def test_an_unusable_option_is_one_line_with_the_remedy(words, remedy, capsys):
    assert main(["view", "--demo", "--no-browser", *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert remedy in said


def test_without_trame_slicer_one_line_says_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setattr(view, "find_spec", lambda name: None)
    assert main(["view", "--demo"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.index("make view") < said.index("pip install")


def test_the_viewer_has_no_import_circle():
    """Imports inside of functions and those for type hints count too."""
    files = {path.relative_to(VIEWER).with_suffix("").parts: path for path in VIEWER.rglob("*.py")}
    imports = {}
    for name, path in files.items():
        found = imports.setdefault(name, set())
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = (
                    (*name[: -node.level], *(node.module or "").split("."))
                    if node.module
                    else name[: -node.level]
                )
                found |= {
                    each
                    for each in (base, *((*base, alias.name) for alias in node.names))
                    if each in files
                }
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the modules
