"""Names of structures as they are shown and sorted."""

from __future__ import annotations

import re

from AnatomicalEmbedding.anatomy.names import known_name


def readable(structure: str) -> str:
    """ "kidney_left" as "kidney left"; a name of the user's own as it is written."""
    return structure.replace("_", " ") if known_name(structure) else structure


def titled(structure: str) -> str:
    """The readable name with a capital at its beginning, for lists."""
    text = readable(structure)
    return text[:1].upper() + text[1:] if known_name(structure) else text


def sortKey(structure: str) -> list:
    """Order in lists: numbers by their value, so that vertebrae_T2 comes before vertebrae_T10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", structure) if part]
