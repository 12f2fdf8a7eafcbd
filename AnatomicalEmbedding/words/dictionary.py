"""The dictionary of phrases that name places, and completions of typed words. Words such as "of" are ignored."""

import re
from difflib import get_close_matches
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from ..anatomy.names import SIDES
from ..anatomy.terms import Term, Terms, load_terms, plain_words
from .qualifiers import PARTS, RELATIONS, SEEN, VERBS, ZONE_NOUNS, ZONES
from .tokens import tokenise, word_set

_SHORTEST, _LONGEST = 5, 24  # letters; spelling is corrected only in words of 5 to 24 letters
_ALIKE = 0.85  # least ratio of difflib: allows one mistake in 7 letters, or two in 14
_USUAL_ENDINGS = ("ed", "ing", "ly", "oma", "itis", "osis")  # of words that seldom name places
TYPED_LENGTH = 200  # characters; in a longer text no spelling mistakes are corrected
_MOST_COMPLETIONS = 8  # a list of this length fits below the text field
_COMPLETED_WORDS = 6  # only the last six words of a text are completed
_SHOWN = 60  # characters of the text that a message shows
BOTH = word_set("both bilateral")
SILENT = word_set("of the a an in its this that") | BOTH | set(SIDES)

_NOT_PLURAL = word_set(
    "pancreas ascites biceps triceps quadriceps psoas iliopsoas pons lens atlas teres"
)


class Entry(NamedTuple):
    """One place that a phrase may mean."""

    name: str
    side: str  # side of the place, or ""; the entry is not used if the text names the other side
    demanded: bool  # True if the phrase contains the side: the entry is used only if the text names the side
    adjective: bool = False  # True for an adjective, such as "renal"


class Dictionary:
    """Maps phrases to places. The phrases contain no silent words, that is, no sides and no words such as "of"."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.phrases: dict[tuple[str, ...], list[Entry]] = {}
        for term in terms.by_name.values():
            for words in (term.name.replace("_", " "), *term.words):
                self._add(term, words)
            for words in term.adjectives:
                self._add(term, words, adjective=True)
        self.vocabulary = {word for phrase in self.phrases for word in phrase}
        self.firsts = {phrase[0] for phrase in self.phrases}
        self.parts = self._read_parts()
        # the words to which a misspelled word is corrected
        self._corrections = sorted(
            {*SIDES, *(w for w in self.vocabulary if len(w) >= _SHORTEST and w.isalpha())}
        )
        relations = {word for relation in RELATIONS for word in relation}
        # words of reports that are no names of places, and that are spelt right
        self._usual = {*SEEN, *VERBS, *ZONES, *ZONE_NOUNS, *relations, *plain_words()}

    def known(self, word: str, typed: bool) -> str:
        """Return the dictionary's form of a word: in the singular and, if `typed` is True, with corrected spelling."""
        if word in self.vocabulary or word in SILENT:
            return word
        single = singular(word)
        if single in self.vocabulary:
            return single
        if (
            not typed
            or word in self._usual
            or not word.isalpha()
            or not _SHORTEST <= len(word) <= _LONGEST
        ):
            return word
        alike = [correction for correction in self._corrections if correction[0] == word[0]]
        return next(iter(get_close_matches(word, alike, 1, _ALIKE)), word)

    def is_unknown(self, word: str) -> bool:
        """Return whether a word of three letters or more is neither in the name of a place nor usual in reports."""
        vocabulary = self.vocabulary | self._usual | PARTS | SILENT
        usual = len(word) < 3 or not word.isalpha() or word.endswith(_USUAL_ENDINGS)
        return not usual and vocabulary.isdisjoint((word, singular(word)))

    def entries_of(self, name: str) -> tuple[Entry, ...]:
        """Return the dictionary entries for the name of a place; empty for an unknown name.

        A name with "{s}" in place of the side gives two entries, for the left and the right side.
        """
        terms = self.terms.by_name
        names = dict.fromkeys(name.replace("{s}", side) for side in SIDES)
        return tuple(
            Entry(term_name, terms[term_name].side, demanded=False)
            for term_name in names
            if term_name in terms
        )

    def _read_parts(self) -> dict[str, dict[str, list[Entry]]]:
        """Return, for words such as "neck", the part that the word means in each place: {"neck": {"femur": entries}}.

        The phrases of the part are those of the place and this word, such as "femoral neck" and "neck of femur".
        """
        phrases: dict[str, list[frozenset[str]]] = {}
        for phrase, entries in self.phrases.items():
            for entry in entries:
                phrases.setdefault(entry.name, []).append(frozenset(phrase))
        parts: dict[str, dict[str, list[Entry]]] = {}
        for name, part_phrases in phrases.items():
            for whole in self.terms.ancestors(name):
                for word in PARTS & _added_words(part_phrases, phrases[whole]):
                    places = parts.setdefault(word, {})
                    places.setdefault(whole, []).extend(self.entries_of(name))
        return parts

    def _add(self, term: Term, words: str, adjective: bool = False) -> None:
        """Add the phrase `words` for a place. A side in the words is demanded, unless the place itself has a side."""
        tokens = [singular(token.word) for token in tokenise(words)]
        sides = [word for word in tokens if word in SIDES]
        phrase = tuple(word for word in tokens if word not in SILENT and word != "-")
        if not phrase:
            return
        demanded = bool(sides) and not term.side
        entry = Entry(term.name, sides[0] if demanded else term.side, demanded, adjective)
        entries = self.phrases.setdefault(phrase, [])
        if all(present.name != term.name for present in entries):
            entries.append(entry)


@lru_cache(maxsize=1)
def load_dictionary() -> Dictionary:
    return Dictionary(load_terms())


def _added_words(longer: list[frozenset[str]], shorter: list[frozenset[str]]) -> set[str]:
    """Return the words of which one alone turns one of the shorter phrases into one of the longer phrases."""
    words: set[str] = set()
    for long_phrase, short_phrase in product(longer, shorter):
        if len(long_phrase) == len(short_phrase) + 1 and short_phrase < long_phrase:
            words |= long_phrase - short_phrase
    return words


@lru_cache(maxsize=20_000)
def singular(word: str) -> str:
    """Return the singular of a word with a regular English or Latin plural; other words stay as they are."""
    if len(word) < 4 or not word.isalpha() or word in _NOT_PLURAL:
        return word
    for ending, single in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("xes", "x"), ("s", "")):
        if word.endswith(ending) and not word.endswith(("ss", "us", "is")):
            return word[: -len(ending)] + single
    return word


def suggestions(beginning: str, most: int = 8) -> list[str]:
    """Find places by the `beginning` of a word in their names. Returns the titles of the places, short names first."""
    typed_words = [token.word for token in tokenise(beginning[:TYPED_LENGTH])]
    sides = [word for word in typed_words if word in SIDES]
    plain = " ".join(word for word in typed_words if word not in SIDES)
    if not plain:
        return []
    ranks: dict[str, int] = {}
    for term in load_terms().by_name.values():
        if sides and term.side not in sides:
            continue
        for words in (*term.words, term.title):
            position = f" {words.lower()}".find(f" {plain}")
            if position < 0:
                continue
            # short names and names that begin so come first: one character of position counts like five of length
            rank = position * 5 + len(words)
            ranks[term.title] = min(ranks.get(term.title, rank), rank)
    return sorted(ranks, key=lambda title: (ranks[title], title))[:most]


def completions(typed: str) -> list[str]:
    """Complete the last words of a text to places: "mass in the left adr" -> "mass in the left adrenal gland".

    The last words of the text are completed if the name of a place begins with them; as many words as possible are
    used. If no name begins with the last words, the result is empty.
    """
    if len(typed) > TYPED_LENGTH or typed != typed.rstrip():  # the last word is finished
        return []
    starts = [match.start() for match in re.finditer(r"[^\s,;]+", typed)]
    for start in starts[-_COMPLETED_WORDS:]:
        titles = suggestions(typed[start:], _MOST_COMPLETIONS) if len(typed) - start > 1 else []
        if titles:
            return [typed[:start] + title for title in titles]
    return []


def not_understood(text: str) -> str:
    """Return an error message for words that name no place. The message suggests places that the words may mean."""
    words = text[:TYPED_LENGTH].split()
    titles = []
    for word in words[:8]:
        if len(word) > 2:
            titles += suggestions(word[:4], 2)
    hint = "; name an organ, a bone or a region."
    if titles:
        hint = f"; did you mean {', '.join(dict.fromkeys(titles[:4]))}?"
    excerpt = "".join(letter for letter in " ".join(words) if letter.isprintable())[:_SHOWN]
    return f"'{excerpt}' names no place that is known{hint}"
