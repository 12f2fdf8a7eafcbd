"""Converts words to steps; a step is one place to find. Also writes the answers and the names of points as texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from AnatomicalEmbedding.errors import PointsError

from .PlaceRegion import Region

if TYPE_CHECKING:
    import numpy as np

    from AnatomicalEmbedding.words import Mention, Place, PlaceFinder
    from AnatomicalEmbedding.words.qualifiers import Qualifier

_MOST_STEPS = 60  # largest number of places from one text
_LIKELY = 0.5  # lowest probability of a name that is shown


@dataclass(frozen=True)
class Step:
    """One place that the user's words name. name: key of the place in `load_terms()`.

    qualifier: a part of the place ("upper part of"), or a relation to the place ("above"); None for the place itself.
    negated: True if the words say that a finding, or the place itself, is absent. remark: a note for the user, or "".
    """

    name: str
    qualifier: Qualifier | None
    negated: bool
    remark: str = ""


@dataclass(frozen=True, eq=False)
class FoundPlace:
    """A place in one scan. world: (3,) world mm, or None if the scan does not show the place."""

    place: Place
    region: Region | None
    world: np.ndarray | None

    @property
    def text(self) -> str:
        """The answer as a phrase, such as "found (93 %)"."""
        place = self.place
        if self.world is None:
            where = f"; it lies beyond the {place.side} border of the scan" if place.side else ""
            return f"not in this scan{where}"
        if place.status == "uncertain":
            reasons = "; ".join(filter(None, (place.doubt, place.remark)))
            return f"not certain ({percent(place.probability)}){': ' if reasons else ''}{reasons}"
        verdict = "found"
        if place.side:
            verdict = f"partly in this scan; the rest lies beyond the {place.side} border"
        return f"{verdict} ({percent(place.probability)})"


def stepsOf(text: str) -> tuple[list[Step], list[str]]:
    """Return the places that a typed text names, and a sentence for each part of the text that is not understood."""
    from AnatomicalEmbedding.words import not_understood, parse_query

    parts = parse_query(_ended(text))
    missed = [not_understood(part.text) for part in parts if not part.mentions]
    return steps([mention for part in parts for mention in part.mentions]), missed


def _ended(text: str) -> str:
    """Complete a text that names no place, if the text has only one completion, or only one completion that adds no new
    word. Otherwise, return the text unchanged."""
    from AnatomicalEmbedding.words import completions, parse

    offers = [] if parse(text) else completions(text)
    # completions that only end the last word
    ending = [
        offer
        for offer in offers
        if offer.lower().startswith(text.lower()) and " " not in offer[len(text) :]
    ]
    for choices in (offers, ending):
        if len(choices) == 1:
            return choices[0]
    return text


def steps(mentions: Sequence[Mention]) -> list[Step]:
    """Return the places that the words of `mentions` name, each place once, at most `_MOST_STEPS` places."""
    named = [
        Step(name, mention.qualifier, mention.negated, mention.remark)
        for mention in mentions
        for name in mention.places
    ]
    return list(dict.fromkeys(named))[:_MOST_STEPS]


def titleOf(step: Step) -> str:
    """Return the title of a place, for example "lower lobe of the left lung"."""
    from AnatomicalEmbedding.words import load_terms

    title = load_terms()[step.name].title
    return title if step.qualifier is None else f"{step.qualifier.text} {title}"


def nameOf(finder: PlaceFinder, point: np.ndarray) -> str:
    """Return a text with name and probability of the structure at a point. point: (3,), in the scan's own RAS mm.

    If no structure has a probability of at least 0.5, the text names two separate structures whose probabilities
    together are at least 0.5. If there are no two such structures, return "".
    """
    from AnatomicalEmbedding.words import load_terms

    try:
        places = finder.name_at(point)
    except PointsError:  # the point lies outside the scan
        return ""
    for place in places:
        if place.probability >= _LIKELY:
            return f"{place.title}, {percent(place.probability)}"
    for first, second in combinations(places, 2):
        ancestors = load_terms().ancestors
        related = second.name in ancestors(first.name) or first.name in ancestors(second.name)
        probability = first.probability + second.probability
        if not related and probability >= _LIKELY:
            return f"{first.title} or {second.title}, {percent(probability)}"
    return ""


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"
