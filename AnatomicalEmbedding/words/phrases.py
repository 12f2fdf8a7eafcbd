"""Words to places: the longest names of the terms in a sentence, with side, numbers, qualifiers and negation.

A dictionary of all ways to name the places is matched word by word, the longest first ("of" and "the" do not count,
sides are read apart, so that "lower lobe of the left lung" is "left lower lobe"). Numbered bones, discs, segments and
stations may be given as ranges and lists. What is said about a place ("upper pole of", "anterior to", "peri-") is kept
with it as a qualifier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from ..errors import AnatomicalEmbeddingError
from . import numbers
from .qualifiers import PREFIXES, RELATIONS, ZONE_NOUNS, ZONES, Qualifier
from .spelling import Spelling
from .structure_names import SIDES
from .terms import Term, Terms, load_terms, plain_words
from .tokens import MOST_CHARACTERS, Span, Token, split_sentences, tokenise

_SILENT = frozenset(["of", "the", "a", "an", "in", "its", "this", "that", "both", "bilateral", "left", "right"])
_BOTH = frozenset(("both", "bilateral"))
_BREAKS = frozenset(",:()[]")
_LISTED = frozenset(",:")  # after an organ, whose part follows
_SIDE_REACH = 4  # words between a side and its noun
_NO = frozenset(("no", "without", "not", "absent", "absence", "denies", "negative", "free", "non", "neither", "nor"))
_NOT_THERE = frozenset(("not", "n't"))
_SEEN = frozenset(
    [
        "detected",
        "observed",
        "seen",
        "found",
        "identified",
        "distinguished",
        "noted",
        "present",
        "demonstrated",
        "visualized",
        "visualised",
        "evident",
        "selected",
        "encountered",
        "monitored",
        "followed",
    ]
)
_TURNS = frozenset(("but", "however", "although", "except", "though", "while", "whereas"))
_LONGEST = 9
_MOST_PLACES = 60  # in a sentence


@dataclass(frozen=True)
class Mention:
    """One place in a text. places: names of terms: one, or both sides of a pair. text: as written, from `start` to
    `end` of the whole text. qualifier: what is said about the place, or None. negated: the finding is said not to be
    there.
    """

    places: tuple[str, ...]
    text: str
    start: int
    end: int
    qualifier: Qualifier | None = None
    negated: bool = False


@dataclass(frozen=True)
class Sentence:
    """A sentence of a report and the places in it. text: from `start` to `end` of the whole."""

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
    if len(text) > MOST_CHARACTERS:
        raise AnatomicalEmbeddingError(
            f"the text has {len(text):,} characters; give at most {MOST_CHARACTERS:,}, or parts of it."
        )
    dictionary = _dictionary()
    dictionary.spelling.start()
    return [_Reading(text, span, dictionary).sentence() for span in split_sentences(text)]


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
class _Entry:
    name: str
    side: str  # that the text must not contradict; "" for none
    demanded: bool  # the side is part of the phrase, so the text must say it


class _Dictionary:
    """Phrases without silent words -> places."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.phrases: dict[tuple[str, ...], list[_Entry]] = {}
        adjectives: set[str] = set()
        for term in terms.by_name.values():
            for words in (term.name.replace("_", " "), *term.words, *term.adjectives):
                self._add(term, words)
            adjectives.update(term.adjectives)
        vocabulary = {word for phrase in self.phrases for word in phrase}
        self.vocabulary = vocabulary
        self.firsts = {phrase[0] for phrase in self.phrases}
        zones = {*ZONES, *ZONE_NOUNS, *(w for relation in RELATIONS for w in relation)}
        spoken = {w for w in vocabulary if len(w) >= 5}
        self.spelling = Spelling(spoken | set(SIDES), {*plain_words(), *zones, *_SEEN, *_BOTH, *_SILENT})

    def _add(self, term: Term, words: str) -> None:
        tokens = [_singular(token.word) for token in tokenise(words)]
        said = [word for word in tokens if word in SIDES]
        phrase = tuple(word for word in tokens if word not in _SILENT and word != "-")
        if not phrase:
            return
        entry = _Entry(term.name, said[0] if said and not term.side else term.side, bool(said) and not term.side)
        held = self.phrases.setdefault(phrase, [])
        if all(other.name != term.name for other in held):
            held.append(entry)


@lru_cache(maxsize=1)
def _dictionary() -> _Dictionary:
    return _Dictionary(load_terms())


@dataclass(frozen=True)
class _Found:
    """A mention in the making; first, last: its tokens."""

    places: tuple[_Entry, ...]
    first: int
    last: int
    side: str = ""  # "left", "right", "both"
    qualifier: Qualifier | None = None


class _Reading:
    """One sentence."""

    def __init__(self, text: str, span: Span, dictionary: _Dictionary) -> None:
        self._text, self._span, self._dictionary = text, span, dictionary
        tokens = tokenise(text[span.start : span.end], span.start)
        self._tokens = self._joined([replace(token, word=self._known(token.word)) for token in tokens])
        self._words = [token.word for token in self._tokens]

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
        found = self._with_sides(found)
        found = self._between(self._most_specific(found))
        mentions = tuple(m for each in found if (m := self._mention(each)) is not None)
        return Sentence(self._text[self._span.start : self._span.end], self._span.start, self._span.end, mentions)

    def _known(self, word: str) -> str:
        vocabulary = self._dictionary.vocabulary
        if word in vocabulary or word in _SILENT:
            return word
        single = _singular(word)
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

    def _entries_of(self, name: str) -> tuple[_Entry, ...]:
        by_name = self._dictionary.terms.by_name
        names = [name] if name in by_name else [n for side in SIDES if (n := name.replace("{s}", side)) in by_name]
        return tuple(_Entry(n, by_name[n].side, False) for n in names)

    def _longest(self, at: int) -> _Found | None:
        """The longest phrase from a token on; silent words and sides inside it do not count."""
        if self._words[at] not in self._dictionary.firsts:
            return None
        best, phrase, skipped = None, [], 0
        for n in range(at, min(at + 2 * _LONGEST, len(self._words))):
            word = self._words[n]
            if word in _SILENT or word == "-":
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
                entries = self._dictionary.phrases.get((_singular(rest),))
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
            if self._words[n] not in _SILENT:
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
        between = set(self._words[first.last + 1 : second.first]) - _SILENT
        if self._words[part.last] != "segment" or between - (_LISTED if first is whole else set()):
            return None
        organs = self._organs(whole)
        if not organs or set(organs) & set(self._organs(part)):
            return None
        words = tuple(w for w in self._words[part.first : part.last + 1] if w not in _SILENT)
        sides = {"", *(entry.side for entry in whole.places), *self._words[whole.first - 1 : whole.last + 1]}
        for wording in (each for organ in organs for each in self._dictionary.terms[organ].words):
            phrase = words + tuple(w for token in tokenise(wording) if (w := _singular(token.word)) not in _SILENT)
            entries = tuple(e for e in self._dictionary.phrases.get(phrase, ()) if e.side in sides)
            if entries:
                return _Found(entries, first.first, second.last)
        if whole.qualifier is None and words[0] in ZONES:
            return replace(whole, first=first.first, last=second.last, qualifier=Qualifier("zone", ZONES[words[0]]))
        return None

    def _organs(self, each: _Found) -> list[str]:
        """What a mention may be and what that is part of, regions apart."""
        terms = self._dictionary.terms
        every = [name for entry in each.places for name in (entry.name, *terms.ancestors(entry.name))]
        return [name for name in dict.fromkeys(every) if terms[name].group != "regions"]

    def _with_sides(self, found: list[_Found]) -> list[_Found]:
        sides: dict[int, str] = {}
        for at, word in enumerate(self._words):
            if word not in SIDES and word not in _BOTH:
                continue
            side = "both" if word in _BOTH else word
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
        return 99 if any(w in ("and", "or") for w in between) else len([w for w in between if w not in _SILENT])

    def _mention(self, each: _Found) -> Mention | None:
        names = tuple(entry.name for entry in each.places)
        start, end = self._tokens[each.first].start, self._tokens[each.last].end
        return Mention(names, self._text[start:end], start, end, each.qualifier, self._negated(each))

    def _negated(self, each: _Found) -> bool:
        for n in range(each.first - 1, -1, -1):
            if self._words[n] in _TURNS or self._words[n] == ";":
                break
            if self._words[n] in _NO:
                return True
        for n in range(each.last + 1, len(self._words)):
            if self._words[n] in _TURNS or self._words[n] == ";":
                break
            if self._words[n] in _NOT_THERE and any(w in _SEEN for w in self._words[n + 1 : n + 4]):
                return True
        return False


@lru_cache(maxsize=20_000)
def _singular(word: str) -> str:
    """A word without the ending of its plural, where English or Latin has a plain one."""
    if len(word) < 4 or not word.isalpha() or word in _NOT_PLURAL:
        return word
    for ending, single in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("xes", "x"), ("s", "")):
        if word.endswith(ending) and not word.endswith(("ss", "us", "is")):
            return word[: -len(ending)] + single
    return word


_NOT_PLURAL = frozenset(
    ["pancreas", "ascites", "biceps", "triceps", "quadriceps", "psoas", "iliopsoas", "pons", "lens", "atlas", "teres"]
)
