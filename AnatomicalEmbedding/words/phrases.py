"""Words to places: the longest names of the terms in a sentence, with side, numbers, qualifiers and denial.

A dictionary of all ways to name the places is matched word by word, the longest first ("of" and "the" do not count,
sides are read apart, so that "lower lobe of the left lung" is "left lower lobe"). Numbered bones, discs, segments and
stations may be given as ranges and lists. What is said about a place ("upper pole of", "anterior to", "peri-") is kept
with it as a qualifier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..anatomy.names import SIDES
from ..anatomy.terms import load_terms, plain_words
from ..errors import AnatomicalEmbeddingError
from . import numbers
from .denial import FINDING, PLACE, SEEN, denied
from .dictionary import BOTH, SILENT, Dictionary, Entry, load_dictionary, singular
from .qualifiers import PARTS, PREFIXES, RELATIONS, ZONE_NOUNS, ZONES, Qualifier
from .tokens import MOST_CHARACTERS, Span, Token, split_sentences, tokenise

_BREAKS = frozenset(",:()[]")
_LISTED = frozenset(",:")  # after an organ, whose part follows
_BETWEEN_PARTS = frozenset((",", "and", "or", "&", "/"))  # of a list of places
_SIDE_REACH = 4  # words between a side and its noun
_TURNS = frozenset(("but", "however", "although", "except", "though", "while", "whereas"))
# What a side means that is said of an organ without sides: "right hepatic" is the right lobe of the liver.
_HALVES = {"liver": "liver_lobe", "thyroid_gland": "thyroid_lobe", "brain": "cerebral_hemisphere"}
_LONGEST = 9
_MOST_PLACES = 60  # in a sentence


@dataclass(frozen=True)
class Mention:
    """One place in a text. places: names of terms: one, or both sides of a pair. text: as written, from `start` to
    `end` of the whole text. qualifier: what is said about the place, or None. denied: what the text says is not there,
    "finding" or "place", or "". unused: words next to the place that the answer takes no account of ("origin").
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
        """Does the text say that a finding there, or the place itself, is not there?"""
        return bool(self.denied)

    @property
    def remark(self) -> str:
        """What a reader of the answer must know of the words, or ""."""
        remarks = {FINDING: ["the text says: no such finding here"], PLACE: ["the text says that it is missing"]}
        said = remarks.get(self.denied, [])
        if self.unused:
            said = [*said, f"not taken into account: {', '.join(self.unused)}"]
        return "; ".join(said)


@dataclass(frozen=True)
class Sentence:
    """A sentence of a report, or a part of what somebody typed, and the places in it; none where it is not understood.
    text: from `start` to `end` of the whole.
    """

    text: str
    start: int
    end: int
    mentions: tuple[Mention, ...]


def parse(text: str) -> list[Mention]:
    """The places in a few words or several sentences, in their order.

    Raises AnatomicalEmbeddingError for a text of more than 30,000 characters.
    """
    return [mention for sentence in parse_report(text) for mention in sentence.mentions]


def parse_report(text: str) -> list[Sentence]:
    """Every sentence of a text with its places. Raises as `parse`."""
    return [reading.sentence() for reading in _readings(text)]


def parse_query(text: str) -> list[Sentence]:
    """The parts of what somebody typed to look for; those that are not understood have no mentions. Raises as `parse`.

    Each sentence is a part. In a list of places ("liver, left kidney"), so is each entry that names none.
    """
    parts: list[Sentence] = []
    for reading in _readings(text):
        sentence = reading.sentence()
        parts += [sentence] if sentence.mentions else []
        parts += [Sentence(text[of.start : of.end], of.start, of.end, ()) for of in reading.unread()]
    return parts


def _readings(text: str) -> list[_Reading]:
    if len(text) > MOST_CHARACTERS:
        raise AnatomicalEmbeddingError(
            f"the text has {len(text):,} characters; give at most {MOST_CHARACTERS:,}, or parts of it."
        )
    dictionary = load_dictionary()
    dictionary.spelling.start()
    return [_Reading(text, span, dictionary) for span in split_sentences(text)]


def suggestions(beginning: str, most: int = 8) -> list[str]:
    """Titles of places that have a word with this beginning, the shortest first: for a field with completion."""
    wanted = [t.word for t in tokenise(beginning[:200])]
    sides = [w for w in wanted if w in SIDES]
    plain = " ".join(w for w in wanted if w not in SIDES)
    if not plain:
        return []
    found: dict[str, int] = {}
    for term in load_terms().by_name.values():
        if sides and term.side not in sides:
            continue
        for words in (*term.words, term.title):
            at = f" {words.lower()}".find(f" {plain}")
            if at >= 0:
                found[term.title] = min(found.get(term.title, 999), at * 5 + len(words))
    return sorted(found, key=lambda title: (found[title], title))[:most]


@dataclass(frozen=True)
class _Found:
    """A mention in the making; first, last: its tokens."""

    places: tuple[Entry, ...]
    first: int
    last: int
    side: str = ""  # "left", "right", "both"
    qualifier: Qualifier | None = None


class _Reading:
    """One sentence."""

    def __init__(self, text: str, span: Span, dictionary: Dictionary) -> None:
        self._text, self._span, self._dictionary = text, span, dictionary
        tokens = tokenise(text[span.start : span.end], span.start)
        self._tokens = self._joined([replace(token, word=self._known(token.word)) for token in tokens])
        self._words = [token.word for token in self._tokens]
        self._taken: set[int] = set()  # tokens that name a place

    def _joined(self, tokens: list[Token]) -> list[Token]:
        """ "pre-tracheal" as "pretracheal", where that is a word."""
        result: list[Token] = []
        for token in tokens:
            if len(result) > 1 and result[-1].word == "-" and result[-2].word in PREFIXES:
                word = result[-2].word + token.word
                if word in self._dictionary.vocabulary:
                    result[-2:] = [Token(word, result[-2].start, token.end)]
                    continue
            result.append(token)
        return result

    def sentence(self) -> Sentence:
        found = self._with_organs(self._matches())
        found = self._with_parts(found)
        self._taken = {n for each in found for n in range(each.first, each.last + 1)}
        found = [self._with_half(each) for each in self._with_sides(found)]
        found = self._between(self._most_specific(found))
        mentions = tuple(m for each in found if (m := self._mention(each)) is not None)
        return Sentence(self._text[self._span.start : self._span.end], self._span.start, self._span.end, mentions)

    def _known(self, word: str) -> str:
        vocabulary = self._dictionary.vocabulary
        if word in vocabulary or word in SILENT:
            return word
        single = singular(word)
        if single in vocabulary:
            return single
        return self._dictionary.spelling.corrected(word)

    def _matches(self) -> list[_Found]:
        found: list[_Found] = []
        at = 0
        while at < len(self._words) and len(found) < _MOST_PLACES:
            listed = numbers.read(self._words, at)
            longest = self._longest(at)
            if listed is not None and (longest is None or longest.last < listed[1]):
                names, after = listed
                found += [_Found(self._entries_of(name), at, after - 1) for name in names]
                at = after
                continue
            if longest is None:
                longest = self._prefixed(at)
            if longest is None:
                at += 1
                continue
            found.append(longest)
            at = longest.last + 1
        taken = {n for each in found for n in range(each.first, each.last + 1)}
        return [self._qualified(each, taken) for each in found]

    def _entries_of(self, name: str) -> tuple[Entry, ...]:
        by_name = self._dictionary.terms.by_name
        names = [name] if name in by_name else [n for side in SIDES if (n := name.replace("{s}", side)) in by_name]
        return tuple(Entry(n, by_name[n].side, False) for n in names)

    def _longest(self, at: int) -> _Found | None:
        """The longest phrase from a token on; silent words and sides inside it do not count."""
        if self._words[at] not in self._dictionary.firsts:
            return None
        best, phrase, skipped = None, [], 0
        for n in range(at, min(at + 2 * _LONGEST, len(self._words))):
            word = self._words[n]
            if word in SILENT or word == "-":
                skipped += 1
                if skipped > 3:
                    break
                continue
            phrase.append(word)
            if len(phrase) > _LONGEST:
                break
            entries = self._dictionary.phrases.get(tuple(phrase))
            if entries is not None:
                said = {w for w in self._words[max(at - 2, 0) : n + 3] if w in SIDES}
                kept = tuple(e for e in entries if not e.demanded or e.side in said)
                if kept:
                    best = _Found(kept, at, n)
        return best

    def _prefixed(self, at: int) -> _Found | None:
        """A word made of a prefix and a known one ("supraumbilical"), or the two with a hyphen between."""
        word = self._words[at]
        if not word[0].isalpha():
            return None
        for prefix, kind in PREFIXES.items():
            if word == prefix and self._words[at + 1 : at + 2] == ["-"] and at + 2 < len(self._words):
                found = self._longest(at + 2)
                if found is not None:
                    return replace(found, first=at, qualifier=Qualifier(kind))
            rest = word.removeprefix(prefix)
            if word != prefix and word.startswith(prefix) and len(rest) >= 4:
                entries = self._dictionary.phrases.get((singular(rest),))
                if entries:
                    return _Found(tuple(entries), at, at, qualifier=Qualifier(kind))
        return None

    def _qualified(self, each: _Found, taken: set[int]) -> _Found:
        """With a zone or a relation that stands before it, or a zone behind it."""
        if each.qualifier is not None:
            return each
        before = self._before(each.first, taken)
        for relation, kind in RELATIONS.items():
            if tuple(before[-len(relation) :]) == relation:
                return replace(each, qualifier=Qualifier(kind))  # of "between", the other place is named later
        zone: list[str] = []
        words = before[:-1] if before and before[-1] in ZONE_NOUNS else before
        while words and words[-1] in ZONES:
            zone.append(ZONES[words.pop()])
        if zone:
            return replace(each, qualifier=Qualifier("zone", " ".join(zone)))
        after = [w for n, w in enumerate(self._words[each.last + 1 : each.last + 4], each.last + 1) if n not in taken]
        zone = [ZONES[w] for w in after[:2] if w in ZONES]
        if zone and len(after) > len(zone) and after[len(zone)] in ZONE_NOUNS and after[0] in ZONES:
            return replace(each, qualifier=Qualifier("zone", " ".join(zone)), last=each.last + len(zone) + 1)
        return each

    def _before(self, first: int, taken: set[int]) -> list[str]:
        """Up to five words before a token that are silent words apart; none across a comma or another place."""
        words: list[str] = []
        for n in range(first - 1, max(first - 9, -1), -1):
            if n in taken or self._words[n] in _BREAKS or len(words) >= 5:
                break
            if self._words[n] not in SILENT:
                words.append(self._words[n])
        return words[::-1]

    def _with_organs(self, found: list[_Found]) -> list[_Found]:
        """A segment that is named with an organ is that organ's: not every posterior segment is a lung's."""
        result: list[_Found] = []
        for each in found:
            last = result.pop() if result else None
            joined = None if last is None else self._part_of(last, each) or self._part_of(each, last)
            if joined is None and last is not None:
                result.append(last)
            result.append(joined or each)
        return result

    def _part_of(self, part: _Found, whole: _Found) -> _Found | None:
        """A bare "... segment" read again as a part of another organ next to it; None for what is none."""
        first, second = sorted((part, whole), key=lambda each: each.first)
        between = set(self._words[first.last + 1 : second.first]) - SILENT
        if self._words[part.last] != "segment" or between - (_LISTED if first is whole else set()):
            return None
        organs = self._organs(whole)
        if not organs or set(organs) & set(self._organs(part)):
            return None
        words = tuple(w for w in self._words[part.first : part.last + 1] if w not in SILENT)
        sides = {"", *(entry.side for entry in whole.places), *self._words[whole.first - 1 : whole.last + 1]}
        for wording in (each for organ in organs for each in self._dictionary.terms[organ].words):
            phrase = words + tuple(w for token in tokenise(wording) if (w := singular(token.word)) not in SILENT)
            entries = tuple(e for e in self._dictionary.phrases.get(phrase, ()) if e.side in sides)
            if entries:
                return _Found(entries, first.first, second.last)
        if whole.qualifier is None and words[0] in ZONES:
            return replace(whole, first=first.first, last=second.last, qualifier=Qualifier("zone", ZONES[words[0]]))
        return None

    def _with_parts(self, found: list[_Found]) -> list[_Found]:
        """Each with a part that stands behind it, and without what this part was read as by itself."""
        result: list[_Found] = []
        read = -1  # the last token of such a part
        for each in found:
            if each.first > read:
                result.append(self._with_part(each))
                read = result[-1].last if result[-1] is not each else read
        return result

    def _with_part(self, each: _Found) -> _Found:
        """A place with its part: "liver, right lobe"."""
        if self._words[each.last + 1 : each.last + 2] not in ([","], [":"]):
            return each
        organ = tuple(word for word in self._words[each.first : each.last + 1] if word not in SILENT)
        ancestors, names = self._dictionary.terms.ancestors, {entry.name for entry in each.places}
        best, phrase = each, organ
        for n in range(each.last + 2, min(each.last + 6, len(self._words))):
            if self._words[n] in SILENT:
                continue
            phrase = (*phrase, self._words[n])
            parts = [e for e in self._dictionary.phrases.get(phrase, ()) if names & set(ancestors(e.name))]
            if parts:
                best = replace(each, places=tuple(parts), last=n)
        return best

    def _with_half(self, each: _Found) -> _Found:
        """A side that is said of an organ without sides means its lobe there, unless another noun follows."""
        following = self._words[each.last + 1 : each.last + 2]
        half = next((_HALVES[entry.name] for entry in each.places if entry.name in _HALVES), None)
        if each.side not in SIDES or half is None or not PARTS.isdisjoint(following):
            return each
        return replace(each, places=(Entry(f"{half}_{each.side}", each.side, False),))

    def _organs(self, each: _Found) -> list[str]:
        """What a mention may be and what that is part of, regions apart."""
        terms = self._dictionary.terms
        every = [name for entry in each.places for name in (entry.name, *terms.ancestors(entry.name))]
        return [name for name in dict.fromkeys(every) if terms[name].group != "regions"]

    def _with_sides(self, found: list[_Found]) -> list[_Found]:
        sides: dict[int, str] = {}
        for at, word in enumerate(self._words):
            if word not in SIDES and word not in BOTH:
                continue
            side = "both" if word in BOTH else word
            target = self._owner(at, found)
            if target is not None:
                sides[target] = "both" if sides.get(target, side) != side else side
        for n, each in enumerate(found):  # one list of numbers has one side
            if n not in sides:
                same = [s for m, s in sides.items() if (found[m].first, found[m].last) == (each.first, each.last)]
                if same:
                    sides[n] = same[0]
        result: list[_Found] = []
        for n, each in enumerate(found):
            side = sides.get(n, "")
            sided = any(entry.side for entry in each.places)
            if not side and sided and result:
                last = result[-1]
                between = self._words[last.last + 1 : each.first]
                near = each.first - last.last <= 6
                if last.side and near and not any(w in _TURNS or w in ("on", "to") for w in between):
                    side = last.side
                elif n + 1 in sides and self._one_chain(each, found[n + 1]):
                    side = sides[n + 1]
            elif not side and sided and n + 1 in sides and self._one_chain(each, found[n + 1]):
                side = sides[n + 1]
            if side in SIDES:
                kept = tuple(e for e in each.places if e.side in ("", side))
                if not kept and n not in sides:
                    continue  # a place that this side does not have
                each = replace(each, places=kept or each.places)
            result.append(replace(each, side=side))
        return result

    def _owner(self, at: int, found: list[_Found]) -> int | None:
        """Which mention a side belongs to: the one around it, else before it if "on the" leads to it, else the next."""
        for n, each in enumerate(found):
            if each.first <= at <= each.last:
                return n
        after = next((n for n, each in enumerate(found) if each.first > at), None)
        before = next((n for n in range(len(found) - 1, -1, -1) if found[n].last < at), None)
        led = [w for w in self._words[max(at - 2, 0) : at] if w in ("on", "to", "in")]
        following = None if after is None else self._words[at + 1 : found[after].first]
        if following is not None and len(following) <= _SIDE_REACH and not any(w in _BREAKS for w in following):
            ended = any(w in ("and", "is", "are", "was", "with", "in") for w in following)
            if not (led and before is not None and (ended or len(following) > 1)) and not ended:
                return after
        return before if before is not None and at - found[before].last <= 8 else after

    def _one_chain(self, one: _Found, other: _Found) -> bool:
        ancestors = self._dictionary.terms.ancestors
        close = other.first - one.last <= 4
        pairs = ((a.name, b.name) for a in one.places for b in other.places)
        return close and any(b in ancestors(a) or a in ancestors(b) for a, b in pairs)

    def _most_specific(self, found: list[_Found]) -> list[_Found]:
        """Without what only says where a more exact place is: "left lung, upper lobe", "liver ..., abdomen"."""
        terms = self._dictionary.terms
        names = [{entry.name for entry in each.places} for each in found]
        above = [{parent for name in of for parent in terms.ancestors(name)} for of in names]
        kept = []
        for n, each in enumerate(found):
            general = all(terms[name].group == "regions" for name in names[n])
            weak = False
            for m, other in enumerate(found):
                if m == n or (names[m] != names[n] and not above[m] & names[n]):
                    continue
                near = abs(m - n) == 1 and self._gap(each, other) <= 5
                same = names[m] == names[n] and m < n and near and other.qualifier == each.qualifier
                more_exact = above[m] & names[n] and not names[m] & names[n]
                weak = weak or same or bool(more_exact and (general or (near and each.qualifier is None)))
            if not weak:
                kept.append(each)
        return kept

    def _between(self, found: list[_Found]) -> list[_Found]:
        """With "between A and B" as one place, once the side of B is known."""
        result: list[_Found] = []
        for each in found:
            last = result[-1] if result else None
            if last is not None and last.qualifier == Qualifier("between") and each.first - last.last <= 4:
                other = next((e for e in each.places if e.side == last.places[0].side), each.places[0])
                result[-1] = replace(last, qualifier=Qualifier("between", other.name), last=each.last)
            else:
                result.append(each)
        return [replace(each, qualifier=None) if each.qualifier == Qualifier("between") else each for each in result]

    def _gap(self, one: _Found, other: _Found) -> int:
        first, second = sorted((one, other), key=lambda f: f.first)
        between = self._words[first.last + 1 : second.first]
        return 99 if any(w in ("and", "or") for w in between) else len([w for w in between if w not in SILENT])

    def _mention(self, each: _Found) -> Mention | None:
        names = tuple(entry.name for entry in each.places)
        start, end = self._tokens[each.first].start, self._tokens[each.last].end
        qualifier, unused = self._used(each)
        denial = denied(self._words, each.first, each.last, not all(entry.adjective for entry in each.places))
        return Mention(names, self._text[start:end], start, end, qualifier, denial, unused)

    def _used(self, each: _Found) -> tuple[Qualifier | None, tuple[str, ...]]:
        """The qualifier that the answer follows, and the words next to the place that it does not."""
        qualifier, unused = each.qualifier, []
        if not any(entry.side for entry in each.places):
            unused += [each.side] if each.side in SIDES else []
            zone = qualifier.detail.split() if qualifier is not None and qualifier.kind == "zone" else []
            sideless = [word for word in zone if word not in ("medial", "lateral")]
            if sideless != zone:
                unused += [word for word in zone if word not in sideless]
                qualifier = Qualifier("zone", " ".join(sideless)) if sideless else None
        before = self._before(each.first, self._taken)[-1:]
        after = [n for n in range(each.last + 1, len(self._words)) if self._words[n] not in SILENT | _LISTED][:1]
        behind = [self._words[n] for n in after if n not in self._taken]
        if qualifier is None:
            unused += [word for word in (*before, *behind) if word in PARTS]
        return qualifier, tuple(unused)

    def unread(self) -> list[Span]:
        """Where a list of places has entries that name none, once `sentence` has read it."""
        entries: list[list[int]] = [[]]
        for n, word in enumerate(self._words):
            if word in _BETWEEN_PARTS and n not in self._taken:
                entries.append([])
            elif word[0].isalnum() or entries[-1]:
                entries[-1].append(n)
        plain = {*SILENT, *SEEN, *ZONES, *ZONE_NOUNS, *PARTS, *plain_words()}
        rest = [[n for n in of if n not in self._taken and self._words[n] not in plain] for of in entries]
        named = [not self._taken.isdisjoint(of) for of in entries]
        if any(left for left, place in zip(rest, named, strict=True) if place):
            return []  # prose, in which most words name no place
        strange = [
            [n for n in of if self._words[n][0].isalnum()]
            for of, left, place in zip(entries, rest, named, strict=True)
            if not place and any(len(self._words[n]) > 2 and self._words[n].isalpha() for n in left)
        ]
        return [Span(self._tokens[of[0]].start, self._tokens[of[-1]].end) for of in strange]
