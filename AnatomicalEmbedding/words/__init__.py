"""Places by words in a scan, and the names of the places at a point.

>>> from AnatomicalEmbedding.words import PlaceFinder, parse
>>> finder = PlaceFinder(model.embed(volume), volume)
>>> [place for mention in parse("12th rib on the right") for place in finder.find(mention)]
>>> finder.name_at([12.0, -30.5, 410.0])
"""

from importlib import import_module
from typing import Any

_WHERE = {
    "INSIDE": "placing",
    "OUTSIDE": "placing",
    "UNCERTAIN": "placing",
    "PARTLY": "placing",
    "Atlas": "atlas",
    "Mention": "phrases",
    "Named": "placing",
    "Place": "placing",
    "PlaceFinder": "placing",
    "Sentence": "phrases",
    "Term": ".anatomy.terms",
    "Terms": ".anatomy.terms",
    "completions": "completion",
    "load_terms": ".anatomy.terms",
    "not_understood": "completion",
    "parse": "phrases",
    "parse_query": "phrases",
    "parse_report": "phrases",
    "shipped_atlas": "atlas",
    "suggestions": "phrases",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:  # phrases are read without torch, which takes seconds to import
    if name in _WHERE:
        return getattr(import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
