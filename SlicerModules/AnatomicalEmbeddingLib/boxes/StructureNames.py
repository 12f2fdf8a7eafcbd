"""How names of structures are displayed and sorted."""

from __future__ import annotations

import re

from AnatomicalEmbedding.anatomy.names import known_name


def readable(structure: str) -> str:
    """The name to display: "kidney_left" becomes "kidney left". A name that the user invented stays unchanged."""
    return structure.replace("_", " ") if known_name(structure) else structure


def titled(structure: str) -> str:
    """The readable name for lists: a known structure begins with a capital letter."""
    text = readable(structure)
    return text[:1].upper() + text[1:] if known_name(structure) else text


def sortKey(structure: str) -> list:
    """Key for sorting names: numbers are compared by value, so vertebrae_T2 comes before vertebrae_T10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", structure) if part]
