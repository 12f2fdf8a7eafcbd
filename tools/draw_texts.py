"""Draw texts of the project at random, to judge whether a stranger understands each at the first reading.

    python tools/draw_texts.py --seed 1 [--count 60]  prints docstrings (half), messages and paragraphs (a quarter each)
    python tools/draw_texts.py --seed 1 --all         prints every text, in random order

A message is a text of an AnatomicalEmbeddingError or of a sentence that a program prints; a paragraph is from README.md
or a page of docs/.
"""

import argparse
import ast
import random
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_PRODUCT = ("AnatomicalEmbedding", "SlicerModules")
_LEAST_WORDS = 5  # shorter literals are names, not sentences
_LEAST_PARAGRAPH = 60  # characters
_SQL = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ")


def docstrings(tree: ast.Module, path: str) -> list[tuple[str, str]]:
    """Return (place, text) of every docstring; the text begins with the signature that a reader sees above it."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if text := ast.get_docstring(node):
            head = "" if isinstance(node, ast.Module) else _signature(node) + "\n"
            found.append((f"{path}:{getattr(node, 'lineno', 1)}", head + text))
    return found


def _signature(node: ast.AST) -> str:
    """Return the line with `class` or `def` above a docstring."""
    copy = ast.parse(ast.unparse(node)).body[0]
    copy.body = [ast.Pass()]
    return ast.unparse(copy).splitlines()[-2]  # after decorators, before `pass`


def messages(tree: ast.Module, path: str) -> list[tuple[str, str]]:
    """Return (place, text) of every string literal that reads as a sentence; `{...}` stands for a value."""
    own = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in own | parts:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(
                part.value if isinstance(part, ast.Constant) else "{...}" for part in node.values
            )
        else:
            continue
        if (
            len(text.split()) >= _LEAST_WORDS
            and text.rstrip()[-1:] in ".?!"
            and not text.startswith(_SQL)
        ):
            found.append((f"{path}:{node.lineno}", text))
    return found


def paragraphs(path: Path) -> list[tuple[str, str]]:
    """Return (place, text) of every paragraph of a page, without headings, code, tables and pictures."""
    found, line, in_code = [], 1, False
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        starts_in_code = in_code
        in_code ^= block.count("```") % 2 == 1
        text = block.strip()
        if len(text) >= _LEAST_PARAGRAPH and not (
            starts_in_code or "```" in text or text[0] in "#|<![:-"
        ):
            found.append((f"{path.relative_to(ROOT)}:{line}", text))
        line += block.count("\n") + 2
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    kinds: list[list[tuple[str, str]]] = [[], [], []]
    for name in listed:
        if name.endswith(".py") and name.startswith(_PRODUCT):
            tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
            kinds[0] += docstrings(tree, name)
            kinds[1] += messages(tree, name)
        elif name == "README.md" or (name.startswith("docs/") and name.endswith(".md")):
            kinds[2] += paragraphs(ROOT / name)
    draw = random.Random(options.seed)
    shares = (options.count // 2, options.count // 4, options.count // 4)
    chosen = kinds if options.all else map(draw.sample, kinds, shares)
    drawn = [text for of_kind in chosen for text in of_kind]
    draw.shuffle(drawn)
    for number, (place, text) in enumerate(drawn, 1):
        print(f"--- {number} [{place}]\n{text}\n")


if __name__ == "__main__":
    main()
