"""Words to places: say it, see it in this patient's scan; and the name of what lies at a point.

>>> from AnatomicalEmbedding.words import PlaceFinder, parse
>>> finder = PlaceFinder(model.embed(volume), volume)
>>> [place for mention in parse("12th rib on the right") for place in finder.find(mention)]
>>> finder.name_at([12.0, -30.5, 410.0])
"""

from .atlas import Atlas, shipped_atlas
from .completion import completions, not_understood
from .phrases import Mention, Sentence, parse, parse_report, suggestions
from .placing import INSIDE, OUTSIDE, PARTLY, Named, Place, PlaceFinder
from .terms import Term, Terms, load_terms

__all__ = [
    "INSIDE",
    "OUTSIDE",
    "PARTLY",
    "Atlas",
    "Mention",
    "Named",
    "Place",
    "PlaceFinder",
    "Sentence",
    "Term",
    "Terms",
    "completions",
    "load_terms",
    "not_understood",
    "parse",
    "parse_report",
    "shipped_atlas",
    "suggestions",
]
