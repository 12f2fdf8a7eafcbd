"""Sentences that name places, made from templates or taken from reports, with the names of these places."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...anatomy.terms import load_terms, plain_words
from ...words.phrases import parse_report
from .network import MASK
from .organs import Organs

# {place}: a name of a place; {near}: a name of a place near it; {adjective}: its adjective, such as "hepatic"
FAMILIES: dict[str, tuple[str, ...]] = {
    "name": ("{place}", "the {place}", "{finding} {place}", "{place}, {finding}"),
    "seen": (
        "there is a {size} {finding} in the {place}", "a {finding} of {size} is seen in the {place}",
        "{finding} within the {place}, measuring {size}", "new {finding} in the {place}",
    ),
    "near": (
        "{finding} in the {place}, close to the {near}", "{size} {finding} between the {place} and the {near}",
        "the {finding} of the {place} reaches the {near}",
    ),
    "normal": ("the {place} is unremarkable", "no {finding} in the {place}", "normal {place} and {near}"),
    "adjective": ("{adjective} {finding}", "a {size} {adjective} {finding}", "{finding}, {adjective}"),
    "change": ("the {finding} in the {place} has grown to {size}", "unchanged {finding} of the {place}"),
}  # fmt: skip
_FINDINGS = (
    "lesion", "mass", "nodule", "abnormality", "metastasis", "swelling", "calcification", "tumour", "collection",
    "enhancing focus", "asymmetry",
)  # fmt: skip
_OF_VESSELS = ("thrombus", "stenosis", "aneurysm", "dissection", "occlusion")
_FINDINGS_OF = {
    "bone": ("fracture", "lytic lesion", "sclerotic focus", "erosion", "marrow change"),
    "lung": ("consolidation", "ground-glass opacity", "atelectasis", "emphysema", "infiltrate"),
    "vessel": _OF_VESSELS,
    "artery": _OF_VESSELS,
    "muscle": ("haematoma", "atrophy", "strain", "fatty infiltration"),
    "soft": ("cyst", "abscess", "infarct", "hypodense area"),
    "fluid": ("stone", "wall thickening", "distension"),
    "bowel": ("obstruction", "wall thickening", "diverticulitis", "perforation"),
    "brain": ("haemorrhage", "infarct", "oedema"),
    "fat": ("stranding", "free fluid", "lipoma"),
    "air": ("mucosal thickening", "opacification", "secretions"),
}
_SLOT = re.compile(r"\{(\w+)\}")
_SIDE_SAID = 0.75  # probability that the side of a place is named, if it has one


@dataclass(frozen=True)
class Example:
    """A sentence. organs: the places that it names. spans: (start, end) of their names in `text`, in characters."""

    text: str
    organs: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]

    def masked(self, share: float, rng: np.random.Generator) -> str:
        """Replace this share of the names of places by a mask (Grujicic 2020, section 6.1.4); returns the text."""
        text = self.text
        for start, end in sorted(self.spans, reverse=True):
            if rng.random() < share:
                text = text[:start] + MASK + text[end:]
        return text


class SentenceMaker:
    """Makes sentences from templates, with random places and words. All places are equally likely.

    around: up to so many common words of reports are put before half of the sentences, and after half of them.
    """

    def __init__(self, organs: Organs, families: dict[str, tuple[str, ...]] = FAMILIES, around: int = 4) -> None:
        self._organs, self._around = organs, around
        self._templates = [template for of in families.values() for template in of]
        self._plain = np.array(sorted(plain_words()))
        self._adjectival = [name for name in organs.names if load_terms()[name].adjectives]

    def draw(self, rng: np.random.Generator) -> Example:
        template = self._templates[rng.integers(len(self._templates))]
        places = self._adjectival if "{adjective}" in template else self._organs.names
        place = places[rng.integers(len(places))]
        near, tissue = self._organs.near(place), load_terms()[place].tissue
        findings = (*_FINDINGS, *_FINDINGS_OF.get(tissue, ()) * 3)
        text, organs, spans, after = "", [], [], 0
        for slot in _SLOT.finditer(template):
            text += template[after : slot.start()]
            after = slot.end()
            kind = slot[1]
            if kind == "size":
                text += f"{rng.integers(3, 90)} mm" if rng.random() < 0.5 else f"{rng.integers(10, 90) / 10} cm"
            elif kind == "finding":
                text += findings[rng.integers(len(findings))]
            else:
                of = near[rng.integers(len(near))] if kind == "near" else place
                words, span, names = _named(of, kind == "adjective", rng)
                spans.append((len(text) + span[0], len(text) + span[1]))
                text += words
                organs += [name for name in names if name in self._organs.index and name not in organs]
        lead, tail = self._common(rng), f" {self._common(rng)}".rstrip()
        moved = tuple((start + len(lead), end + len(lead)) for start, end in spans)
        return Example(lead + text + template[after:] + tail, tuple(organs), moved)

    def _common(self, rng: np.random.Generator) -> str:
        """Draw a few common words; a space follows each word."""
        count = max(0, int(rng.integers(-self._around, self._around + 1)))
        return "".join(f"{word} " for word in self._plain[rng.integers(len(self._plain), size=count)])


def _named(name: str, adjective: bool, rng: np.random.Generator) -> tuple[str, tuple[int, int], tuple[str, ...]]:
    """Choose a name for a place; returns it, (start, end) of its part without the side, and all places it may mean."""
    term = load_terms()[name]
    ways = term.adjectives if adjective else term.words or (term.title,)
    word = ways[rng.integers(len(ways))]
    side = term.side if term.side not in word.lower().split() and rng.random() < _SIDE_SAID else ""
    names = _meanings()[word.lower()]
    meant = tuple(n for n in names if not side or load_terms()[n].side in ("", side))
    if term.side in word.lower().split():
        meant = (name,)
    if side and not adjective and rng.random() < 0.2:
        return f"{word} on the {side}", (0, len(word)), meant
    start = len(side) + 1 if side else 0
    return f"{side} {word}".strip(), (start, start + len(word)), meant


@lru_cache(maxsize=1)
def _meanings() -> dict[str, tuple[str, ...]]:
    """Return all places that each name or adjective may mean, by the name in lower case."""
    found: dict[str, list[str]] = {}
    for term in load_terms().by_name.values():
        for word in {w.lower() for w in (*term.words, *term.adjectives, term.title)}:
            found.setdefault(word, []).append(term.name)
    return {word: tuple(names) for word, names in found.items()}


def sentences_of(reports: Iterable[str], organs: Organs) -> list[Example]:
    """Collect the sentences of reports that name places. The dictionary of `words` finds the places.

    Raises AnatomicalEmbeddingError if a report has more than 30,000 characters.
    """
    found = []
    for report in reports:
        for sentence in parse_report(report):
            names = dict.fromkeys(n for m in sentence.mentions for n in m.places if n in organs.index)
            if names:
                spans = {(m.start - sentence.start, m.end - sentence.start) for m in sentence.mentions}
                found.append(Example(sentence.text, tuple(names), _apart(spans)))
    return found


def _apart(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Join spans that overlap, as in "ribs 3 to 5"; returns the spans in order."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)
