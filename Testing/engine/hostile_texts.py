"""Texts that could break a reader: empty, very long, in other scripts, or program code."""

import random
from collections.abc import Callable, Iterator

_MEGABYTE = 1_000_000
_PLACES = (
    "left kidney",
    "rib",
    "12",
    "L4",
    "T1-T12",
    "segment IV",
    "station 4R",
    "lobe",
    "upper pole of",
    "peri",
)
_GLUE = (" ", "", ", ", "/", "-", " and ", " of ", ".\n", " no ", " between ", ";")
_SCRIPTS = (  # first and last letters
    (0x0590, 0x05FF), (0x0600, 0x06FF), (0x0900, 0x097F), (0x4E00, 0x9FFF), (0x0400, 0x04FF), (0xAC00, 0xD7A3),
    (0x0E00, 0x0E7F), (0x0370, 0x03FF),
)  # fmt: skip
_EMOJI = (
    "🫀",
    "🫁",
    "🧠",
    "👩‍⚕️",
    "🏳️‍🌈",
    "\u202e",
    "\u200f",
    "\ufeff",
    "\x00",
    "\x1b[31m",
    "e\u0301" * 30,
)
_SENTENCES = (
    "Raumforderung der linken Nebenniere.", "Masse dans la glande surrénale gauche.", "左肾囊肿", "Киста печени слева.",
    "كتلة في الكلية اليسرى", "ממצא בכבד מימין", "左副腎の腫瘤", "Quiste hepático en el segmento VIII.",
)  # fmt: skip
_CODE = (
    "'; DROP TABLE scans; --", "1 OR 1=1", "UNION SELECT * FROM ribs", "{{7*7}}", "${jndi:ldap://x}", "<script>liver",
    "../../etc/passwd", "%s%n%d", "\\", '"""', "{0.__class__}", "=cmd|' /C calc'!A0",
)  # fmt: skip
_BOMBS = (
    "(a+)+$",
    "(a|a)*b",
    "((a*)*)*",
    "[0-9]+" * 3,
    "a{1,9999}",
    "1,",
    "5/",
    "L4-",
    "left ",
    "rib 1 to ",
    "((",
    "-",
)


def _empty(draw: random.Random) -> str:
    return "".join(
        draw.choice((" ", "\n", "\t", "\u00a0", "\u200b")) for _ in range(draw.randrange(4))
    )


def _endless(draw: random.Random) -> str:
    """Up to a megabyte; half of them just short enough to be read."""
    size = draw.choice((29_990, 29_990, 30_001, _MEGABYTE))
    piece = draw.choice(
        (*_PLACES, *_BOMBS, *_EMOJI, *_SENTENCES, "x", "kidnye ", _random_word(draw))
    )
    return (piece * (size // len(piece) + 1))[:size]


def _mixed(draw: random.Random) -> str:
    pieces = (*_PLACES, *_EMOJI, *_CODE, *_BOMBS)
    return "".join(draw.choice(pieces) + draw.choice(_GLUE) for _ in range(draw.randrange(1, 60)))


def _script(draw: random.Random) -> str:
    low, high = draw.choice(_SCRIPTS)
    letters = (chr(draw.randrange(low, high)) for _ in range(draw.randrange(1, 400)))
    return draw.choice(_SENTENCES) + "".join(letters) + draw.choice(_PLACES)


def _bomb(draw: random.Random) -> str:
    return draw.choice(_BOMBS) * draw.randrange(1, 5000) + draw.choice(("!", "b", ""))


def _misspelt(draw: random.Random) -> str:
    return " ".join(_random_word(draw) for _ in range(draw.randrange(1, 800)))


def _random_word(draw: random.Random) -> str:
    return "".join(draw.choice("aeiourtlnskdhm") for _ in range(draw.randrange(4, 24)))


KINDS: dict[str, Callable[[random.Random], str]] = {
    "empty": _empty, "up to 1 MB": _endless, "mixed": _mixed, "other scripts": _script, "repeated": _bomb,
    "misspelt": _misspelt, "code": lambda draw: draw.choice(_CODE) + draw.choice(_GLUE) + draw.choice(_PLACES),
}  # fmt: skip


def hostile_texts(count: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """(kind, text), each kind in turn; the same for the same seed."""
    draw = random.Random(seed)
    kinds = list(KINDS)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        yield kind, KINDS[kind](draw)
