"""Slicer's log: what it says against this extension."""

from __future__ import annotations

import re

OURS = ("AnatomicalEmbedding", "AnatomicalLandmarks", "AnatomicalROI", "LesionFollowUp", "in_slicer")
_ENTRY = re.compile(r"^\[([A-Z]+)\]\[[^\]]*\] ")
_BAD = {"WARNING", "ERROR", "CRITICAL", "FATAL"}


def complaints(text: str) -> list[str]:
    """Warnings and errors of a log that name this extension, each with its traceback. Lines of one traceback may be
    entries of their own: neighbours of the same level are one complaint.
    """
    groups: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        found = _ENTRY.match(line)
        level = found[1] if found else groups[-1][0] if groups else ""
        if groups and groups[-1][0] == level:
            groups[-1][1].append(line)
        else:
            groups.append((level, [line]))
    reported = ("\n".join(lines) for level, lines in groups if level in _BAD)
    return [each for each in reported if any(name in each for name in OURS)]
