"""Find named places in a scan, and name the places at a point.

>>> from AnatomicalEmbedding.words import PlaceFinder, parse
>>> finder = PlaceFinder(model.embed(volume), volume)
>>> [place for mention in parse("12th rib on the right") for place in finder.find(mention)]
>>> finder.name_at([12.0, -30.5, 410.0])
"""

from importlib import import_module
from typing import Any

_NAMES = {
    ".matching.status": "INSIDE OUTSIDE PARTLY UNCERTAIN",
    ".anatomy.terms": "Term Terms load_terms",
    "atlas": "Atlas shipped_atlas",
    "dictionary": "completions not_understood suggestions",
    "phrases": "Mention Sentence parse parse_query parse_report",
    "placing": "Named Place PlaceFinder points_of",
}
# name -> module in which it is defined, relative to this folder
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:  # lazy: importing torch takes seconds, and phrases need no torch
    if name in _WHERE:
        return getattr(import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
