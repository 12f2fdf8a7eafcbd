"""Find the names of places in a sentence: stage 1 of `phrases`.

At each word, find the longest phrase of the dictionary, or a list of numbered places ("ribs 3 to 5"). Sides and words
such as "of" are ignored inside a phrase, so "lower lobe of the left lung" is found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..anatomy.names import SIDES
from ..anatomy.terms import load_terms
from . import numbers
from .dictionary import SILENT, Entry, load_dictionary
from .qualifiers import LEADING, TURNS, VERBS, Qualifier
from .tokens import Words, word_set

BREAKS = frozenset(",:()[]")
BETWEEN_ENTRIES = word_set(", and or & /")  # separators in a list of places
NEAR = 5  # words
_MOST_SKIPPED = 5  # words such as "of" in one name
_PART_REACH = 6  # words between a place and its part
_CLAUSE_ENDS = BREAKS | BETWEEN_ENTRIES | TURNS
_NOT_BEFORE_A_PART = _CLAUSE_ENDS | {"foreign"}  # a foreign body
_LONGEST_PHRASE = 9  # words; the dictionary's longest has 5
_PLACES_LIMIT = 60  # names in a sentence


@dataclass(frozen=True)
class Name:
    """A name of a place in a sentence.

    first, last: indices of the first and the last token of the name. side: "left", "right", "both" or "".
    """

    places: tuple[Entry, ...]
    first: int
    last: int
    side: str = ""
    qualifier: Qualifier | None = None
    unused: tuple[str, ...] = ()

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(entry.name for entry in self.places)

    @cached_property
    def wholes(self) -> set[str]:
        """The names of all places that contain one of the places."""
        return {whole for name in self.names for whole in load_terms().ancestors(name)}

    @property
    def tokens(self) -> range:
        return range(self.first, self.last + 1)

    @property
    def is_region(self) -> bool:
        return all(load_terms()[name].group == "regions" for name in self.names)

    @property
    def is_adjective(self) -> bool:
        return all(entry.adjective for entry in self.places)

    @property
    def has_sides(self) -> bool:
        return any(entry.side for entry in self.places)


Names = Sequence[Name]  # the names in one sentence, in the order of the text


def find_names(words: Words) -> list[Name]:
    """Find the names of places in a sentence, in order. If several names begin at a word, the longest name is used."""
    names: list[Name] = []
    position = 0
    while position < len(words) and len(names) < _PLACES_LIMIT:
        listed = numbers.read(words, position)
        longest = _longest(words, position)
        if listed is not None and (longest is None or longest.last < listed[1]):
            places, after = listed
            for place in places:
                entries = load_dictionary().entries_of(place)
                names.append(Name(entries, position, after - 1))
            position = after
        elif longest is not None:
            names.append(longest)
            position = longest.last + 1
        else:
            position += 1
    names = [name for name in names if name.places]  # not all numbered places have an entry
    return _bind_parts(words, _share_words(words, names))


def _share_words(words: Words, names: Names) -> list[Name]:
    """Complete lists whose members share words: "renal vein and artery", "upper and lower lobes of the left lung".

    All members of such a list get the tokens of the whole list, so that a side word in the list belongs to all.
    """
    result: list[Name] = []
    covered = -1  # last token of the last list
    for name in names:
        if name.first <= covered:
            continue
        group = [*_sharing(words, name, names, -1), name, *_sharing(words, name, names, 1)]
        if len(group) > 1:
            first = group[0].first
            covered = group[-1].last
            result = [former for former in result if former.last < first]
            between = set(range(first, covered)).difference(*(member.tokens for member in group))
            # with a side between the members, each member has a side of its own
            if not any(words[n] in SIDES for n in between):
                group = [replace(member, first=first, last=covered) for member in group]
        result += group
    return result


def _sharing(words: Words, name: Name, names: Names, step: int) -> list[Name]:
    """Return the members of a list that share words with a name, in the order of the text: those before the name if
    `step` is -1, those after it if `step` is 1.

    In "renal vein and artery", the phrase "renal vein" with another last word is "renal artery". In "upper and lower
    lobe", the phrase "lower lobe" with another first word is "upper lobe". The search ends at a word that makes no
    such phrase, or that means this place or a place that contains it.
    """
    phrase = tuple(words[n] for n in name.tokens if words[n] not in SILENT)
    if len(phrase) < 2 or phrase not in load_dictionary().phrases:
        return []
    # tokens at which the search ends: those of names with several words, and the token after each such name
    complete: set[int] = set()
    for candidate in names:
        if candidate.last > candidate.first:
            complete.update(range(candidate.first, candidate.last + 2))
    members = []
    position = _next_member(words, name.last if step > 0 else name.first, step)
    while position is not None and position not in complete:
        entries = _usable(_completed(phrase, words[position], step), words)
        member = Name(entries, position, position)
        # the places that the word names without the shared words
        alone: set[str] = set()
        for candidate in names:
            if position in candidate.tokens:
                alone |= candidate.names
        if member.names <= alone or not (name.names | name.wholes).isdisjoint(member.names | alone):
            break
        members.append(member)
        position = _next_member(words, position, step)
    return members[::step]  # the members before the name were found from right to left


def _completed(phrase: tuple[str, ...], word: str, step: int) -> Sequence[Entry]:
    """Return the places of a phrase in which `word` replaces as few words as possible: the last words if `step` is 1,
    the first words if it is -1. Returns () if there is no such phrase."""
    phrases = load_dictionary().phrases
    for count in range(1, len(phrase)):
        candidate = (*phrase[:-count], word) if step > 0 else (word, *phrase[count:])
        if candidate in phrases:
            return phrases[candidate]
    return ()


def _usable(entries: Sequence[Entry], words: Words) -> tuple[Entry, ...]:
    """Return the entries without those that demand a side that is not in `words`."""
    return tuple(entry for entry in entries if not entry.demanded or entry.side in words)


def _next_member(words: Words, edge: int, step: int) -> int | None:
    """Return the position of the next word of a list; None if no comma or "and" leads to it.

    Args:
        words: words of the text.
        edge: position of the word of the list beside which the search begins.
        step: 1 to search after it, -1 before it.
    """
    further = range(edge + step, len(words) if step > 0 else -1, step)
    position = next((n for n in further if words[n] not in BETWEEN_ENTRIES | SILENT), edge)
    between = words[min(position, edge) + 1 : max(position, edge)]
    return None if BETWEEN_ENTRIES.isdisjoint(between) else position


def _bind_parts(words: Words, names: Names) -> list[Name]:
    """Read words such as "neck" as the part of an organ that the clause names: "gallbladder stone near the neck".

    Such a word may itself be the name of a place. This name is dropped if the word is a part of another place.
    """
    result = list(names)
    alone = {name.first: name for name in names if name.last == name.first}
    inside = {n for name in names for n in name.tokens} - alone.keys()
    for n, word in enumerate(words):
        if word not in load_dictionary().parts or n in inside:
            continue
        organ, is_part = _organ_of(words, n, names)
        entries = () if organ is None else _part_entries(word, organ)
        if n in alone and (entries or (is_part and alone[n].is_region)):
            result.remove(alone[n])
        if entries:
            result.append(Name(entries, n, n))
    return sorted(result, key=lambda name: name.first)


def _part_entries(part: str, organ: Name) -> tuple[Entry, ...]:
    """Return what a word such as "neck" means as a part of an organ, or of what contains the organ. Of a region, only a
    part is meant if the text names the region itself."""
    containing = {whole for whole in organ.wholes if load_terms()[whole].group != "regions"}
    entries: list[Entry] = []
    for whole in sorted(containing | organ.names):
        entries += load_dictionary().parts[part].get(whole, ())
    return tuple(dict.fromkeys(entries))


def _organ_of(words: Words, position: int, names: Names) -> tuple[Name | None, bool]:
    """Return the place of which word `position`, such as "neck", may be a part, or None; and whether it is surely a
    part of something.

    In "kidney in the pelvis", the pelvis is no part of the kidney. In "neck of the aneurysm", the place has no name.
    """
    follows_of = words[position + 1 : position + 2] == ["of"]
    if follows_of and words[position + 2 : position + 3] != ["patient"]:
        return _next_in_clause(words, position, names), True
    former = [name for name in names if name.last < position]
    if not former:
        return None, False
    organ = former[-1]
    between = words[organ.last + 1 : position]
    if len(between) > _PART_REACH or not _NOT_BEFORE_A_PART.isdisjoint(between):
        return None, False
    is_apart = not {"in", "within"}.isdisjoint(between) and set(between) <= LEADING | VERBS | SILENT
    if is_apart and _may_be_subject(words, organ):
        return None, False
    return organ, organ.is_adjective and not between and not organ.is_region


def _may_be_subject(words: Words, organ: Name) -> bool:
    """Return whether a place may be the subject of its clause: it is no adjective, and no word such as "in" leads."""
    before = [word for word in words[: organ.first] if word not in SILENT or word in LEADING]
    return not organ.is_adjective and LEADING.isdisjoint(before[-1:])


def _next_in_clause(words: Words, position: int, names: Names) -> Name | None:
    """Return the name that follows word `position` in the same clause and near it; None without."""
    following = next((name for name in names if name.first > position), None)
    if following is None or following.first - position > NEAR:
        return None
    between = words[position : following.first]
    return following if _CLAUSE_ENDS.isdisjoint(between) else None


def _longest(words: Words, start: int) -> Name | None:
    """Return the longest name that begins at word `start`; None if no name does. Words such as "of" are skipped."""
    dictionary = load_dictionary()
    if words[start] not in dictionary.firsts:
        return None
    best = None
    phrase = []
    skipped = 0
    for n in range(start, len(words)):
        if words[n] in SILENT or words[n] == "-":  # a name does not end with such a word
            skipped += 1
            continue
        phrase.append(words[n])
        if skipped > _MOST_SKIPPED or len(phrase) > _LONGEST_PHRASE:
            break
        surroundings = words[max(start - 2, 0) : n + 3]  # where a demanded side may stand
        entries = _usable(dictionary.phrases.get(tuple(phrase), ()), surroundings)
        if entries:
            best = Name(entries, start, n)
    return best
