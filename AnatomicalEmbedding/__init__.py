"""Anatomical embeddings of CT: a point in one scan, the same anatomical point, in world mm, in another.

>>> from AnatomicalEmbedding import Volume, load_model, match
>>> model = load_model()
>>> template, target = (model.embed(Volume.read(path)) for path in ("a.nii.gz", "b.nii.gz"))
>>> match(template, [[12.0, -30.5, 410.0]], target).points_ras
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "AnatomicalEmbeddingError": "errors",
    "EmbeddingMap": "api",
    "Matches": "matching.match",
    "Model": "api",
    "PointList": "scan.points",
    "Volume": "scan.volume",
    "load_model": "api",
    "match": "matching.match",
    "match_all": "matching.match",
    "read_points": "scan.points",
    "write_markups": "scan.points",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:  # torch takes seconds to import: modules are loaded at first use
    if name in _WHERE:
        return getattr(import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
