"""The engine as the modules use it: load weights, embed scans, pair scans. torch is imported only when needed."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, MemoryLimitError
from AnatomicalEmbedding.installation.packages import (
    NUMPY_1,
    OLDEST_TORCH,
    numpy_is_too_new,
    release_of,
)
from AnatomicalEmbedding.resources import list_weights, weights_file, weights_for

if TYPE_CHECKING:
    from AnatomicalEmbedding.embedding.inference import Model
    from AnatomicalEmbedding.embedding.map import EmbeddingMap
    from AnatomicalEmbedding.relations.relation import Relation
    from AnatomicalEmbedding.scan.volume import Volume

    from .Worker import Progress

# in the order of AnatomicalEmbeddingSetup.ui and AnatomicalEmbeddingTraining.ui
DEVICES = ("auto", "cpu", "cuda", "mps")


class Choice(NamedTuple):
    """The user's choice of weights, device and folder of maps.

    weights: "auto", the name of shipped weights, or the path of a file. device: one of DEVICES. cacheFolder: folder of
    maps; "" for the default folder, None to keep no maps on disk. cacheLimitMb: largest size of this folder, MB.
    """

    weights: str = "auto"
    device: str = "auto"
    cacheFolder: str | None = ""
    cacheLimitMb: int = 2048


class Engine:
    """A model for CTs and one for films, loaded at the first use. `embed` and `load` may run in a background thread."""

    def __init__(self, choice: Choice | None = None) -> None:
        self.choice = choice or Choice()
        self._models: dict[bool, Model] = {}  # True: for films
        self._loading = Lock()

    @staticmethod
    def missingPackages() -> list[str]:
        """Return pip's names of the required packages that are not installed or are too old.

        NUMPY_1 is one of them if the installed numpy is too new.
        """
        missing = [
            name for name in ("torch", "safetensors", "SimpleITK") if find_spec(name) is None
        ]
        # a torch of unknown release counts as new enough
        if "torch" not in missing and (release_of("torch") or OLDEST_TORCH) < OLDEST_TORCH:
            missing.insert(0, "torch")
        return [*missing, NUMPY_1] if numpy_is_too_new() else missing

    def problem(self) -> str | None:
        """Return why the engine cannot run, and the remedy. Returns None if it can run. Does not load the model."""
        missing = self.missingPackages()
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            return f"{' and '.join(missing)} {verb} not installed, or too old; press Install."
        path = self.weightsPath()
        if not path.is_file():
            return f"{path}: this file of weights is missing; choose other weights in the set-up."
        return None

    def weightsPath(self, film: bool = False) -> Path:
        """Return the path of the weights for CTs, or for films. The file may be missing."""
        return weights_file(self._weights(film))

    def _weights(self, film: bool) -> str:
        """Return the chosen weights. For films, shipped weights for CTs are replaced by those for films."""
        chosen = self.choice.weights
        return weights_for("auto" if film and chosen in list_weights() else chosen, film)

    def load(self, film: bool = False) -> Model:
        """Return the model for CTs, or for films.

        Raises AnatomicalEmbeddingError if weights, device or packages are not available.
        """
        with self._loading:
            if film not in self._models:
                problem = self.problem()
                if problem:
                    raise AnatomicalEmbeddingError(problem)
                loadTorchLibrary()
                from AnatomicalEmbedding.embedding.inference import load_model

                self._models[film] = load_model(
                    self._weights(film), self.choice.device, self._cache()
                )
            return self._models[film]

    def embed(
        self,
        volume: Volume,
        progress: Progress,
        cancelled: Callable[[], bool],
        onlyKept: bool = False,
    ) -> EmbeddingMap:
        """Embed a scan. If the GPU has too little memory, the CPU embeds the scan, and a note is added to the map.

        Args:
            progress: called as progress(share, step) during the work; share is 0 to 1.
            onlyKept: True to only read the map from the disk.

        Raises:
            CancelledError: `cancelled()` returned True, or `onlyKept` is True and the disk has no map of the scan.
            MapError: no point can be found in the map.
            AnatomicalEmbeddingError: any other problem.
        """
        from AnatomicalEmbedding.scan.volume import Film

        progress(0.0, "loading the model")
        model = self.load(isinstance(volume, Film))
        volume = model.check_scan(volume)
        import torch

        from AnatomicalEmbedding.embedding.device import choose_device

        try:
            embedding = model.embed(volume, progress, cancelled, onlyKept)
        except (MemoryLimitError, torch.cuda.OutOfMemoryError):
            if model.device.type == "cpu":
                raise
            onCpu = replace(model, network=deepcopy(model.network), device=choose_device("cpu"))
            embedding = onCpu.embed(volume, progress, cancelled)
            note = f"too large for the memory of {model.device}, embedded on the CPU"
            embedding = replace(embedding, notes=(*embedding.notes, note))
        embedding.check_body()
        embedding.precompute()
        # what the first click needs is loaded now, because loading would block the main thread
        from AnatomicalEmbedding.followup.doubts import doubt_of
        from AnatomicalEmbedding.relations.relate import relate

        # (1, 3) RAS mm, the first voxel: any point will do
        corner = embedding.scan_to_ras[:3, 3:].T
        matches = relate(embedding, embedding).points(corner)
        if not embedding.is_film:
            doubt_of(matches, corner[0], embedding, embedding, None)
        return embedding

    def relate(
        self,
        volumes: Sequence[Volume],
        maps: Sequence[EmbeddingMap],
        progress: Callable[[float, str], None],
        cancelled: Callable[[], bool],
    ) -> Relation:
        """Return the relation of two scans of one patient, of two films, or of a CT and a film.

        Args:
            volumes, maps: the template and the target, and their maps.
            progress, cancelled: as in `embed`.

        Raises:
            CancelledError: `cancelled()` returned True.
        """
        from AnatomicalEmbedding.relations.relate import MappedScan, map_scan, relate

        template, target = map(MappedScan, volumes, maps)
        if target.map.is_film and not template.map.is_film:
            model = self.load(film=True)
            embed = partial(model.embed, progress=progress, cancelled=cancelled)
            template = map_scan(volumes[0], embed, for_films=True)
        relation = relate(
            template,
            target,
            same_patient=True,
            cache=self._cache(),
            progress=progress,
            cancelled=cancelled,
        )
        relation.prepare()  # so that the first click need not wait
        return relation

    def release(self) -> None:
        """Release the memory of the model. The next use loads the model again."""
        with self._loading:
            onGpu = any(model.device.type == "cuda" for model in self._models.values())
            self._models.clear()
        if onGpu:
            import torch

            torch.cuda.empty_cache()

    def _cache(self) -> object | None:
        """Return the folder of maps as `MapCache`; None to keep no maps on disk."""
        from AnatomicalEmbedding.embedding.cache import MapCache, default_folder

        if self.choice.cacheFolder is None:
            return None
        folder = Path(self.choice.cacheFolder or default_folder())
        return MapCache(folder, self.choice.cacheLimitMb * 2**20)


def loadTorchLibrary() -> None:
    """Load the library of torch while other threads run. `import torch` would load it while it keeps Python's lock.

    Only on Linux, and only before the import. If the library cannot be loaded, the import reports this.
    """
    spec = None if "torch" in sys.modules or sys.platform != "linux" else find_spec("torch")
    if spec is not None and spec.origin is not None:
        library = Path(spec.origin).parent / "lib" / "libtorch_python.so"
        # a call by ctypes releases Python's lock
        ctypes.CDLL(None).dlopen(str(library).encode(), os.RTLD_LAZY)
