"""How names of structures are displayed and sorted."""

import re

from AnatomicalEmbedding.anatomy.names import known_name


def readable(structure: str) -> str:
    """Return the name to display: "kidney left" for "kidney_left". A name that the user invented is not changed."""
    return structure.replace("_", " ") if known_name(structure) else structure


def titled(structure: str) -> str:
    """Return the name for lists: like `readable`, but the name of a known structure begins with a capital letter."""
    text = readable(structure)
    return text[:1].upper() + text[1:] if known_name(structure) else text


def sortKey(structure: str) -> list:
    """Return a sort key for names that compares numbers by value: vertebrae_T2 comes before vertebrae_T10."""
    parts = [part for part in re.split(r"(\d+)", structure) if part]
    # numbers come before texts
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]
