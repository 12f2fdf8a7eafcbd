"""Split text into sentences and words. Words are in lower case without accents; "T12" and "4R" are one word each."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..resources import read_rows

Words = Sequence[str]  # the words of one sentence, in their order, as in `Token.word`


def word_set(words: str) -> frozenset[str]:
    """Return the words of a text, which spaces separate."""
    return frozenset(words.split())


MOST_CHARACTERS = 30_000  # ten times a long report; read within a second
_LONGEST_SENTENCE = 800  # characters; longer sentences are read in pieces, to limit the time
# the point of "rt. kidney" ends no sentence
_SENTENCE_END = re.compile(r"(?<![0-9])(?<!\b[LRlr]t)[.!?](?=\s|$)|[.!?](?=\s+[A-Z]|\s*$)|[;\n\r]+")
_WORD = re.compile(
    r"'s(?![a-z0-9])|[0-9]+[.,][0-9]+"
    r"|th[0-9]{1,2}(?![a-z0-9])|[ctlsd][0-9]{1,2}(?![a-z0-9])"
    r"|[0-9]{1,2}(?:st|nd|rd|th)\b"
    r"|[0-9]{1,2}[rlabp](?![a-z0-9])"
    r"|[0-9]+|[a-z]+|[^\s_]"
)
_ROMAN = dict(read_rows("Words/numerals.csv"))
_NUMBERED = word_set("segment level station")
_NODE = word_set(
    "lymph node nodes nodal lymphadenopathy lymphadenopathies adenopathy adenopathies lap laps ln lns lymphnode "
    "lymphnodes lymphonodus"
)
_SIGNS = dict.fromkeys("–—−‐‑", "-") | dict.fromkeys("’‘", "'")
_SAME = {form: word for word, forms in read_rows("Words/spellings.csv") for form in forms.split()}


@dataclass(frozen=True)
class Token:
    """A word of a text. word: lower case, without accents. start, end: position in the text, in characters."""

    word: str
    start: int
    end: int


class Span(NamedTuple):
    """A part of a text, such as a sentence: the characters `start` to `end` of the text."""

    start: int
    end: int


def split_sentences(text: str) -> list[Span]:
    """Return the sentences of a text, without empty sentences."""
    ends = [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
    spans = []
    start = 0
    for end in ends:
        while end - start > _LONGEST_SENTENCE:
            cut = text.rfind(" ", start + 1, start + _LONGEST_SENTENCE)
            cut = start + _LONGEST_SENTENCE if cut < 0 else cut
            spans += _stripped(text, start, cut)
            start = cut
        spans += _stripped(text, start, end)
        start = end
    return spans


def _stripped(text: str, start: int, end: int) -> list[Span]:
    """Return [the span from `start` to `end` without white space at its ends], or [] if the span is blank."""
    piece = text[start:end]
    plain = piece.strip()
    first = start + len(piece) - len(piece.lstrip())
    return [Span(first, first + len(plain))] if plain else []


def tokenise(text: str, offset: int = 0) -> list[Token]:
    """Return the words of a sentence. All words for lymph nodes become "node". offset: added to each start and end."""
    plain, origin = _plain(text)
    tokens: list[Token] = []
    for match in _WORD.finditer(plain):
        word = match.group()
        if word == "'s":
            continue
        start = origin[match.start()] + offset
        end = origin[match.end() - 1] + 1 + offset
        if word in _ROMAN and tokens and _before_a_number(tokens):
            word = _ROMAN[word]
        if word[:2] == "th" and word[2:].isdigit():
            word = "t" + word[2:]
        word = _SAME.get(word, word)
        if word in _NODE:
            if tokens and tokens[-1].word == "node":
                tokens[-1] = Token("node", tokens[-1].start, end)
                continue
            word = "node"
        tokens.append(Token(word, start, end))
    return tokens


def _before_a_number(tokens: list[Token]) -> bool:
    """Return whether the next word may be a Roman numeral, because `tokens` ends like "segment" or "segments 5 and"."""
    if tokens[-1].word in _NUMBERED:
        return True
    listed = (
        tokens[-1].word in ("-", "/", "and", ",")
        and len(tokens) > 2
        and tokens[-2].word[:1].isdigit()
    )
    return listed and any(token.word in _NUMBERED for token in tokens[-5:])


def _plain(text: str) -> tuple[str, list[int]]:
    """Return `text` in lower case without accents, and the position in `text` of each character of this result."""
    letters = []
    origin = []
    for position, letter in enumerate(text):
        if letter < "\x80":
            letters.append(letter.lower())
            origin.append(position)
            continue
        for part in unicodedata.normalize("NFKD", letter).lower():
            if unicodedata.combining(part):
                continue
            letters.append(_SIGNS.get(part, part))
            origin.append(position)
    return "".join(letters), origin
