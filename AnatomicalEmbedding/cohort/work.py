"""What a worker does with one scan: read it, embed it, write its shard. It imports nothing of Dask."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import SimpleITK as sitk

from .. import __version__
from ..errors import AnatomicalEmbeddingError, MapError, VolumeError
from ..files import file_sha256
from .manifest import EMBEDDED, FAILED, UNUSABLE
from .shard import read_facts, write_shard
from .store import shard_path

if TYPE_CHECKING:
    from ..embedding.inference import Model
    from ..scan.volume import Volume

_READING_BYTES = 10  # of a voxel while it is read: as stored, as an array, as HU
_KEPT_BYTES = 700 * 2**20  # of a worker's memory: Python, torch and the weights


@dataclass(frozen=True)
class Task:
    """One scan to embed, as plain values that can be sent to another machine with the same file system.

    path, series, files: as in `scan.sources`. model: weights by name or file; weights_hash: that they must have, or "".
    memory_bytes: that this worker may use, or 0 for what is free.
    """

    store: str
    path: str
    series: str
    files: tuple[str, ...]
    model: str
    weights_hash: str
    device: str
    descriptors: bool
    memory_bytes: int


def embed_scan(task: Task) -> dict[str, Any]:
    """Do one task; the values for `Manifest.finish`. Never raises: what is wrong is in "state" and "reason"."""
    start = time.perf_counter()
    try:
        found = _embed(task)
    except VolumeError as error:
        found = {"state": UNUSABLE, "reason": _sentence(error, task)}
    except AnatomicalEmbeddingError as error:  # of this machine, not of the scan: another run may succeed
        found = {"state": FAILED, "reason": _sentence(error, task)}
    except Exception as error:  # torch raises RuntimeError where no memory is left
        found = {"state": FAILED, "reason": f"{task.path}: {type(error).__name__}: {_line(error)}"}
    return found | {"seconds": round(time.perf_counter() - start, 3), "software": __version__}


def _embed(task: Task) -> dict[str, Any]:
    import torch

    from ..embedding.inference import volume_hash

    torch.set_num_threads(1)  # as many workers as cores; and the same rounding whatever their number
    sitk.ProcessObject.SetGlobalWarningDisplay(False)
    sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
    volume = _read(task)
    scan_hash = volume_hash(volume)
    path = shard_path(Path(task.store), scan_hash)
    facts = _known(path, task)
    if facts is None:
        model = _model(task.model, task.device)
        if task.weights_hash and model.weights_hash != task.weights_hash:
            raise AnatomicalEmbeddingError(f"{task.model}: this worker has other weights of this name; install alike.")
        if task.memory_bytes:
            model.budget_bytes = max(task.memory_bytes - _KEPT_BYTES - volume.voxels.nbytes * 3, 64 * 2**20)
        shape = list(volume.shape[::-1])
        about = {"voxels": shape, "spacing_mm": [round(float(mm), 4) for mm in volume.spacing]}
        write_shard(path, model.embed(volume), about, task.descriptors)
        facts = read_facts(path)
    size, sha256 = path.stat().st_size, file_sha256(path)
    return {"state": EMBEDDED, "scan_hash": scan_hash, "sha256": sha256, "size": size, "facts": facts}


def _known(path: Path, task: Task) -> dict[str, Any] | None:
    """Facts of a shard that is there already: of a duplicate, or of a run that was killed before it could record it."""
    if not path.is_file():
        return None
    try:
        facts = read_facts(path)
    except MapError:
        return None
    return facts if not task.weights_hash or facts["weights_hash"] == task.weights_hash else None


def _read(task: Task) -> Volume:
    return read_source(task.path, task.series, task.files, task.memory_bytes or _free_bytes())


def read_source(path: str, series: str, files: tuple[str, ...], memory_bytes: int | None = None) -> Volume:
    """A scan of a cohort, read again. memory_bytes: a larger one is refused before it is read.

    Raises VolumeError as `Volume.read`, AnatomicalEmbeddingError where the file is gone or the scan is too large.
    """
    from ..scan.volume import Volume

    where = Path(path)
    if not where.exists():
        raise AnatomicalEmbeddingError(f"{path}: no such file or folder; check whether it was moved.")
    every = [where / name for name in files] or [where]
    for file in every:
        if not os.access(file, os.R_OK):
            raise AnatomicalEmbeddingError(f"{file}: cannot be read; check whether it was moved, and its permissions.")
    if where.is_file() and where.stat().st_size == 0:
        raise VolumeError(f"{path}: is empty; copy the scan again.")
    if memory_bytes is not None:
        _check_size(every, path, memory_bytes)
    return Volume.read_slices(every, path) if series else Volume.read(path)


def _check_size(files: list[Path], path: str, memory_bytes: int) -> None:
    """Raise AnatomicalEmbeddingError for a scan that cannot be read within the memory, by its headers."""
    reader = sitk.ImageFileReader()
    reader.SetFileName(str(files[0]))
    try:
        reader.ReadImageInformation()
    except RuntimeError:
        return  # reading it gives the reason
    voxels = len(files)
    for n in reader.GetSize():
        voxels *= n
    need = voxels * _READING_BYTES
    if need > memory_bytes:
        raise AnatomicalEmbeddingError(
            f"{path}: has {voxels / 1e6:.0f} million voxels, which need about {need / 2**30:.1f} GB to read, more than "
            f"the {memory_bytes / 2**30:.1f} GB of a worker; give more by --memory-mb, or cut the scan."
        )


def _free_bytes() -> int:
    import torch

    from ..embedding.device import memory_budget

    return memory_budget(torch.device("cpu"))


@lru_cache(maxsize=2)
def _model(name: str, device: str) -> Model:
    """Loaded once in each worker."""
    from ..embedding.inference import load_model

    return load_model(name, device)


def _sentence(error: Exception, task: Task) -> str:
    """One line that names the scan."""
    text = _line(error)
    return text if task.path in text else f"{task.path}: {text}"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:600]
