"""The engine as the modules use it: weights and device, embedding and matching, with torch loaded only when needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, MemoryLimitError
from AnatomicalEmbedding.resources import weights_file

if TYPE_CHECKING:
    from AnatomicalEmbedding.embedding.inference import Model
    from AnatomicalEmbedding.embedding.map import EmbeddingMap
    from AnatomicalEmbedding.matching.match import Matches
    from AnatomicalEmbedding.scan.volume import Volume

DEVICES = ("auto", "cpu", "cuda", "mps")


class Choice(NamedTuple):
    """weights: "auto", a shipped name or a file. device: auto, cpu, cuda, mps. cacheFolder: of maps; "": the default,
    None: keep none. cacheLimitMb: of that folder.
    """

    weights: str = "auto"
    device: str = "auto"
    cacheFolder: str | None = ""
    cacheLimitMb: int = 2048


class Engine:
    """One model, loaded when first needed. `embed` and `load` may run in a background thread."""

    def __init__(self, choice: Choice | None = None) -> None:
        self.choice = choice or Choice()
        self._model: Model | None = None
        self._loading = Lock()

    @staticmethod
    def missingPackages() -> list[str]:
        """Packages that are missing and without which nothing can be computed, by pip's names."""
        needed = {"torch": "torch", "safetensors": "safetensors", "SimpleITK": "SimpleITK"}
        return [name for module, name in needed.items() if find_spec(module) is None]

    def problem(self) -> str | None:
        """A sentence with the remedy where nothing can be computed, else None. Loads nothing."""
        missing = self.missingPackages()
        if missing:
            return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed; press Install."
        path = self.weightsPath()
        if not path.is_file():
            return f"{path}: no such weights; choose others in the set-up."
        return None

    def weightsPath(self) -> Path:
        """The file that the choice of weights means, whether it exists or not."""
        return weights_file(self.choice.weights)

    def load(self) -> Model:
        """The model. Raises AnatomicalEmbeddingError when weights, device or packages are not there."""
        with self._loading:
            if self._model is None:
                if problem := self.problem():
                    raise AnatomicalEmbeddingError(problem)
                from AnatomicalEmbedding.embedding.inference import load_model

                self._model = load_model(self.choice.weights, self.choice.device, self._cache())
            return self._model

    def embed(
        self, volume: Volume, progress: Callable[[float, str], None], cancelled: Callable[[], bool]
    ) -> EmbeddingMap:
        """Embed a scan; on the CPU where the GPU's memory does not suffice, which the map's notes state.

        Raises AnatomicalEmbeddingError, of it CancelledError when `cancelled` says so, and MapError for a map in which
        no point can be found.
        """
        progress(0.0, "loading the model")
        model = self.load()
        import torch

        from AnatomicalEmbedding.embedding.device import choose_device
        from AnatomicalEmbedding.matching.match import check_target

        try:
            found = model.embed(volume, progress, cancelled)
        except (MemoryLimitError, torch.cuda.OutOfMemoryError):
            if model.device.type == "cpu":
                raise
            onCpu = replace(model, network=deepcopy(model.network), device=choose_device("cpu"))
            found = onCpu.embed(volume, progress, cancelled)
            found = replace(found, notes=(*found.notes, f"too large for the memory of {model.device}, done on the CPU"))
        check_target(found)
        found.precompute()
        return found

    def match(
        self, template: EmbeddingMap, pointsRas: np.ndarray, targets: Sequence[EmbeddingMap], effort: str = "standard"
    ) -> list[Matches]:
        """The same points in each target; see `AnatomicalEmbedding.matching.match.match_all`."""
        from AnatomicalEmbedding.matching.match import match_all

        return match_all(template, pointsRas, targets, effort)

    def release(self) -> None:
        """Give the model's memory back; the next use loads it again."""
        with self._loading:
            if self._model is None:
                return
            onGpu, self._model = self._model.device.type == "cuda", None
        if onGpu:
            import torch

            torch.cuda.empty_cache()

    def _cache(self) -> object | None:
        from AnatomicalEmbedding.embedding.cache import MapCache, default_folder

        if self.choice.cacheFolder is None:
            return None
        folder = Path(self.choice.cacheFolder) if self.choice.cacheFolder else default_folder()
        return MapCache(folder, self.choice.cacheLimitMb * 2**20)
