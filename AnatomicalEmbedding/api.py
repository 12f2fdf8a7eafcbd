"""The public face: a model whose maps can be matched by a method, for short scripts and notebooks.

Inside the engine a map is data and `match` a function; these methods only forward to it.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields

import numpy as np

from .embedding import inference, map
from .embedding.cache import MapCache
from .embedding.inference import ProgressCallback
from .matching.match import Matches, match, match_all
from .scan.volume import Volume


class EmbeddingMap(map.EmbeddingMap):
    """An embedding map with matching as methods; see `embedding.map.EmbeddingMap` for what it holds."""

    def match(self, points_ras: np.ndarray, target: map.EmbeddingMap, effort: str = "standard") -> Matches:
        """The same anatomical points in another scan; see `matching.match.match`."""
        return match(self, points_ras, target, effort)

    def match_all(
        self, points_ras: np.ndarray, targets: Sequence[map.EmbeddingMap], effort: str = "standard"
    ) -> list[Matches]:
        """The same anatomical points in several scans, in one batch; see `matching.match.match_all`."""
        return match_all(self, points_ras, targets, effort)


class Model(inference.Model):
    """A network ready to embed scans; see `embedding.inference.Model`."""

    def embed(
        self, volume: Volume, progress: ProgressCallback | None = None, cancelled: Callable[[], bool] | None = None
    ) -> EmbeddingMap:
        """Embed a scan; see `embedding.inference.Model.embed`."""
        found = super().embed(volume, progress, cancelled)
        return EmbeddingMap(**{field.name: getattr(found, field.name) for field in fields(found)})


def load_model(name: str = "auto", device: str = "auto", cache: MapCache | None = None) -> Model:
    """Load weights by name or path; see `embedding.inference.load_model`."""
    found = inference.load_model(name, device, cache)
    return Model(**{field.name: getattr(found, field.name) for field in fields(found)})
