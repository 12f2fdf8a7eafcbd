"""Anatomical embeddings of CT: a point in one scan, the same anatomical point, in world mm, in another.

>>> from AnatomicalEmbedding import Volume, load_model
>>> model = load_model()
>>> template, target = (model.embed(Volume.read(path)) for path in ("a.nii.gz", "b.nii.gz"))
>>> template.match([[12.0, -30.5, 410.0]], target).points_ras
"""

from importlib import import_module

__version__ = "0.1.0"

_WHERE = {
    "AnatomicalEmbeddingError": "errors",
    "EmbeddingMap": "embedding",
    "Matches": "matching",
    "Model": "inference",
    "PointList": "points",
    "Volume": "volume",
    "load_model": "inference",
    "read_points": "points",
    "write_markups": "points",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str):  # torch takes seconds to import: nothing is loaded before it is asked for
    if name in _WHERE:
        return getattr(import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
