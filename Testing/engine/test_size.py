"""Test that the code stays readable: how much there is, how dense its lines are, and how many names say nothing.

The limits fall when code becomes simpler. Only an issue of the project may raise them.
"""

import ast
import io
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGINE, SLICER, TESTING = "AnatomicalEmbedding", "SlicerModules", "Testing"
# Python's tokens without layout, comments and docstrings; papers/ is not counted
MOST_TOKENS = {(ENGINE, SLICER): 411_600, (TESTING,): 310_000}
MOST_TOKENS_A_LINE = {ENGINE: 10.8, SLICER: 10.0}
MOST_VAGUE = 0.01
_VAGUE = """
found each of known held kept shown at about own given wanted made taken seen placed told asked said read left apart
back here there these those them it its one other others both all rest same so far near by to from into with what
"""
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def files_in(folder: str) -> list[Path]:
    return [
        path
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "papers" not in path.relative_to(ROOT).parts
    ]


@cache
def measure(path: Path) -> tuple[int, int]:
    """Return the tokens and the lines of code of a file."""
    text = path.read_text(encoding="utf-8")
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node) is not None
        ):
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _LAYOUT and token.start[0] not in docstrings
    ]
    return len(tokens), len({token.start[0] for token in tokens})


@pytest.mark.parametrize(("folders", "most"), MOST_TOKENS.items())
def test_there_is_not_more_code(folders, most):
    assert sum(measure(path)[0] for folder in folders for path in files_in(folder)) <= most


@pytest.mark.parametrize(("folder", "most"), MOST_TOKENS_A_LINE.items())
def test_lines_are_not_denser(folder, most):
    tokens, lines = (sum(values) for values in zip(*map(measure, files_in(folder)), strict=True))
    assert tokens / lines <= most


def test_names_say_what_a_thing_is():
    names = []
    for path in files_in(ENGINE) + files_in(SLICER):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.append((node.id, path.name))
            elif isinstance(node, ast.arg):
                names.append((node.arg, path.name))
    vague = [name for name in names if name[0] in _VAGUE.split()]
    assert len(vague) / len(names) <= MOST_VAGUE, vague
