"""Read numbered places: "T12", "T3 to T7", "ribs 3-5", "5th and 6th ribs", "segments V/VI", "stations 4R and 7"."""

import re
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from ..anatomy.names import RIBS, SIDES, VERTEBRAE
from .tokens import Words, word_set

_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_RANGE = word_set("- to through thru until")
_LIST = word_set(", and & / or with")
_SIZES = word_set("mm cm x % m")  # a number before one of these words is a size
_SILENT = word_set("of the number no level and") | set(SIDES)
_DISC = word_set("intervertebral disc disk space interspace")
_VERTEBRA = word_set("vertebra vertebral body")
_LIVER = word_set("liver hepatic couinaud")
_LIMIT = 30  # largest number of places in one list

# (word, item before it or "") -> item, or None if the word is no item
Item = Callable[[str, str], str | None]
# (word before the item, item), such as ("to", "5")
Items = list[tuple[str, str]]
# names of places, and number of the word after them; None, or no name, if the words name no such place
Reading = tuple[list[str], int] | None


def read(words: Words, start: int) -> Reading:
    """Read numbered places that begin at word `start`.

    Returns the names of the places and the index of the next word; None if no numbered place begins there. A name may
    contain "{s}" in place of the side; the side comes from other words of the text.
    """
    for reader in (_discs_between, _vertebrae, _ribs, _segments, _stations):
        result = reader(words, start)
        if result is not None and result[0]:
            return result[0][:_LIMIT], result[1]
    return None


def _items(words: Words, start: int, item: Item) -> tuple[Items, int]:
    """Read a list such as "3 to 5" that begins at word number `start`. Returns (word before the item, item) for each
    item, here [("", "3"), ("to", "5")], and the number of the word after the list."""
    items: Items = []
    n = start
    link = ""
    value = ""
    after = start
    while n < len(words) and len(items) < _LIMIT:
        value = item(words[n], value)
        is_size = words[n].isdigit() and not _SIZES.isdisjoint(words[n + 1 : n + 2])
        if value is None or is_size:
            break
        items.append((link, value))
        after = n + 1
        n = _skip(words, after, SIDES)
        if n >= len(words) or words[n] not in _RANGE | _LIST:
            break
        link = words[n]
        n = _skip(words, n + 1, ("and", "the", *SIDES))
    return items, after


def _skip(words: Words, start: int, skipped: Collection[str]) -> int:
    """Return the index of the first word, from index `start` on, that is not in `skipped`; len(words) if all are."""
    while start < len(words) and words[start] in skipped:
        start += 1
    return start


def _counted(items: Items, every: Sequence[str]) -> list[str]:
    """Return the values that `items` name: ("", "3"), ("to", "5") give 3, 4, 5. every: all possible values in order."""
    names: list[str] = []
    for link, value in items:
        if link in _RANGE and names and value in every:
            first = every.index(names[-1]) + 1 if names[-1] in every else 0
            names += every[first : every.index(value)]
        names.append(value)
    return names


def _vertebra(word: str, before: str) -> str | None:
    """Return the vertebra, such as "T12", of a word such as "t12" or "d12". A number alone, as in "L3 to 5", continues
    the region of the item `before`."""
    region, number = (before[:1], word) if word.isdigit() else (word[:1], word[1:])
    name = region.upper().replace("D", "T") + number.lstrip("0")  # D: dorsal
    return name if number.isdigit() and name in VERTEBRAE else None


def _vertebrae(words: Words, start: int) -> Reading:
    """Read vertebrae such as "T12" or "L1 to L3" at word number `start`. Two neighbours, joined as in "L4-L5" or
    "L4/5", mean the disc between them. Returns the names, none if there is no vertebra, and the number of the next
    word."""
    number = words[start + 1] if start + 1 < len(words) else ""
    if words[start] in ("c", "t", "l") and number.isdigit():
        # join "T 12"; the empty word keeps the numbers of all later words
        words = [*words[:start], "", words[start] + number, *words[start + 2 :]]
        start += 1
    items, after = _items(words, start, _vertebra)
    discs = []
    levels = items[:1]
    for (_, last), (link, level) in pairwise(items):
        if link in ("-", "/") and VERTEBRAE.index(level) == VERTEBRAE.index(last) + 1:
            discs.append(f"disc_{last}_{level}")
            levels = levels[:-1]  # without the upper vertebra, which was read as a level
        else:
            levels.append((link, level))
    return [*discs, *(f"vertebrae_{level}" for level in _counted(levels, VERTEBRAE))], after


def _discs_between(words: Words, start: int) -> Reading:
    """Read "disc between L4 and L5" or "between L4 and L5". If other vertebrae lie between the two, the text must say
    "disc". Returns the names of the discs and the index of the next word; None if the words name no disc."""
    begin = _skip(words, start, _DISC)
    says_disc = begin > start
    if words[begin : begin + 1] != ["between"]:
        return None
    items, after = _items(words, _skip(words, begin + 1, _VERTEBRA | {"the"}), _vertebra)
    if len(items) != 2:
        return None
    first, last = (VERTEBRAE.index(level) for _, level in items)
    # there is no disc below C1, which has index 0
    if not 0 < first < last:
        return None
    if last > first + 1 and not says_disc:
        return None
    discs = [f"disc_{above}_{below}" for above, below in pairwise(VERTEBRAE[first : last + 1])]
    return discs, _skip(words, after, _VERTEBRA)


def _rib(word: str, _: str) -> str | None:
    """Return the number of a rib as digits, such as "5" for "5", "5th" or "fifth"; None for other words."""
    ordinals = _ORDINALS.split()
    if word in ordinals:
        return str(ordinals.index(word) + 1)
    match = re.fullmatch("([0-9]{1,2})(st|nd|rd|th)?", word)
    if match is None or not 1 <= int(match[1]) <= RIBS:
        return None
    return str(int(match[1]))


def _ribs(words: Words, start: int) -> Reading:
    """Read names of ribs, such as "ribs 3 to 5" or "fifth and sixth left ribs", at word number `start`. Returns the
    ribs, with {s} in place of the side, and the number of the word after them; None if there is no rib."""
    if words[start] == "rib":
        items, after = _items(words, _skip(words, start + 1, _SILENT), _rib)
    else:
        items, after = _items(words, start, _rib)
        end = _skip(words, after, _SILENT | word_set(". anterior posterior lateral"))
        after = end + 1
        if words[end:after] != ["rib"]:
            return None
    numbers = _counted(items, [str(n + 1) for n in range(RIBS)])
    return [f"rib_{{s}}_{number}" for number in numbers], after


def _segments(words: Words, start: int) -> Reading:
    """Read names of liver segments, such as "segments 5 and 6" or "hepatic segment 7", at word number `start`. Returns
    the segments, and the number of the word after them; None if there is no segment."""
    begin = start + 1 if words[start] in _LIVER else start
    if words[begin : begin + 1] != ["segment"]:
        return None
    items, after = _items(
        words, begin + 1, lambda word, _: word if re.fullmatch("[1-8]|4[ab]", word) else None
    )
    end = _skip(words, after, ("of", "the"))
    after = end + 1 if end < len(words) and words[end] in _LIVER else after
    return [f"liver_segment_{number}" for number in _counted(items, "12345678")], after


_UNPAIRED = word_set("3a 3p 5 6 7 8")  # stations without a side
_STATION_SIDES = {"r": "_right", "l": "_left"}


def _station(word: str, _: str) -> str | None:
    """Return the name of a lymph node station such as "4r", with {s} in place of an unknown side; None for other
    words."""
    match = re.fullmatch(r"(1?[0-9])([rlap]?)", word)
    if match is None or not 1 <= int(match[1]) <= 12:
        return None
    number = match[1]
    for station in (word, number, f"{number}a"):  # "3" means station 3a
        if station in _UNPAIRED:
            return f"node_station_{station}"
    return f"node_station_{number}{_STATION_SIDES.get(match[2], '_{s}')}"


def _stations(words: Words, start: int) -> Reading:
    """Return the lymph node stations listed after the word "station" at index `start`, as in "station 2R, 4R and 7",
    and the index of the word after the list. Return None if the word at `start` is not "station"."""
    if words[start] != "station":
        return None
    items, after = _items(words, start + 1, _station)
    return [name for _, name in items], _skip(words, after, ("node",))
