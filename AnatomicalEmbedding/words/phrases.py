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
    qualifier: Qualifier | None = None
    denied: str = ""
    unused: tuple[str, ...] = ()

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
    parts: list[Sentence] = []
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
            names += [
                Name(load_dictionary().entries_of(place), position, after - 1) for place in places
            ]
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
    phrases = load_dictionary().phrases
    phrase = tuple(words[n] for n in name.tokens if words[n] not in SILENT)
    # tokens at which the search ends: those of names with several words, and the token after each such name
    complete = {
        n
        for candidate in names
        if candidate.last > candidate.first
        for n in range(candidate.first, candidate.last + 2)
    }
    wholes = name.names | _wholes(name)
    members: list[Name] = []
    edge = name.last if step > 0 else name.first
    while len(phrase) > 1 and phrase in phrases:
        position = _next_member(words, edge, step)
        if position is None or position in complete:
            break
        word = (words[position],)
        # the phrase with 1, 2, ... of its last words replaced by this word (or of its first words, before the name)
        if step > 0:
            joined = [phrase[:-n] + word for n in range(1, len(phrase))]
        else:
            joined = [word + phrase[n:] for n in range(1, len(phrase))]
        entries = next((phrases[candidate] for candidate in joined if candidate in phrases), [])
        fitting = tuple(entry for entry in entries if not entry.demanded or entry.side in words)
        shared = Name(fitting, position, position)
        # the places that the word names without the shared words
        alone = set().union(
            *(candidate.names for candidate in names if position in candidate.tokens)
        )
        if shared.names <= alone or not wholes.isdisjoint(shared.names | alone):
            break
        members.append(shared)
        edge = position
    return members[::step]  # the members before the name were found from right to left


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
    parts = load_dictionary().parts
    terms = load_terms()
    result = list(names)
    alone = {name.first: name for name in names if name.last == name.first}
    inside = {n for name in names for n in name.tokens} - alone.keys()
    for n, word in enumerate(words):
        if word not in parts or n in inside:
            continue
        organ, is_part = _organ_of(words, n, names)
        wholes: set[str] = set()
        if organ is not None:
            wholes = {whole for whole in _wholes(organ) if terms[whole].group != "regions"}
            wholes |= organ.names
        entries = [entry for whole in sorted(wholes) for entry in parts[word].get(whole, ())]
        if n in alone and (entries or (is_part and alone[n].is_region)):
            result.remove(alone[n])
        if entries:
            result.append(Name(tuple(dict.fromkeys(entries)), n, n))
    return sorted(result, key=lambda name: name.first)


def _organ_of(words: Words, position: int, names: Names) -> tuple[Name | None, bool]:
    """Return the place of which word `position`, such as "neck", may be a part, or None; and whether it is surely a
    part of something.

    In "kidney in the pelvis", the pelvis is no part of the kidney. In "neck of the aneurysm", the place has no name.
    """
    follows_of = words[position + 1 : position + 2] == ["of"]
    if follows_of and words[position + 2 : position + 3] != ["patient"]:
        return _next_in_clause(words, position, names), True
    organ = next((name for name in reversed(names) if name.last < position), None)
    between = [] if organ is None else words[organ.last + 1 : position]
    if organ is None or len(between) > _PART_REACH or not _NOT_BEFORE_A_PART.isdisjoint(between):
        return None, False
    # the word before the place that tells whether the place is the subject of the clause
    lead = next(
        (word for word in reversed(words[: organ.first]) if word not in SILENT or word in LEADING),
        "",
    )
    is_subject = not organ.is_adjective and lead not in LEADING
    is_subject = is_subject and set(between) <= LEADING | VERBS | SILENT
    if is_subject and {"in", "within"} & set(between):
        return None, False
    return organ, organ.is_adjective and not between and not organ.is_region


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
        if words[n] in SILENT or words[n] == "-":
            skipped += 1
        else:
            phrase.append(words[n])
        if skipped > _MOST_SKIPPED or len(phrase) > _LONGEST_PHRASE:
            break
        if words[n] != phrase[-1]:  # a name does not end with a skipped word
            continue
        surroundings = words[max(start - 2, 0) : n + 3]  # where a demanded side may stand
        entries = dictionary.phrases.get(tuple(phrase), ())
        fitting = tuple(
            entry for entry in entries if not entry.demanded or entry.side in surroundings
        )
        best = Name(fitting, start, n) if fitting else best
    return best


def give_sides(words: Words, names: Names) -> list[Name]:
    """Stage 2: give the names their sides. A name is dropped if it would get a side that its place does not have."""
    # by tokens, because all names of a list such as "ribs 3 to 5" have one side
    sides: dict[range, str] = {}
    for position, word in enumerate(words):
        owner = _owner(words, position, names) if word in SIDES or word in BOTH else None
        if owner is not None:
            side = "both" if word in BOTH else word
            sides[owner.tokens] = "both" if sides.get(owner.tokens, side) != side else side
    result: list[Name] = []
    for n, name in enumerate(names):
        side = sides.get(name.tokens, "")
        if not side and name.has_sides:
            side = _shared_side(words, result[-1], name) if result else ""
            following = names[n + 1] if n + 1 < len(names) else name
            is_near = following.first - name.last <= _CHAIN_REACH
            if not side and is_near and _is_part(name, following):
                side = sides.get(following.tokens, "")
        if side in SIDES:
            on_side = tuple(entry for entry in name.places if entry.side in ("", side))
            if not on_side and name.tokens not in sides:
                continue  # the side comes from another name, and the place does not exist on this side
            name = replace(name, places=on_side or name.places)
        result.append(replace(name, side=side))
    return result


def _owner(words: Words, position: int, names: Names) -> Name | None:
    """Return the name to which word number `position`, a side such as "left", belongs: the name that contains the word,
    or else the next name if it is near, or else the former name if it is near, or else the next name at any
    distance."""
    containing = next((name for name in names if position in name.tokens), None)
    if containing is not None:
        return containing
    before = next((name for name in reversed(names) if name.last < position), None)
    after = next((name for name in names if name.first > position), None)
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
    return not (_wholes(part).isdisjoint(whole.names) and _wholes(whole).isdisjoint(part.names))


def _wholes(part: Name) -> set[str]:
    """Return the names of all places that contain a place of `part`."""
    return {whole for name in part.names for whole in load_terms().ancestors(name)}


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
        # phrases of two words come first: "anterior to" before "to"
        relation = RELATIONS.get(tuple(before[-2:])) or RELATIONS.get(tuple(before[-1:]), "")
        zones, last = ([], name.last) if relation else _zones(words, name, before, named)
        usable = [zone for zone in zones if name.has_sides or zone not in ("medial", "lateral")]
        unused = [zone for zone in zones if zone not in usable]
        if name.side in SIDES and not name.has_sides:
            unused.insert(0, name.side)
        qualifier = Qualifier(relation) if relation else None
        if usable:
            qualifier = Qualifier("zone", " ".join(usable))
        # the word before the name and the word after it, unless they are in a name
        behind = [n for n in range(last + 1, len(words)) if words[n] not in SILENT | {",", ":"}][:1]
        next_to = [*before[-1:], *(words[n] for n in behind if n not in named)]
        unused += [word for word in next_to if qualifier is None and word in PARTS]
        unused += [word for word in next_to if typed and load_dictionary().is_unknown(word)]
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


def _zones(words: Words, name: Name, before: list[str], named: set[int]) -> tuple[list[str], int]:
    """Return the zones (such as "upper" in "upper pole of") that words near a name add to `name`, and the
    index of the last word that belongs to the name or to its zones.

    The zones stand before the name, with or without a noun ("upper pole of"), or behind it, with a noun ("upper pole").
    """
    leading = list(before)
    if leading and leading[-1] in ZONE_NOUNS:
        leading.pop()
    zones: list[str] = []
    while leading and leading[-1] in ZONES:
        zones.append(ZONES[leading.pop()])
    if zones:
        return zones, name.last
    behind = [
        words[n] for n in range(name.last + 1, min(name.last + 4, len(words))) if n not in named
    ]
    # number of zone words directly behind the name
    count = next((n for n, word in enumerate(behind) if word not in ZONES), 0)
    if count and behind[count] in ZONE_NOUNS:
        return [ZONES[word] for word in behind[:count]], name.last + count + 1
    return [], name.last


def drop_vaguer(words: Words, names: Names) -> list[Name]:
    """Stage 4: drop the name of a place if another name means a part of this place. Drop repeated names.

    The name of a region is dropped if any name of the sentence means a part of it, other names only beside such a name.
    """
    wholes = [_wholes(name) for name in names]  # places that contain a place of each name
    precise = []
    for n, name in enumerate(names):
        dropped = False
        for m, rival in enumerate(names):
            are_near = (
                abs(m - n) == 1 and name.tokens != rival.tokens and _are_near(words, name, rival)
            )
            is_equal = rival.names == name.names and rival.qualifier == name.qualifier
            if m < n and are_near and is_equal:
                dropped = True
            # the rival means a part of this place
            elif wholes[m] & name.names and not rival.names & name.names:
                dropped |= name.is_region or (are_near and name.qualifier is None)
        if not dropped:
            precise.append(name)
    return precise


def _are_near(words: Words, *names: Name) -> bool:
    """Return whether at most five words stand between two names, not counting those in SILENT, and no "and" or "or"."""
    first, second = sorted(names, key=lambda name: name.first)
    between = words[first.last + 1 : second.first]
    counted = [word for word in between if word not in SILENT]
    return len(counted) <= _NEAR and {"and", "or"}.isdisjoint(between)


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
    entries: list[list[int]] = [[]]
    for n, word in enumerate(words):
        if word in _BETWEEN_ENTRIES and n not in named:
            entries.append([])
        elif word[0].isalnum() or entries[-1]:
            entries[-1].append(n)
    plain = {*SILENT, *SEEN, *ZONES, *ZONE_NOUNS, *PARTS, *plain_words()}
    spans = []
    for entry in entries:
        unread = [n for n in entry if n not in named and words[n] not in plain]
        if not named.isdisjoint(entry):
            if unread:  # a name among other words: the sentence is no list
                return []
        elif any(len(words[n]) > 2 and words[n].isalpha() for n in unread):
            written = [n for n in entry if words[n][0].isalnum()]
            spans.append(Span(tokens[written[0]].start, tokens[written[-1]].end))
    return spans
