"""Puts the pieces of the page together. Each piece is a Vue template that reads state and calls triggers by name."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent


def build_page(server) -> None:
    """Make the page's main template of its pieces."""
    from trame.ui.html import DivLayout

    with DivLayout(server, classes="viewer") as layout:
        layout.root.add_child(piece("page"))


def piece(name: str) -> str:
    """A piece with those that it names as `<!-- piece: NAME -->` in their places."""
    text = (_FOLDER / f"{name}.html").read_text(encoding="utf-8")
    before, mark, rest = text.partition("<!-- piece: ")
    while mark:
        inner, _, after = rest.partition(" -->")
        text = before + piece(inner) + after
        before, mark, rest = text.partition("<!-- piece: ")
    return text
