"""Words of a state in its colour, for labels: never the colour alone."""

from __future__ import annotations

from html import escape

GOOD, WARNING, BAD = "good", "warning", "bad"
_COLOURS = {GOOD: "#2a9d4e", WARNING: "#c77800", BAD: "#d8433b"}  # legible on light and dark backgrounds


def coloured(text: str, state: str) -> str:
    """Rich text of a label: the words in the state's colour, plain text escaped."""
    return f'<span style="color:{_COLOURS[state]}">{escape(text)}</span>'
