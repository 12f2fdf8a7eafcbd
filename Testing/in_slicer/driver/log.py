"""Read Slicer's log: messages about this extension, and all critical messages."""

import re

OURS = (
    "AnatomicalEmbedding",
    "AnatomicalLandmarks",
    "AnatomicalROI",
    "LesionFollowUp",
    "in_slicer",
)
_ENTRY = re.compile(r"^\[([A-Z]+)\]\[[^\]]*\] ")
_EMPTY = re.compile(r" - *$")  # a program that Slicer runs has printed an empty line
_BAD = {"WARNING", "ERROR", "CRITICAL", "FATAL"}


def complaints(text: str) -> list[str]:
    """Warnings and errors of a log that name this extension, each with its traceback, and all that is critical: what
    a module of Slicer's own cannot do with our nodes names us nowhere. Lines of one traceback may be entries of their
    own: neighbours of the same level are one complaint.
    """
    groups: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        found = _ENTRY.match(line)
        level = found[1] if found else groups[-1][0] if groups else ""
        if groups and groups[-1][0] == level:
            groups[-1][1].append(line)
        else:
            groups.append((level, [line]))
    reported = ((level, "\n".join(lines)) for level, lines in groups if level in _BAD)
    return [
        text
        for level, text in reported
        if any(name in text for name in OURS) or (level == "CRITICAL" and not _EMPTY.search(text))
    ]
