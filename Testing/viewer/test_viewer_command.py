"""`anatemb view` before it starts: refused options, missing packages, and its modules. Needs no trame."""

import argparse
import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from AnatomicalEmbedding.cli import main, view

VIEWER = Path(__file__).resolve().parents[2] / "SlicerModules" / "AnatomicalEmbeddingViewer"


def test_another_host_needs_a_token_and_says_why(capsys):
    assert main(["view", "--demo", "--host", "0.0.0.0", "--no-browser"]) == 2
    said = capsys.readouterr().err
    assert "--token" in said
    assert "network" in said


@pytest.mark.parametrize("token", ["short", "with spaces in it, long", "a/b/c/d/e/f/g/h/i/j"])
def test_a_weak_token_is_refused(token, capsys):
    assert main(["view", "--demo", "--host", "0.0.0.0", "--token", token]) == 2
    assert "--token" in capsys.readouterr().err


def test_a_missing_scan_or_weights_are_named(capsys):
    for words in (["nowhere.nii.gz"], ["--model", "nowhere"]):
        assert main(["view", "--no-browser", *words]) == 2
        assert f"{words[-1]}: no such" in capsys.readouterr().err


def test_without_trame_slicer_one_line_says_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setattr(view, "find_spec", lambda name: None)
    assert main(["view", "--demo"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.index("make view") < said.index("pip install")


def test_ports():
    assert view._port("0") == 0
    for text in ("-1", "65536", "http"):
        with pytest.raises(argparse.ArgumentTypeError):
            view._port(text)


def test_the_viewer_has_no_import_circle():
    """Imports inside of functions and those for type hints count too."""
    files = {path.relative_to(VIEWER).with_suffix("").parts: path for path in VIEWER.rglob("*.py")}
    imports = {}
    for name, path in files.items():
        found = imports.setdefault(name, set())
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = (*name[: -node.level], *(node.module or "").split(".")) if node.module else name[: -node.level]
                found |= {each for each in (base, *((*base, alias.name) for alias in node.names)) if each in files}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the modules
