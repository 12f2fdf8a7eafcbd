"""Denials of a clause: a finding in a place, or the place itself, is not there.

A word such as "no" before the place, or "not seen" behind it, denies the subject of the clause. Where nothing else
is named between that word and the place, the place itself is missing ("no gallbladder", "the left kidney is absent").
In all other clauses a finding is denied ("no hydronephrosis of the right kidney").
"""

from __future__ import annotations

from collections.abc import Sequence

FINDING, PLACE = "finding", "place"
SEEN = frozenset([
    "detected", "observed", "seen", "found", "identified", "distinguished", "noted", "present", "demonstrated",
    "visualized", "visualised", "evident", "selected", "encountered", "monitored", "followed",
])  # fmt: skip
_NO = frozenset(("no", "without", "not", "absent", "absence", "denies", "negative", "free", "neither", "nor"))
_NEEDS = {"free": ("of", "from"), "negative": ("for",)}  # words without which it denies nothing: "free fluid"
_NOT = frozenset(("not", "n't"))
_MISSING = frozenset(("absent", "missing", "removed", "resected"))
TURNS = frozenset(("but", "however", "although", "except", "though", "while", "whereas", ";"))
_VERBS = frozenset([
    "is", "are", "was", "were", "be", "been", "has", "have", "had", "could", "can", "there", "surgically",
    "congenitally",
])  # fmt: skip
_SILENT = frozenset(
    ["of", "the", "a", "an", "its", "this", "that", "left", "right", "both", "any", "evidence", "visible", "definite"]
)
_LEADING = frozenset(("of", "in", "within", "at", "on", "to", "from", "near", "around"))  # a finding stands before
_FOLLOWING = frozenset(",:().;") | _VERBS | SEEN | {"in", "on", "at"}
# Words in names of places that are findings: without them, the place is there all the same.
_FINDINGS = frozenset(("effusion", "hydrothorax", "pneumothorax", "hernia", "node"))


def denied(words: Sequence[str], first: int, last: int, noun: bool = True) -> str:
    """FINDING or PLACE, which the clause denies of the place of the words from `first` to `last`; "" for neither.

    noun: whether these words name the place, not a finding by an adjective ("hepatic").
    """
    names_place = noun and _FINDINGS.isdisjoint(words[first : last + 1])
    before = next((word for word in reversed(words[:first]) if word not in _SILENT or word == "of"), "")
    for n in range(first - 1, -1, -1):
        if words[n] in TURNS:
            break
        if words[n] in _NO and (words[n] not in _NEEDS or words[n + 1] in _NEEDS[words[n]]):
            alone = set(words[n + 1 : first]) <= _SILENT | SEEN
            ends = last + 1 == len(words) or words[last + 1] in _FOLLOWING
            return PLACE if alone and ends and names_place else FINDING
    for n in range(last + 1, len(words)):
        if words[n] in TURNS:
            break
        subject = set(words[last + 1 : n]) <= _VERBS and names_place and before not in _LEADING
        if words[n] in _NOT and not SEEN.isdisjoint(words[n + 1 : n + 4]):
            return PLACE if subject else FINDING
        if words[n] in _MISSING and subject and n > last + 1:
            return PLACE
    return ""
