"""The task of a worker: read one scan, embed it and write its map. This module does not import Dask."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import SimpleITK as sitk

from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError, MapError, VolumeError
from ..files import file_sha256
from .facts import make_facts
from .manifest import EMBEDDED, FAILED, UNUSABLE
from .store import map_path

if TYPE_CHECKING:
    from ..embedding.inference import Model
    from ..scan.volume import Volume

_READING_BYTES = 10  # for each voxel while a scan is read: as stored, as an array, as HU
_KEPT_BYTES = 700 * 2**20  # of a worker's memory, kept for Python, torch and the weights


@dataclass(frozen=True)
class Task:
    """One scan to embed, as plain values that can be sent to another machine with the same file system.

    path, series, files: see `scan.sources`. memory_bytes: limit of the worker; 0: a share of the free memory.
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
    """Embed the scan of a task. Returns the values for `Manifest.finish`; an error gives "state" and "reason"."""
    try:
        return _embed(task)
    except VolumeError as error:
        return {"state": UNUSABLE, "reason": _reason(error, task)}
    except AnatomicalEmbeddingError as error:  # a problem of the machine, not of the scan: another run may succeed
        return {"state": FAILED, "reason": _reason(error, task)}
    except Exception as error:  # torch raises RuntimeError if no memory is left
        return {"state": FAILED, "reason": f"{task.path}: {type(error).__name__}: {error}"[:600]}


def _embed(task: Task) -> dict[str, Any]:
    import torch

    from ..embedding.device import memory_budget
    from ..embedding.inference import volume_hash

    torch.set_num_threads(1)  # one worker for each core; with one thread, all machines round alike
    sitk.ProcessObject.SetGlobalWarningDisplay(False)
    sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
    memory_bytes = task.memory_bytes or memory_budget(torch.device("cpu"))
    volume = read_source(task.path, task.series, task.files, memory_bytes)
    scan_hash = volume_hash(volume)
    path = map_path(Path(task.store), scan_hash)
    facts = _read_facts(path, task)
    if facts is None:
        model = _model(task.model, task.device)
        if model.weights_hash != task.weights_hash:
            raise AnatomicalEmbeddingError(f"{task.model}: this worker has other weights of this name; install alike.")
        if task.memory_bytes:
            model.budget_bytes = max(task.memory_bytes - _KEPT_BYTES - volume.voxels.nbytes * 3, 64 * 2**20)
        found = model.embed(volume)
        # without the name, equal scans give equal files; cohorts do not use the image
        found = replace(found, provenance=replace(found.provenance, scan=""), image=None)
        if not task.descriptors:
            found = replace(found, local=None)
        found.save(path)
        facts = make_facts(EmbeddingMap.load(path))
    size, sha256 = path.stat().st_size, file_sha256(path)
    return {"state": EMBEDDED, "scan_hash": scan_hash, "sha256": sha256, "size": size, "facts": facts}


def _read_facts(path: Path, task: Task) -> dict[str, Any] | None:
    """Make facts from an existing map file, of a duplicate or of a killed run. None if it is missing or unusable."""
    if not path.is_file():
        return None
    try:
        found = EmbeddingMap.load(path)
    except MapError:
        return None
    return make_facts(found) if found.provenance.weights_hash == task.weights_hash else None


def read_source(path: str, series: str, files: tuple[str, ...], memory_bytes: int | None = None) -> Volume:
    """Read a scan of a cohort.

    memory_bytes: a scan that needs more is refused before it is read; None: no limit. Raises the VolumeError of
    `Volume.read`, and AnatomicalEmbeddingError if the file is missing or the scan is too large.
    """
    from ..scan.volume import Volume

    where = Path(path)
    if not where.exists():
        raise AnatomicalEmbeddingError(f"{path}: no such file or folder; check whether it was moved.")
    slices = [where / name for name in files] or [where]
    for file in slices:
        if not os.access(file, os.R_OK):
            raise AnatomicalEmbeddingError(f"{file}: cannot be read; check whether it was moved, and its permissions.")
    if where.is_file() and where.stat().st_size == 0:
        raise VolumeError(f"{path}: is empty; copy the scan again.")
    if memory_bytes is not None:
        _check_size(slices, path, memory_bytes)
    return Volume.read_slices(slices, path) if series else Volume.read(path)


def _check_size(files: list[Path], path: str, memory_bytes: int) -> None:
    """Raise AnatomicalEmbeddingError if, by its headers, a scan needs more memory than `memory_bytes`."""
    reader = sitk.ImageFileReader()
    reader.SetFileName(str(files[0]))
    try:
        reader.ReadImageInformation()
    except RuntimeError:
        return  # `Volume.read` will raise an error with the reason
    voxels = len(files) * math.prod(reader.GetSize())
    need = voxels * _READING_BYTES
    if need > memory_bytes:
        raise AnatomicalEmbeddingError(
            f"{path}: has {voxels / 1e6:.0f} million voxels, which need about {need / 2**30:.1f} GB to read, more than "
            f"the {memory_bytes / 2**30:.1f} GB of a worker; give more by --memory-mb, or cut the scan."
        )


@lru_cache(maxsize=2)
def _model(name: str, device: str) -> Model:
    """Load the weights once in each worker."""
    from ..embedding.inference import load_model

    return load_model(name, device)


def _reason(error: AnatomicalEmbeddingError, task: Task) -> str:
    return str(error) if task.path in str(error) else f"{task.path}: {error}"
