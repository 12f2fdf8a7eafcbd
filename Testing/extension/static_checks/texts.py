"""Translation: what the user reads goes through _(), as one literal."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .sources import Source

# where a text goes: methods and functions (which arguments), attributes, and constructors
_CALLS = {
    **dict.fromkeys(
        ("setText", "setToolTip", "setStatusTip", "setWindowTitle", "setTitle", "setPlaceholderText"), (0,)
    ),
    **dict.fromkeys(("showStatusMessage", "errorDisplay", "warningDisplay", "infoDisplay", "delayDisplay"), (0,)),
    **dict.fromkeys(("confirmOkCancelDisplay", "confirmYesNoDisplay", "messageBox", "tryWithErrorDisplay"), (0,)),
    **dict.fromkeys(("setHorizontalHeaderLabels", "setVerticalHeaderLabels", "setHeaderLabels", "addItems"), (0,)),
    **dict.fromkeys(("addItem", "addAction", "addMenu", "addRow", "appendPlainText"), (0,)),
    "addTab": (1,),
    "insertItem": (1,),
    "setItemText": (1,),
    "getText": (1, 2),
    "getExistingDirectory": (1,),
    "getOpenFileName": (1,),
    "getSaveFileName": (1,),
    "question": (1, 2),
}
_KEYWORDS = {"text", "toolTip", "windowTitle", "title", "labelText", "detailedText", "placeholderText", "statusTip"}
_ATTRIBUTES = _KEYWORDS | {"helpText", "acknowledgementText"}
_CLASSES = {"QLabel", "QPushButton", "QToolButton", "QCheckBox", "QRadioButton", "QGroupBox", "QAction", "QMenu"} | {
    *("QTableWidgetItem", "QTreeWidgetItem", "QListWidgetItem", "ctkCollapsibleButton"),
}
_TRANSLATORS = {"_", "translate"}
_MARKUP = re.compile(r"<[^>]*>|&\w+;|\{[^}]*\}")
_WORD = re.compile(r"[^\W\d_]{3,}")  # shorter ones are units, signs and axes


def untranslated(source: Source) -> list[str]:
    """Literals the user reads that bypass _(), in files that use the application."""
    if source.is_logic:
        return []
    return [
        source.at(part, f"{part.value!r} is shown to the user without _()")
        for shown in _shown(source.tree)
        for part in _bare_literals(shown)
        if _WORD.search(_MARKUP.sub(" ", part.value))
    ]


def untranslatable(source: Source) -> list[str]:
    """Calls of _() whose text is not one literal: translators never see it."""
    problems = []
    for node in ast.walk(source.tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _TRANSLATORS):
            continue
        text = node.args[-1] if node.args else None
        if isinstance(text, ast.JoinedStr):
            problems.append(
                source.at(node, f'f-string inside {node.func.id}(): write _("... {{name}}").format(name=...)')
            )
        elif not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
            problems.append(source.at(node, f"{node.func.id}() of something other than a literal text"))
    return problems


def _shown(tree: ast.Module) -> Iterator[ast.expr]:
    """Expressions whose value the user reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            places = (0,) if name in _CLASSES else _CALLS.get(name, ())
            yield from (node.args[place] for place in places if place < len(node.args))
            if places:
                yield from (keyword.value for keyword in node.keywords if keyword.arg in _KEYWORDS)
        elif isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Attribute) and target.attr in _ATTRIBUTES for target in targets):
                yield node.value


def _bare_literals(node: ast.expr) -> Iterator[ast.Constant]:
    """Text literals that become part of the value of an expression. Arguments of other calls, keys and conditions do
    not: what those make of them is their own affair.
    """
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node
    elif isinstance(node, ast.BinOp):
        yield from (*_bare_literals(node.left), *_bare_literals(node.right))
    elif isinstance(node, ast.JoinedStr | ast.BoolOp):
        yield from (part for value in node.values for part in _bare_literals(value))
    elif isinstance(node, ast.IfExp):
        yield from (*_bare_literals(node.body), *_bare_literals(node.orelse))
    elif isinstance(node, ast.List | ast.Tuple):
        yield from (part for value in node.elts for part in _bare_literals(value))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("format", "strip"):
            yield from _bare_literals(node.func.value)
        elif node.func.attr == "join":
            yield from (part for value in node.args for part in _bare_literals(value))
    elif isinstance(node, ast.ListComp | ast.GeneratorExp):
        yield from _bare_literals(node.elt)
