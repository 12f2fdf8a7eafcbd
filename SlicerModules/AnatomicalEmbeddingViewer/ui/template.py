"""Joins the parts of the page: Vue templates that read the state and call actions by `trigger('name', [values])`."""

from __future__ import annotations

import re
from pathlib import Path

_FOLDER = Path(__file__).parent
_PART = re.compile(r"<!-- part: (\w+) -->")


def build_page(server) -> None:
    """Make the server's main template."""
    from trame.ui.html import DivLayout

    with DivLayout(server, classes="viewer") as layout:
        layout.root.add_child(_part("page"))


def _part(name: str) -> str:
    """Return a template, with the templates that it names as `<!-- part: NAME -->` in their places."""
    text = (_FOLDER / f"{name}.html").read_text(encoding="utf-8")
    return _PART.sub(lambda found: _part(found[1]), text)
