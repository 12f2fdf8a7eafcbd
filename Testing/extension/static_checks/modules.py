"""Check the form of the module files: names, classes, header and icons."""

import ast

from .sources import Source

_HEADER = ("title", "categories", "contributors", "helpText", "acknowledgementText")
_BASES = {
    "": "ScriptedLoadableModule",
    "ParameterNode": None,
    "Widget": "ScriptedLoadableModuleWidget",
    "Logic": "ScriptedLoadableModuleLogic",
    "Test": "ScriptedLoadableModuleTest",
}


def class_order(source: Source) -> list[str]:
    """The classes of a module, in the order of Slicer's template. A module that keeps nothing in the scene has no
    parameter node.
    """
    bases = {source.module_name + suffix: base for suffix, base in _BASES.items()}
    classes = [
        node for node in source.tree.body if isinstance(node, ast.ClassDef) and node.name in bases
    ]
    names = [node.name for node in classes]
    parameters = source.module_name + "ParameterNode"
    wanted = [name for name in bases if name != parameters or name in names]
    if names != wanted:
        return [f"{source.name}:1: must define the classes {', '.join(wanted)}, in this order"]
    problems = [
        source.at(node, f"{node.name} is not a {bases[node.name]}")
        for node in classes
        if bases[node.name] and bases[node.name] not in map(ast.unparse, node.bases)
    ]
    for node in classes:
        if node.name == parameters and "parameterNodeWrapper" not in map(
            ast.unparse, node.decorator_list
        ):
            problems.append(source.at(node, f"{node.name} lacks @parameterNodeWrapper"))
    return problems


def empty_header(source: Source) -> list[str]:
    """Fields of the module's header that are not set, or set to nothing."""
    filled = {
        target.attr
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assign) and _says_something(node.value)
        for target in node.targets
        if isinstance(target, ast.Attribute)
        and ast.unparse(target.value) in ("parent", "self.parent")
    }
    return [f"{source.name}:1: parent.{field} is empty" for field in _HEADER if field not in filled]


def _says_something(value: ast.expr) -> bool:
    """Whether an expression holds a text that is not blank; the context argument of translate() does not count."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, str) and bool(value.value.strip())
    if isinstance(value, ast.Call):  # _("..."), translate(context, "..."), "...".format(...)
        texts = [value.func.value] if isinstance(value.func, ast.Attribute) else value.args[-1:]
        return any(map(_says_something, texts))
    parts = (
        [value.left, value.right] if isinstance(value, ast.BinOp) else getattr(value, "elts", [])
    )
    return any(map(_says_something, parts))


def hidden_package(source: Source, packages: set[str]) -> list[str]:
    """A module named like a package beside it, once both are installed in one folder, hides the package."""
    if source.module_name not in packages:
        return []
    return [
        f"{source.name}:1: hides the package {source.module_name} once installed: rename the module"
    ]
