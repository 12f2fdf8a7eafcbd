"""Anatomical embeddings of CT: find a point of one scan in another scan, as a position in RAS mm.

>>> from AnatomicalEmbedding import load_model, match
>>> model = load_model()
>>> template, target = (model.embed(path) for path in ("a.nii.gz", "b.nii.gz"))
>>> match(template, [[12.0, -30.5, 410.0]], target).points_ras
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "AnatomicalEmbeddingError": "errors",
    "EmbeddingMap": "embedding.map",
    "Matches": "matching.match",
    "Model": "embedding.inference",
    "PointList": "scan.points",
    "Volume": "scan.volume",
    "load_model": "embedding.inference",
    "read_points": "scan.points",
    "write_points": "scan.points",
} | dict.fromkeys(("crop", "find", "locate", "match", "match_all", "register", "segment"), "api")
__all__ = sorted([*_WHERE, "errors"])


def __getattr__(
    name: str,
) -> Any:  # modules are loaded at their first use, because torch takes seconds to import
    if name == "errors":
        return import_module(".errors", __name__)
    if name in _WHERE:
        return getattr(import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
