"""Numbered places: "T12", "L4/5", "T3 to T7", "ribs 3-5", "5th and 6th ribs", "segments V/VI", "stations 4R and 7"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..anatomy.names import SIDES, VERTEBRAE

_LEVEL = re.compile(r"([ctlsd])([0-9]{1,2})$")
_ORDINALS = {
    word: number
    for number, words in enumerate(
        (
            *("first 1st", "second 2nd", "third 3rd", "fourth 4th", "fifth 5th", "sixth 6th", "seventh 7th"),
            *("eighth 8th", "ninth 9th", "tenth 10th", "eleventh 11th", "twelfth 12th"),
        ),
        1,
    )
    for word in words.split()
}
_ROMAN = {"i": 1, "ii": 2, "iii": 3, "iv": 4, "v": 5, "vi": 6, "vii": 7, "viii": 8}
_RANGE = ("-", "to", "through", "thru", "until")
_LIST = (",", "and", "&", "/", "or", "with")
_SKIPPED = frozenset(("of", "the", "number", "no", ".", "level", "levels", *SIDES))
_RIBS, _SEGMENT, _LIVER = 12, 8, ("liver", "hepatic", "couinaud")
_MOST = 30


def read(words: Sequence[str], at: int) -> tuple[list[str], int] | None:
    """Names of the numbered places that begin at a word, and the first word behind them; None where none begins.

    A name may hold "{s}" for a side that other words say.
    """
    for reader in (_vertebrae, _ribs_before, _ribs_after, _segments, _stations):
        found = reader(words, at)
        if found is not None and found[0]:
            return found[0][:_MOST], found[1]
    return None


def _vertebra(word: str, region: str = "") -> str | None:
    match = _LEVEL.match(word)
    if match is None and region and word.isdigit():
        match = _LEVEL.match(region + word)
    if match is None:
        return None
    name = match[1].upper().replace("D", "T") + str(int(match[2]))
    return name if name in VERTEBRAE else None


def _vertebrae(words: Sequence[str], at: int) -> tuple[list[str], int] | None:
    if at + 1 < len(words) and words[at] in ("c", "t", "l") and re.fullmatch(r"[0-9]{1,2}", words[at + 1]):  # "T 12"
        first, n = _vertebra(words[at] + words[at + 1]), at + 2
    else:
        first, n = _vertebra(words[at]), at + 1
    if first is None:
        return None
    names, discs, last = [first], [], first
    while n + 1 < len(words) and len(names) < _MOST:
        link, step = words[n], n + 1
        if link in (",",) and words[step] == "and":
            step += 1
        if step >= len(words) or link not in (*_RANGE, *_LIST):
            break
        following = _vertebra(words[step], last[0].lower())
        if following is None or (
            words[step].isdigit() and link in (",", "or", "with", "and") and not _counts(words, step)
        ):
            break
        one, other = VERTEBRAE.index(last), VERTEBRAE.index(following)
        if link in ("-", "/") and other == one + 1:
            discs.append(f"disc_{last}_{following}")
            names.pop()
        elif link in _RANGE and other > one:
            names += VERTEBRAE[one + 1 : other + 1]
        else:
            names.append(following)
        last, n = following, step + 1
    return [*discs, *(f"vertebrae_{name}" for name in names if f"vertebrae_{name}" not in discs)], n


def _counts(words: Sequence[str], at: int) -> bool:
    """Is the bare number at a word a level, not the start of a size such as "12 mm"?"""
    return at + 1 >= len(words) or words[at + 1] not in ("mm", "cm", "x", "%", "m")


def _ordinal(word: str, most: int) -> int | None:
    number = _ORDINALS.get(word)
    if number is None and re.fullmatch(r"[0-9]{1,2}", word):
        number = int(word)
    return number if number is not None and 1 <= number <= most else None


def _ribs_before(words: Sequence[str], at: int) -> tuple[list[str], int] | None:
    """ "rib 5", "ribs 3 to 5", "rib left 5"."""
    if words[at] != "rib":
        return None
    n = at + 1
    while n < len(words) and words[n] in _SKIPPED and words[n] != ".":
        n += 1
    numbers, after = _numbers(words, n, _RIBS)
    if not numbers or (not words[n].isdigit() and words[n] not in _ORDINALS):
        return None
    return [f"rib_{{s}}_{number}" for number in numbers], after


def _ribs_after(words: Sequence[str], at: int) -> tuple[list[str], int] | None:
    """ "12th rib", "3rd to 5th ribs", "fifth and sixth left ribs", "3-5. ribs"."""
    if (words[at] not in _ORDINALS and not words[at].isdigit()) or "rib" not in words[at:]:
        return None
    numbers, n = _numbers(words, at, _RIBS)
    while n < len(words) and n < at + 12 and words[n] in _SKIPPED | {"anterior", "posterior", "lateral"}:
        n += 1
    if not numbers or n >= len(words) or words[n] != "rib":
        return None
    return [f"rib_{{s}}_{number}" for number in numbers], n + 1


def _numbers(words: Sequence[str], at: int, most: int) -> tuple[list[int], int]:
    """Numbers of a list with ranges, and the first word behind it."""
    found: list[int] = []
    n = at
    first = _ordinal(words[n], most) if n < len(words) else None
    if first is None:
        return [], at
    found.append(first)
    n += 1
    while n + 1 < len(words) and len(found) < _MOST:
        step = n
        while step < len(words) and words[step] in SIDES:
            step += 1
        if step >= len(words) or words[step] not in (*_RANGE, *_LIST):
            break
        link, step = words[step], step + 1
        while step < len(words) and words[step] in ("and", *SIDES, "the"):
            step += 1
        following = _ordinal(words[step], most) if step < len(words) else None
        if following is None or not _counts(words, step):
            break
        if link in _RANGE and following > found[-1]:
            found += range(found[-1] + 1, following + 1)
        else:
            found.append(following)
        n = step + 1
    return found, n


def _segments(words: Sequence[str], at: int) -> tuple[list[str], int] | None:
    """ "segments 5 and 6", "segment 4a/8", "hepatic segment 7"."""
    n = at + 1 if words[at] in _LIVER and words[at + 1 : at + 2] == ["segment"] else at
    if words[n] != "segment":
        return None
    names: list[str] = []
    n += 1
    link = ","
    while n < len(words) and len(names) < _MOST:
        label = str(_ROMAN.get(words[n], words[n]))
        match = re.fullmatch(r"([1-8])([ab]?)", label)
        if match is None or (match[2] and match[1] != "4"):
            break
        previous = names[-1].rsplit("_", 1)[1] if names else ""
        if link in _RANGE and previous.isdigit() and not match[2] and int(match[1]) > int(previous):
            names += [f"liver_segment_{number}" for number in range(int(previous) + 1, int(match[1]) + 1)]
        else:
            names.append(f"liver_segment_{label}")
        n += 1
        if n + 1 < len(words) and words[n] in (*_RANGE, *_LIST):
            link = words[n]
            follows = str(_ROMAN.get(words[n + 1], words[n + 1]))
            if re.fullmatch(r"[1-8][ab]?", follows):
                n += 1
                continue
        break
    while n < len(words) and words[n] in ("of", "the", *_LIVER):
        if words[n] in _LIVER:
            return names, n + 1
        n += 1
    return (names, n) if names else None


_STATION = re.compile(r"([0-9]{1,2})([rlap]?)$")
_STATION_NAMES = {"3a": "node_station_3a", "3": "node_station_3a", "3p": "node_station_3p", "5": "node_station_5"} | {
    "6": "node_station_6", "7": "node_station_7", "8": "node_station_8",
}  # fmt: skip
_STATION_SIDES = {"r": "_right", "l": "_left", "": "_{s}"}


def _stations(words: Sequence[str], at: int) -> tuple[list[str], int] | None:
    """ "station 4R", "stations 2R, 4R and 7"."""
    if words[at] != "station":
        return None
    names: list[str] = []
    n = at + 1
    while n < len(words) and len(names) < _MOST:
        match = _STATION.match(words[n])
        if match is None or not 1 <= int(match[1]) <= 12:
            break
        number, letter = match.groups()
        name = _STATION_NAMES.get(number + letter) or _STATION_NAMES.get(number)
        names.append(name or f"node_station_{number}{_STATION_SIDES.get(letter, '_{s}')}")
        n += 1
        step = n
        while step < len(words) and words[step] in _LIST:
            step += 1
        if step == n or step >= len(words) or not _STATION.match(words[step]):
            break
        n = step
    while n < len(words) and words[n] == "node":
        n += 1
    return names, n
