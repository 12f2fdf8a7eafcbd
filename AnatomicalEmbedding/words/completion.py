"""Completions of typed words, and the sentence for words that name no place."""

from __future__ import annotations

import re

from .phrases import suggestions

_WORDS_LIMIT = 6  # at the end of the text, in which a place may begin
_LONGEST = 200  # characters; longer texts are not typed
_SHOWN = 60
_WORD = re.compile(r"[^\s,;]+")


def completions(typed: str, most: int = 8) -> list[str]:
    """The text with its last words completed to places: "mass in the left adr" to "mass in the left adrenal gland".

    The longest ending that begins a place counts. Empty where no ending does.
    """
    if len(typed) > _LONGEST or not typed.strip() or typed != typed.rstrip():
        return []
    starts = [found.start() for found in _WORD.finditer(typed)]
    for start in starts[-_WORDS_LIMIT:]:
        found = suggestions(typed[start:], most) if len(typed) - start > 1 else []
        if found:
            return [typed[:start] + title for title in found]
    return []


def not_understood(text: str) -> str:
    """A sentence for words that name no place, with places that the words may mean."""
    near = [title for word in text[:_LONGEST].split()[:8] if len(word) > 2 for title in suggestions(word[:4], 2)][:4]
    hint = f"; did you mean {', '.join(dict.fromkeys(near))}?" if near else "; name an organ, a bone or a region."
    shown = "".join(letter for letter in " ".join(text[:_LONGEST].split()) if letter.isprintable())[:_SHOWN]
    return f"'{shown}': names no place that is known{hint}"
