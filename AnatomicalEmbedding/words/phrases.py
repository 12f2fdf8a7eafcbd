"""Find the places that a text names. Each sentence is read in four stages.

1. **Find the names** (`place_names`), such as "lower lobe of the left lung".
2. **Give each name its side** (`context`), such as "right" in "12th rib on the right".
3. **Give each name its part or relation** (`context`), such as "upper pole of" or "posterior to".
4. **Drop vaguer names** (`context`): of "left lung, upper lobe", only the lobe is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..anatomy.terms import plain_words
from ..errors import AnatomicalEmbeddingError
from .context import drop_vaguer, give_qualifiers, give_sides
from .dictionary import SILENT, TYPED_LENGTH, load_dictionary
from .place_names import BETWEEN_ENTRIES, Name, find_names
from .qualifiers import FINDING, PARTS, PLACE, SEEN, ZONE_NOUNS, ZONES, Qualifier, denied
from .tokens import MOST_CHARACTERS, Span, Token, Words, split_sentences, tokenise


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
        if word in BETWEEN_ENTRIES and n not in named:
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
