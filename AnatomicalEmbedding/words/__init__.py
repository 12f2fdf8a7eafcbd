"""Find named places in a scan, and name the places at a point.

>>> from AnatomicalEmbedding.words import PlaceFinder, parse
>>> finder = PlaceFinder(model.embed(volume), volume)
>>> [place for mention in parse("12th rib on the right") for place in finder.find(mention)]
>>> finder.name_at([12.0, -30.5, 410.0])
"""

from importlib import import_module
from typing import Any

_WHERE = (
    dict.fromkeys(("INSIDE", "OUTSIDE", "PARTLY", "UNCERTAIN"), ".matching.status")
    | dict.fromkeys(("Term", "Terms", "load_terms"), ".anatomy.terms")
    | dict.fromkeys(("Atlas", "shipped_atlas"), "atlas")
    | dict.fromkeys(("completions", "not_understood", "suggestions"), "dictionary")
    | dict.fromkeys(("Mention", "Sentence", "parse", "parse_query", "parse_report"), "phrases")
    | dict.fromkeys(("Named", "Place", "PlaceFinder", "points_of"), "placing")
)
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:  # lazy: importing torch takes seconds, and phrases need no torch
    if name in _WHERE:
        return getattr(import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
