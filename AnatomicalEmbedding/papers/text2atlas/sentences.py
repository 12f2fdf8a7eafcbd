"""Sentences that name places, made from templates or taken from reports, with the names of these places."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...anatomy.terms import load_terms, plain_words
from ...words.phrases import parse, parse_report
from .network import MASK
from .organs import Organs

# {place}: name of a place; {near}: name of another place near this place; {adjective}: adjective such as "hepatic"
FAMILIES: dict[str, tuple[str, ...]] = {
    "name": ("{place}", "the {place}", "{finding} {place}", "{place}, {finding}"),
    "seen": (
        "there is a {size} {finding} in the {place}",
        "a {finding} of {size} is seen in the {place}",
        "{finding} within the {place}, measuring {size}",
        "new {finding} in the {place}",
    ),
    "near": (
        "{finding} in the {place}, close to the {near}",
        "{size} {finding} between the {place} and the {near}",
        "the {finding} of the {place} reaches the {near}",
    ),
    "normal": (
        "the {place} is unremarkable",
        "no {finding} in the {place}",
        "normal {place} and {near}",
    ),
    "adjective": (
        "{adjective} {finding}",
        "a {size} {adjective} {finding}",
        "{finding}, {adjective}",
    ),
    "change": (
        "the {finding} in the {place} has grown to {size}",
        "unchanged {finding} of the {place}",
    ),
}
_FINDINGS = (
    *(
        "lesion",
        "mass",
        "nodule",
        "abnormality",
        "metastasis",
        "swelling",
        "calcification",
        "tumour",
        "collection",
    ),
    *(
        "enhancing focus",
        "asymmetry",
        "cyst",
        "abscess",
        "fracture",
        "thrombus",
        "stenosis",
        "haemorrhage",
    ),
    "thickening",
)
_SLOT = re.compile(r"\{(\w+)\}")
_SIDE_NAMED = 0.75  # probability that the side of a place is named, if it has one


@dataclass(frozen=True)
class NamedSentence:
    """A sentence. organs: the places that the sentence names. spans: first and last + 1 character of each name."""

    text: str
    organs: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]

    def masked(self, share: float, rng: np.random.Generator) -> str:
        """Return the text. A mask replaces each place name with probability `share` (Grujicic 2020, 6.1.4)."""
        text = self.text
        for start, end in sorted(self.spans, reverse=True):
            if rng.random() < share:
                text = text[:start] + MASK + text[end:]
        return text


class SentenceMaker:
    """Makes sentences from templates, with random places and words. All places are equally likely.

    around: largest number of random common words before and after a sentence. About half of the time, no word is added.
    """

    def __init__(
        self, organs: Organs, families: dict[str, tuple[str, ...]] = FAMILIES, around: int = 4
    ) -> None:
        self._organs = organs
        self._around = around
        self._templates = [template for family in families.values() for template in family]
        self._plain = np.array(sorted(plain_words()))
        self._adjectival = [name for name in organs.names if load_terms()[name].adjectives]

    def draw(self, rng: np.random.Generator) -> NamedSentence:
        template = self._templates[rng.integers(len(self._templates))]
        places = self._adjectival if "{adjective}" in template else self._organs.names
        place = places[rng.integers(len(places))]
        near_places = self._organs.near(place)
        text = ""
        organs = []
        spans = []
        after = 0
        for slot in _SLOT.finditer(template):
            text += template[after : slot.start()]
            after = slot.end()
            kind = slot[1]
            if kind == "size":
                text += (
                    f"{rng.integers(3, 90)} mm"
                    if rng.random() < 0.5
                    else f"{rng.integers(10, 90) / 10} cm"
                )
            elif kind == "finding":
                text += _FINDINGS[rng.integers(len(_FINDINGS))]
            else:
                named = near_places[rng.integers(len(near_places))] if kind == "near" else place
                words = _words_for(named, kind == "adjective", rng)
                for mention in _mentions(words):
                    spans.append((len(text) + mention.start, len(text) + mention.end))
                    organs += [
                        name
                        for name in mention.places
                        if name in self._organs.index and name not in organs
                    ]
                text += words
        lead = self._common(rng)
        tail = f" {self._common(rng)}".rstrip()
        moved = tuple((start + len(lead), end + len(lead)) for start, end in spans)
        return NamedSentence(lead + text + template[after:] + tail, tuple(organs), moved)

    def _common(self, rng: np.random.Generator) -> str:
        count = max(0, int(rng.integers(-self._around, self._around + 1)))
        return "".join(
            f"{word} " for word in self._plain[rng.integers(len(self._plain), size=count)]
        )


def _words_for(name: str, adjective: bool, rng: np.random.Generator) -> str:
    """Return a random name (or adjective, if `adjective`) of a structure. The side of a structure is usually named."""
    term = load_terms()[name]
    ways = term.adjectives if adjective else term.words or (term.title,)
    word = ways[rng.integers(len(ways))]
    if not term.side or term.side in word.lower().split() or rng.random() > _SIDE_NAMED:
        return word
    return (
        f"{word} on the {term.side}"
        if not adjective and rng.random() < 0.2
        else f"{term.side} {word}"
    )


_mentions = lru_cache(maxsize=20_000)(parse)  # the places that the words mean


def sentences_of(reports: Iterable[str], organs: Organs) -> list[NamedSentence]:
    """Return the sentences of reports that name places. The dictionary of `words` finds the places.

    Raises AnatomicalEmbeddingError if a report has more than 30,000 characters.
    """
    sentences = []
    for report in reports:
        for sentence in parse_report(report):
            names = dict.fromkeys(
                n for m in sentence.mentions for n in m.places if n in organs.index
            )
            if names:
                spans = {
                    (m.start - sentence.start, m.end - sentence.start) for m in sentence.mentions
                }
                sentences.append(NamedSentence(sentence.text, tuple(names), _joined(spans)))
    return sentences


def _joined(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the spans (start, end) in the order of the text. Spans that overlap are joined to one span."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)
