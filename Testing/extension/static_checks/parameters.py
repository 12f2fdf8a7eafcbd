"""Parameter node classes, read without running them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from .sources import Source


@dataclass(frozen=True)
class Parameter:
    """type: as written, without Annotated[], Optional[] and None. validators: names of the annotations beside it."""

    type: str
    validators: frozenset[str] = frozenset()

    @property
    def is_bounded(self) -> bool:
        return "WithinRange" in self.validators or {"Minimum", "Maximum"} <= self.validators

    @property
    def is_node(self) -> bool:
        return all(part.strip().rsplit(".", 1)[-1].startswith("vtkMRML") for part in self.type.split("|"))


def parameters_of(source: Source) -> dict[str, Parameter]:
    """Fields of all classes with @parameterNodeWrapper in a file."""
    return {
        field.target.id: _parameter(field.annotation)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and "parameterNodeWrapper" in map(ast.unparse, node.decorator_list)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


def _parameter(annotation: ast.expr) -> Parameter:
    validators: frozenset[str] = frozenset()
    if isinstance(annotation, ast.Subscript):
        outer = ast.unparse(annotation.value).rsplit(".", 1)[-1]
        inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        if outer == "Annotated":
            named = (ast.unparse(part.func if isinstance(part, ast.Call) else part) for part in inner[1:])
            validators = frozenset(name.rsplit(".", 1)[-1] for name in named)
            return Parameter(_parameter(inner[0]).type, validators)
        if outer in ("Optional", "Union"):
            parts = (_parameter(part).type for part in inner)
            return Parameter(" | ".join(part for part in parts if part != "None"))
    if isinstance(annotation, ast.BinOp):
        parts = (_parameter(side).type for side in (annotation.left, annotation.right))
        return Parameter(" | ".join(part for part in parts if part != "None"))
    return Parameter(ast.unparse(annotation))
