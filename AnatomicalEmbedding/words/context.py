"""Read the words around the names of a sentence: stages 2 to 4 of `phrases`.

* **Sides.** A side word belongs to the name that contains it, to the name that follows within four words, or to the
  name before it ("12th rib on the right"). A name without a side gets the side of a name near it.
* **Parts and relations.** "upper pole of" or "posterior to" before a name, or "lower pole" after it, is the qualifier
  of the name. If the search cannot use a word next to a name, the word is shown to the user.
* **Vaguer names.** Of "left lung, upper lobe", only the lobe is kept. A region is dropped if the sentence names a part
  of the region. A place that is named twice in a row is kept once.
"""

from dataclasses import replace

from ..anatomy.names import SIDES
from .dictionary import BOTH, SILENT, load_dictionary
from .place_names import BREAKS, NEAR, Name, Names
from .qualifiers import PARTS, RELATIONS, TURNS, ZONE_NOUNS, ZONES, Qualifier
from .tokens import Words, word_set

_SIDE_REACH, _SAME_SIDE_REACH, _CHAIN_REACH = 4, 6, 4  # words
# these words and signs end the reach of a side word
_AFTER_A_SIDE = BREAKS | word_set("and is are was with in")


def give_sides(words: Words, names: Names) -> list[Name]:
    """Stage 2: give the names their sides. A name is dropped if it would get a side that its place does not have."""
    sides = _stated_sides(words, names)
    result: list[Name] = []
    for n, name in enumerate(names):
        side = sides.get(name.tokens, "")
        if not side and name.has_sides and result:  # "left kidney and ureter"
            side = _shared_side(words, result[-1], name)
        if not side and name.has_sides and n + 1 < len(names):  # "upper pole of the left kidney"
            following = names[n + 1]
            if following.first - name.last <= _CHAIN_REACH and _is_part(name, following):
                side = sides.get(following.tokens, "")
        if side in SIDES:
            on_side = tuple(entry for entry in name.places if entry.side in ("", side))
            if not on_side and name.tokens not in sides:
                continue  # the side comes from another name, and the place does not exist on this side
            name = replace(name, places=on_side or name.places)
        result.append(replace(name, side=side))
    return result


def _stated_sides(words: Words, names: Names) -> dict[range, str]:
    """Return the sides, "left", "right" or "both", that words of the text give to names.

    The keys are the tokens of the names, because all names of a list such as "ribs 3 to 5" have one side.
    """
    sides: dict[range, str] = {}
    for position, word in enumerate(words):
        if word not in SIDES and word not in BOTH:
            continue
        owner = _owner(words, position, names)
        if owner is None:
            continue
        side = "both" if word in BOTH else word
        if sides.get(owner.tokens, side) != side:
            side = "both"
        sides[owner.tokens] = side
    return sides


def _owner(words: Words, position: int, names: Names) -> Name | None:
    """Return the name to which word number `position`, a side such as "left", belongs: the name that contains the word,
    or else the next name if it is near, or else the former name if it is near, or else the next name at any
    distance."""
    before = None
    after = None
    for name in names:
        if position in name.tokens:
            return name
        if name.last < position:
            before = name
        elif after is None:
            after = name
    if after is not None:
        between = words[position + 1 : after.first]
        if len(between) <= _SIDE_REACH and _AFTER_A_SIDE.isdisjoint(between):
            return after
    if before is not None and position - before.last <= 2 * _SIDE_REACH:
        return before
    return after


def _shared_side(words: Words, former: Name, name: Name) -> str:
    """Return the side of the name before `name`, if `name` is near it in the same clause; else ""."""
    between = words[former.last + 1 : name.first]
    is_near = len(between) < _SAME_SIDE_REACH and (TURNS | {"on", "to"}).isdisjoint(between)
    return former.side if is_near else ""


def _is_part(part: Name, whole: Name) -> bool:
    """Return whether `part` means a part of the place that `whole` means, or `whole` a part of the place of `part`."""
    return bool(part.wholes & whole.names or whole.wholes & part.names)


def give_qualifiers(words: Words, names: Names, named: set[int], typed: bool) -> list[Name]:
    """Stage 3: store with each name the part ("upper pole") or the relation ("behind") that the text states for it.

    Parts and sides that the search cannot use become `unused`; in a typed text, unknown words next to the name, too.

    Args:
        words: the words of the sentence.
        names: the names in these words.
        named: indices of the tokens that are in a name.
        typed: whether a user typed the text.
    """
    result = []
    for name in names:
        before = _before(words, name.first, named)
        last = name.last
        qualifier = None
        unused = []
        if name.side in SIDES and not name.has_sides:
            unused.append(name.side)
        # phrases of two words come first: "anterior to" before "to"
        relation = RELATIONS.get(tuple(before[-2:])) or RELATIONS.get(tuple(before[-1:]))
        if relation:
            qualifier = Qualifier(relation)
        else:
            zones, last = _zones(words, name, before, named)
            usable = [zone for zone in zones if name.has_sides or zone not in ("medial", "lateral")]
            unused += [zone for zone in zones if zone not in usable]
            if usable:
                qualifier = Qualifier("zone", " ".join(usable))
        next_to = [*before[-1:], *_after(words, last, named)]
        if qualifier is None:
            unused += [word for word in next_to if word in PARTS]
        if typed:
            unused += [word for word in next_to if load_dictionary().is_unknown(word)]
        result.append(replace(name, last=last, qualifier=qualifier, unused=tuple(unused)))
    return result


def _before(words: Words, first: int, named: set[int]) -> list[str]:
    """Return up to five words that stand directly before word number `first`, in the order of the text. The search
    stops at a comma, a bracket or a colon, and at a word whose number is in `named`. Words in SILENT are left out."""
    words_before: list[str] = []
    for n in range(first - 1, max(first - 9, -1), -1):
        if n in named or words[n] in BREAKS or len(words_before) >= 5:
            break
        if words[n] not in SILENT:
            words_before.append(words[n])
    return words_before[::-1]


def _after(words: Words, last: int, named: set[int]) -> list[str]:
    """Return, in a list, the first word after word number `last` that is no sign and not in SILENT; [] if this word is
    in `named`, or if there is none."""
    for n in range(last + 1, len(words)):
        if words[n] not in SILENT | {",", ":"}:
            return [] if n in named else [words[n]]
    return []


def _zones(words: Words, name: Name, before: list[str], named: set[int]) -> tuple[list[str], int]:
    """Return the zones (such as "upper" in "upper pole of") that words near a name add to `name`, and the
    index of the last word that belongs to the name or to its zones.

    The zones stand before the name, with or without a noun ("upper pole of"), or behind it, with a noun ("upper pole").
    """
    leading = list(before)
    if leading and leading[-1] in ZONE_NOUNS:
        leading.pop()
    zones = []
    while leading and leading[-1] in ZONES:
        zones.append(ZONES[leading.pop()])
    if zones:
        return zones, name.last
    behind = range(name.last + 1, min(name.last + 4, len(words)))
    for word in [words[n] for n in behind if n not in named]:
        if word in ZONES:
            zones.append(ZONES[word])
        elif zones and word in ZONE_NOUNS:
            return zones, name.last + len(zones) + 1
        else:
            break
    return [], name.last


def drop_vaguer(words: Words, names: Names) -> list[Name]:
    """Stage 4: drop the name of a place if another name means a part of this place. Drop repeated names.

    The name of a region is dropped if any name of the sentence means a part of it, other names only beside such a name.
    """
    return [name for n, name in enumerate(names) if not _is_needless(words, names, n)]


def _is_needless(words: Words, names: Names, number: int) -> bool:
    """Return whether `names[number]` repeats the name before it, or is vaguer than another name."""
    name = names[number]
    for n, rival in enumerate(names):
        are_near = abs(n - number) == 1 and _are_near(words, name, rival)
        is_same = rival.names == name.names and rival.qualifier == name.qualifier
        if n < number and are_near and is_same:
            return True
        is_part = rival.wholes & name.names and not rival.names & name.names
        if is_part and (name.is_region or (are_near and name.qualifier is None)):
            return True
    return False


def _are_near(words: Words, *names: Name) -> bool:
    """Return whether at most five words stand between two names, not counting those in SILENT, and no "and" or "or"."""
    first, second = sorted(names, key=lambda name: name.first)
    between = words[first.last + 1 : second.first]
    counted = [word for word in between if word not in SILENT]
    is_list = first.tokens == second.tokens  # "ribs 3 to 5"
    return not is_list and len(counted) <= NEAR and {"and", "or"}.isdisjoint(between)
