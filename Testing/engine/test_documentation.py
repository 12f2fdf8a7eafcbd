"""Test that commands, options, imports, files and figures named in README and docs exist."""

from __future__ import annotations

import argparse
import ast
import csv
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from AnatomicalEmbedding.cli.main import build_parser

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "README.md").exists():
    pytest.skip("the pages are not part of the wheel", allow_module_level=True)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LIBRARY = ROOT / "SlicerModules"
PARSER = build_parser()
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")
_STARTS = re.compile(r"^(?:\S*anatemb|\S+ .*-m AnatomicalEmbedding) (?=[a-z])")
_SECTIONS = re.compile(r"^## ", re.MULTILINE)
_NUMBER = r"(?<![\d.]){}(?![\d.]*\d)"


def blocks_of(page: Path, *kinds: str) -> Iterator[str]:
    """Fenced code of a page."""
    for kind, code in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind in kinds:
            yield code


def commands_of(page: Path) -> Iterator[list[str]]:
    """Arguments of every anatemb command in a page's shell blocks."""
    for code in blocks_of(page, "bash", "console"):
        for line in code.replace("\\\n", " ").splitlines():
            if found := _STARTS.match(line):
                yield shlex.split(line[found.end() :], comments=True)


def mentions_of(page: Path) -> Iterator[list[str]]:
    """Words after anatemb in running text; they need not be a whole command."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    for code in _INLINE.findall(text):
        line = " ".join(code.split())
        if found := _STARTS.match(line):
            yield line[found.end() :].split()


def parser_of(words: list[str]) -> argparse.ArgumentParser | None:
    """The parser of the command that these words begin with, or None."""
    parser = PARSER
    found = None
    for word in words:
        inner = [
            action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
        ]
        if not inner or word not in inner[0].choices:
            break
        parser = found = inner[0].choices[word]
    return found


def named(pages: list[Path]) -> list:
    return [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in pages]


@pytest.mark.parametrize("page", named([page for page in PAGES if any(commands_of(page))]))
def test_commands_can_be_typed_as_written(page, capsys):
    for words in commands_of(page):
        words = (
            "\0".join(words)
            .replace("--point\0", "--point=")
            .replace("--box\0", "--box=")
            .split("\0")
        )
        try:
            PARSER.parse_args(words)
        except SystemExit:
            pytest.fail(f"anatemb {' '.join(words)}: {capsys.readouterr().err}")


@pytest.mark.parametrize("page", named([page for page in PAGES if any(mentions_of(page))]))
def test_commands_and_options_in_text_exist(page):
    for words in mentions_of(page):
        parser = parser_of(words)
        assert parser is not None, f"anatemb {' '.join(words)}: no such command"
        options = {word.split("=")[0] for word in words if word.startswith("--")}
        assert options <= set(parser._option_string_actions), f"anatemb {' '.join(words)}"


@pytest.mark.parametrize("page", named([page for page in PAGES if any(blocks_of(page, "python"))]))
def test_imports_of_python_exist(page):
    for code in blocks_of(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if not isinstance(node, ast.ImportFrom):
                continue
            names = {alias.name for alias in node.names}
            if node.module.startswith("AnatomicalEmbeddingLib"):
                source = (
                    (LIBRARY / Path(*node.module.split(".")))
                    .with_suffix(".py")
                    .read_text(encoding="utf-8")
                )
                there = {
                    each.name for each in ast.parse(source).body if isinstance(each, ast.ClassDef)
                }
                assert names <= there, node.module
            elif node.module.startswith("AnatomicalEmbedding"):
                assert all(hasattr(import_module(node.module), name) for name in names), node.module


def test_targets_of_make_exist():
    targets = set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        used = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE))
        assert used <= targets, page.name


def test_files_that_the_readme_links_to_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = {link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link}
    assert [link for link in links if link and not (ROOT / link).exists()] == []


def test_plotted_figures_stand_in_the_results():
    folder = ROOT / "Testing" / "benchmarks"
    parts = _SECTIONS.split((folder / "RESULTS.md").read_text(encoding="utf-8"))
    areas = {part.partition("\n")[0]: part for part in parts[1:]}
    with (folder / "figures.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            number = _NUMBER.format(re.escape(row["value"]))
            assert re.search(number, areas[row["area"]]), row
