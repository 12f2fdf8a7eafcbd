"""Find the places that a text names. Each sentence is read in four stages.

1. **Find the names.** At each word, find the longest phrase of the dictionary, or a list of numbered places ("ribs 3
   to 5"). Sides and words such as "of" are ignored inside a phrase, so "lower lobe of the left lung" is found.
2. **Give each name its side.** A side word belongs to the name that contains it, to the name that follows within four
   words, or to the name before it ("12th rib on the right"). A name without a side gets the side of a name near it.
3. **Give each name its part or relation.** "upper pole of" or "posterior to" before a name, or "lower pole" after it,
   is the qualifier of the name. If the search cannot use a word next to a name, the word is shown to the user.
4. **Drop vaguer names.** Of "left lung, upper lobe", only the lobe is kept. A region is dropped if the sentence names a
   part of the region. A place that is named twice in a row is kept once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..anatomy.names import SIDES
from ..anatomy.terms import load_terms, plain_words
from ..errors import AnatomicalEmbeddingError
from . import numbers
from .dictionary import BOTH, SILENT, TYPED_LENGTH, Entry, load_dictionary
from .qualifiers import (
    FINDING,
    LEADING,
    PARTS,
    PLACE,
    RELATIONS,
    SEEN,
    TURNS,
    VERBS,
    ZONE_NOUNS,
    ZONES,
    Qualifier,
    denied,
)
from .tokens import MOST_CHARACTERS, Span, Token, Words, split_sentences, tokenise, word_set

_BREAKS = frozenset(",:()[]")
_BETWEEN_ENTRIES = word_set(", and or & /")  # separators in a list of places
_SIDE_REACH, _SAME_SIDE_REACH, _CHAIN_REACH, _NEAR = 4, 6, 4, 5  # words
_MOST_SKIPPED = 5  # words such as "of" in one name
_PART_REACH = 6  # words between a place and its part
_CLAUSE_ENDS = _BREAKS | _BETWEEN_ENTRIES | TURNS
_NOT_BEFORE_A_PART = _CLAUSE_ENDS | {"foreign"}  # a foreign body
# these words end the reach of a side word
_AFTER_A_SIDE = word_set("and is are was with in")
_LONGEST_PHRASE = 9  # words; the dictionary's longest has 5
_PLACES_LIMIT = 60  # names in a sentence


@dataclass(frozen=True)
class Mention:
    """A place that a text names.

    Args:
        places: name of the place, such as kidney_left; two names if both sides of a pair are meant.
        text: the words as written, characters `start` to `end` of the whole text.
        qualifier: a part of the place, or a relation to the place; None for the place itself.
        denied: FINDING if the text denies a finding in the place; PLACE if the text denies the place itself; else "".
        unused: words next to the name, such as "origin", which the search ignores.
    """

    places: tuple[str, ...]
    text: str
    start: int
    end: int
    qualifier: Qualifier | None
    denied: str
    unused: tuple[str, ...]

    @property
    def negated(self) -> bool:
        """Whether the text says that the place, or a finding in the place, is absent."""
        return bool(self.denied)

    @property
    def remark(self) -> str:
        """A remark on the words, to display with the answer; "" if there is no remark."""
        remarks = {
            FINDING: "the text says: no such finding here",
            PLACE: "the text says that the place is missing",
        }
        unused = f"not taken into account: {', '.join(self.unused)}" if self.unused else ""
        return "; ".join(filter(None, (remarks.get(self.denied), unused)))


@dataclass(frozen=True)
class Sentence:
    """A sentence of a report, or a part of a typed query, with the places that are named in this text.

    mentions: the named places; empty if no place is known. text: characters `start` to `end` of the whole text.
    """

    text: str
    start: int
    end: int
    mentions: tuple[Mention, ...]


def parse(text: str) -> list[Mention]:
    """Find the places that a text names, in the order of the text. A text is a few words or several sentences.

    Raises AnatomicalEmbeddingError for a text of more than 30,000 characters.
    """
    return [mention for sentence in parse_report(text) for mention in sentence.mentions]


def parse_report(text: str) -> list[Sentence]:
    """Find the places that each sentence of a text names. Raises the errors of `parse`."""
    return [sentence for sentence, _ in _read(text)]


def parse_query(text: str) -> list[Sentence]:
    """Split a typed query into sentences that name places, and entries of a list that name no place.

    For "liver, xyz", returns the whole text with a mention, and "xyz" without a mention. Raises the errors of `parse`.
    """
    parts = []
    for sentence, unread in _read(text):
        if sentence.mentions:
            parts.append(sentence)
        parts += [
            Sentence(text[entry.start : entry.end], entry.start, entry.end, ()) for entry in unread
        ]
    return parts


def _read(text: str) -> list[tuple[Sentence, list[Span]]]:
    """Return (sentence, unread entries) for each sentence of a text. Unread entries are the entries of a list of places
    that name no place, such as "xyz" in "liver, xyz"; none if the sentence is no such list."""
    if len(text) > MOST_CHARACTERS:
        raise AnatomicalEmbeddingError(
            f"the text has {len(text):,} characters; give a text of at most {MOST_CHARACTERS:,} characters."
        )
    typed = len(text) <= TYPED_LENGTH
    sentences = []
    for span in split_sentences(text):
        tokens = [
            replace(token, word=load_dictionary().known(token.word, typed))
            for token in tokenise(text[span.start : span.end], span.start)
        ]
        words = [token.word for token in tokens]
        names = find_names(words)
        named = {n for name in names for n in name.tokens}
        qualified = give_qualifiers(words, give_sides(words, names), named, typed)
        qualified = drop_vaguer(words, qualified)
        mentions = tuple(_mention(text, tokens, words, name) for name in qualified)
        sentence = Sentence(text[span.start : span.end], span.start, span.end, mentions)
        named |= {n for name in qualified for n in name.tokens}
        sentences.append((sentence, _unread(tokens, words, named)))
    return sentences


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
        is_new = not member.names <= alone
        if not is_new or not (name.names | name.wholes).isdisjoint(member.names | alone):
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
    position = next((n for n in further if words[n] not in _BETWEEN_ENTRIES | SILENT), edge)
    between = words[min(position, edge) + 1 : max(position, edge)]
    return None if _BETWEEN_ENTRIES.isdisjoint(between) else position


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
    if following is None or following.first - position > _NEAR:
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
        ends_reach = _BREAKS | _AFTER_A_SIDE
        if len(between) <= _SIDE_REACH and ends_reach.isdisjoint(between):
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
        if n in named or words[n] in _BREAKS or len(words_before) >= 5:
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
    return not is_list and len(counted) <= _NEAR and {"and", "or"}.isdisjoint(between)


def _mention(text: str, tokens: Sequence[Token], words: Words, name: Name) -> Mention:
    """Make the mention of a name, after all stages. tokens, words: of the name's sentence in `text`."""
    start = tokens[name.first].start
    end = tokens[name.last].end
    denial = denied(words, name.first, name.last, not name.is_adjective)
    places = tuple(entry.name for entry in name.places)
    return Mention(places, text[start:end], start, end, name.qualifier, denial, name.unused)


def _unread(tokens: Sequence[Token], words: Words, named: set[int]) -> list[Span]:
    """If the sentence `words` is a list of places, return the entries that name no place; otherwise return []. named:
    indices in `words` of the words that name a place."""
    entries: list[list[int]] = [
        []
    ]  # indices of the words of each entry, which begins with a letter or a digit
    for n, word in enumerate(words):
        if word in _BETWEEN_ENTRIES and n not in named:
            entries.append([])
        elif word[0].isalnum() or entries[-1]:
            entries[-1].append(n)
    plain = {*SILENT, *SEEN, *ZONES, *ZONE_NOUNS, *PARTS, *plain_words()}
    spans = []
    for entry in entries:
        unread = [n for n in entry if n not in named and words[n] not in plain]
        has_name = not named.isdisjoint(entry)
        if has_name and unread:  # a name among other words: the sentence is no list
            return []
        has_word = any(len(words[n]) > 2 and words[n].isalpha() for n in unread)
        if has_word and not has_name:
            last = max(n for n in entry if words[n][0].isalnum())
            spans.append(Span(tokens[entry[0]].start, tokens[last].end))
    return spans
