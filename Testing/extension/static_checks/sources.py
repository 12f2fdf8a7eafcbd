"""Find and parse the source files of the extension."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

LIBRARY = "AnatomicalEmbeddingLib"
# what only the application has: a file that imports one of these is no logic
APPLICATION_PACKAGES = {
    "qt",
    "ctk",
    "SampleData",
    "DICOMLib",
    "slicer.i18n",
    "slicer.packaging",
    "slicer.cli",
    "slicer.testing",
    "slicer.ScriptedLoadableModule",
    "slicer.parameterNodeWrapper",
}


@dataclass(frozen=True)
class Source:
    """A Python file. name: relative to SlicerModules."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.name)

    @property
    def is_module(self) -> bool:
        """Slicer takes every Python file directly in SlicerModules for a module."""
        return "/" not in self.name

    @property
    def is_package_file(self) -> bool:
        return self.name.endswith("/__init__.py")

    @property
    def module_name(self) -> str:
        return self.name.removesuffix(".py")

    @cached_property
    def is_logic(self) -> bool:
        """Runs without the application: no module, no part that all panels share, and imports nothing of it."""
        if self.is_module or self.name.startswith(f"{LIBRARY}/shared/panels/"):
            return False
        return not any(in_application(name) for _, name in imports(ast.walk(self.tree)))

    def at(self, node: ast.AST, problem: str) -> str:
        return f"{self.name}:{node.lineno}: {problem}"


@dataclass(frozen=True)
class Extension:
    """The folder SlicerModules."""

    folder: Path

    @cached_property
    def sources(self) -> list[Source]:
        paths = [*self.folder.glob("*.py"), *self.folder.glob(f"{LIBRARY}/**/*.py")]
        return [
            Source(path.relative_to(self.folder).as_posix(), path.read_text())
            for path in sorted(paths)
        ]

    @property
    def modules(self) -> list[Source]:
        return [source for source in self.sources if source.is_module]

    @property
    def logic(self) -> list[Source]:
        return [source for source in self.sources if source.is_logic]

    @property
    def panels(self) -> list[Path]:
        """The .ui files."""
        return sorted(self.folder.glob("Resources/UI/*.ui"))


def imports(nodes: Iterator[ast.AST]) -> Iterator[tuple[ast.AST, str]]:
    """The import statements among nodes, with each dotted name that is imported; "." for relative ones."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (
                (node, "." if node.level else f"{node.module}.{alias.name}") for alias in node.names
            )


def in_application(name: str) -> bool:
    """Is a dotted name, or what it is a part of, one of the application's packages?"""
    return any(
        name == package or name.startswith(f"{package}.") for package in APPLICATION_PACKAGES
    )


def at_file_scope(node: ast.AST) -> Iterator[ast.AST]:
    """All that runs when a file is imported, class bodies and decorators too; not function bodies, nor what is for
    type checkers or for running the file as a program.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and _never_at_import(child.test):
            continue
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for part in [
                *getattr(child, "decorator_list", []),
                *child.args.defaults,
                *child.args.kw_defaults,
            ]:
                if part is not None:
                    yield part
                    yield from at_file_scope(part)
            continue
        yield child
        yield from at_file_scope(child)


def _never_at_import(test: ast.expr) -> bool:
    text = ast.unparse(test)
    return text in ("TYPE_CHECKING", "typing.TYPE_CHECKING") or text.startswith("__name__ ==")
