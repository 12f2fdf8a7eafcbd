"""All ways to name the places, word by word, without the words that do not count; and completions of typed words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from ..anatomy.names import SIDES
from ..anatomy.terms import Term, Terms, load_terms, plain_words
from .qualifiers import RELATIONS, SEEN, ZONE_NOUNS, ZONES
from .tokens import tokenise

_SHORTEST, _LONGEST = 5, 24  # letters of a word whose slips are forgiven
_ALIKE = 0.85  # as difflib counts: one slip in 7 letters, two in 14
TYPED_LENGTH = 200  # characters; in a longer text words are read as they are written
_COMPLETED_WORDS = 6  # at the end of the text, in which a place may begin
_SHOWN = 60  # characters
BOTH = frozenset(("both", "bilateral"))
SILENT = frozenset(("of", "the", "a", "an", "in", "its", "this", "that", *BOTH, *SIDES))

_NOT_PLURAL = frozenset(
    ["pancreas", "ascites", "biceps", "triceps", "quadriceps", "psoas", "iliopsoas", "pons", "lens", "atlas", "teres"]
)


@dataclass(frozen=True)
class Entry:
    """One place that a phrase may mean."""

    name: str
    side: str  # that the text must not contradict, or ""
    demanded: bool  # the side is part of the phrase, so the text must say it
    adjective: bool = False  # the phrase stands before a noun


class Dictionary:
    """Phrases without silent words -> places."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.phrases: dict[tuple[str, ...], list[Entry]] = {}
        for term in terms.by_name.values():
            for words in (term.name.replace("_", " "), *term.words):
                self._add(term, words)
            for words in term.adjectives:
                self._add(term, words, adjective=True)
        vocabulary = {word for phrase in self.phrases for word in phrase}
        self.vocabulary = vocabulary
        self.firsts = {phrase[0] for phrase in self.phrases}
        self._slips = sorted({*SIDES, *(word for word in vocabulary if len(word) >= _SHORTEST and word.isalpha())})
        relations = {word for relation in RELATIONS for word in relation}
        self._right = {*SEEN, *ZONES, *ZONE_NOUNS, *relations, *plain_words()}

    def known(self, word: str, typed: bool) -> str:
        """A word as the dictionary has it: in the singular and, of typed words, without a slip of spelling."""
        if word in self.vocabulary or word in SILENT:
            return word
        single = singular(word)
        if single in self.vocabulary:
            return single
        if not typed or word in self._right or not word.isalpha() or not _SHORTEST <= len(word) <= _LONGEST:
            return word
        alike = [each for each in self._slips if each[0] == word[0]]
        return next(iter(get_close_matches(word, alike, 1, _ALIKE)), word)

    def entries_of(self, name: str) -> tuple[Entry, ...]:
        """The place of a name, or both of one with "{s}" for the side; empty where there is no such place."""
        terms = self.terms.by_name
        names = dict.fromkeys(name.replace("{s}", side) for side in SIDES)
        return tuple(Entry(each, terms[each].side, False) for each in names if each in terms)

    def _add(self, term: Term, words: str, adjective: bool = False) -> None:
        tokens = [singular(token.word) for token in tokenise(words)]
        said = [word for word in tokens if word in SIDES]
        phrase = tuple(word for word in tokens if word not in SILENT and word != "-")
        if not phrase:
            return
        side = said[0] if said and not term.side else term.side
        entry = Entry(term.name, side, bool(said) and not term.side, adjective)
        held = self.phrases.setdefault(phrase, [])
        if all(other.name != term.name for other in held):
            held.append(entry)


@lru_cache(maxsize=1)
def load_dictionary() -> Dictionary:
    """Of the shipped places."""
    return Dictionary(load_terms())


@lru_cache(maxsize=20_000)
def singular(word: str) -> str:
    """A word without the ending of its plural, where English or Latin has a plain one."""
    if len(word) < 4 or not word.isalpha() or word in _NOT_PLURAL:
        return word
    for ending, single in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("xes", "x"), ("s", "")):
        if word.endswith(ending) and not word.endswith(("ss", "us", "is")):
            return word[: -len(ending)] + single
    return word


def suggestions(beginning: str, most: int = 8) -> list[str]:
    """Titles of places that have a word with this beginning, the shortest first: for a field with completion."""
    wanted = [token.word for token in tokenise(beginning[:TYPED_LENGTH])]
    sides = [word for word in wanted if word in SIDES]
    plain = " ".join(word for word in wanted if word not in SIDES)
    found: dict[str, int] = {}
    for term in load_terms().by_name.values() if plain else ():
        if sides and term.side not in sides:
            continue
        for words in (*term.words, term.title):
            at = f" {words.lower()}".find(f" {plain}")
            if at >= 0:
                found[term.title] = min(found.get(term.title, 999), at * 5 + len(words))
    return sorted(found, key=lambda title: (found[title], title))[:most]


def completions(typed: str, most: int = 8) -> list[str]:
    """The text with its last words completed to places: "mass in the left adr" to "mass in the left adrenal gland".

    The longest ending that begins a place counts. Empty where no ending does.
    """
    if len(typed) > TYPED_LENGTH or not typed.strip() or typed != typed.rstrip():
        return []
    starts = [found.start() for found in re.finditer(r"[^\s,;]+", typed)]
    for start in starts[-_COMPLETED_WORDS:]:
        found = suggestions(typed[start:], most) if len(typed) - start > 1 else []
        if found:
            return [typed[:start] + title for title in found]
    return []


def not_understood(text: str) -> str:
    """A sentence for words that name no place, with places that the words may mean."""
    near = [title for word in text[:TYPED_LENGTH].split()[:8] if len(word) > 2 for title in suggestions(word[:4], 2)][
        :4
    ]
    hint = f"; did you mean {', '.join(dict.fromkeys(near))}?" if near else "; name an organ, a bone or a region."
    shown = "".join(letter for letter in " ".join(text[:TYPED_LENGTH].split()) if letter.isprintable())[:_SHOWN]
    return f"'{shown}': names no place that is known{hint}"
