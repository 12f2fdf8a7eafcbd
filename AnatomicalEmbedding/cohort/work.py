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
from .manifest import EMBEDDED, FAILED, UNUSABLE, Row
from .store import map_path

if TYPE_CHECKING:
    from ..embedding.inference import Model
    from ..scan.volume import Volume

_READING_BYTES = 10  # for each voxel while a scan is read: as stored, as an array, as HU
_KEPT_BYTES = 700 * 2**20  # of a worker's memory, kept for Python, torch and the weights


@dataclass(frozen=True)
class Plan:
    """The settings of a run.

    Args:
        model: name or file of the weights. device: device on which the network runs.
        workers: number of processes on this machine; 0 to choose by cores and memory.
        memory_bytes: limit of each worker; 0 for an equal share of the free memory.
        descriptors: whether the maps keep descriptors, which make answers more exact.
    """

    model: str = "auto"
    device: str = "auto"
    workers: int = 0
    memory_bytes: int = 0
    descriptors: bool = True


def embed_scan(store: str, row: Row, plan: Plan, weights_hash: str) -> dict[str, Any]:
    """Embed one scan and write its map into the folder of the store.

    Args:
        store: folder of the store.
        row: the scan.
        plan: weights and computing resources.
        weights_hash: SHA-256 of the weights.

    Returns:
        The arguments of `Manifest.finish`, which include "state"; after an error, only "state" and "reason".
    """
    try:
        return _embed(Path(store), row, plan, weights_hash)
    except AnatomicalEmbeddingError as error:
        # other errors come from the machine, not from the scan: another run may succeed
        state = UNUSABLE if isinstance(error, VolumeError) else FAILED
        reason = str(error) if row.path in str(error) else f"{row.path}: {error}"
        return {"state": state, "reason": _as_line(reason)}
    except Exception as error:  # torch raises RuntimeError if no memory is left
        return {"state": FAILED, "reason": _as_line(f"{row.path}: {type(error).__name__}: {error}")}


def _as_line(text: str) -> str:
    """Return a message on one line, of at most 600 characters."""
    return " ".join(text.split())[:600]


def _embed(store: Path, row: Row, plan: Plan, weights_hash: str) -> dict[str, Any]:
    """Read a scan, and write its map unless the store has it. Returns values for the row of the scan in the manifest.

    Raises AnatomicalEmbeddingError if the scan cannot be used, or if this worker has other weights.
    """
    import torch

    from ..embedding.device import memory_budget
    from ..embedding.inference import volume_hash

    # each core has a worker; with one thread, all machines round results in the same way
    torch.set_num_threads(1)
    sitk.ProcessObject.SetGlobalWarningDisplay(False)
    sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
    _check_readable(row, plan.memory_bytes or memory_budget(torch.device("cpu")))
    volume = row.source.read()
    scan_hash = volume_hash(volume)
    path = map_path(store, scan_hash)
    facts = _read_facts(path, weights_hash)
    if facts is None:
        _write_map(volume, path, plan, weights_hash)
        facts = make_facts(EmbeddingMap.load(path))
    return {
        "state": EMBEDDED,
        "scan_hash": scan_hash,
        "sha256": file_sha256(path),
        "size": path.stat().st_size,
        "facts": facts,
    }


def _write_map(volume: Volume, path: Path, plan: Plan, weights_hash: str) -> None:
    """Embed a scan and write its map. Raises AnatomicalEmbeddingError if this worker has other weights."""
    model = _model(plan.model, plan.device)
    if model.weights_hash != weights_hash:
        raise AnatomicalEmbeddingError(
            f"{plan.model}: on this worker, other weights have this name; install the same weights on all machines."
        )
    if plan.memory_bytes:
        free_bytes = plan.memory_bytes - _KEPT_BYTES - volume.voxels.nbytes * 3
        model.budget_bytes = max(free_bytes, 64 * 2**20)
    embedding = model.embed(volume)
    # without the name, equal scans give equal files; cohorts do not use the image
    provenance = replace(embedding.provenance, scan="")
    embedding = replace(embedding, provenance=provenance, image=None)
    if not plan.descriptors:
        embedding = replace(embedding, local=None)
    embedding.save(path)


def _read_facts(path: Path, weights_hash: str) -> dict[str, Any] | None:
    """Return the facts of the map file `path`; None if the file is missing, damaged or made with other weights."""
    if not path.is_file():
        return None
    try:
        embedding = EmbeddingMap.load(path)
    except MapError:
        return None
    return make_facts(embedding) if embedding.provenance.weights_hash == weights_hash else None


def _check_readable(row: Row, memory_bytes: int) -> None:
    """Raise AnatomicalEmbeddingError if a file of a scan is missing, or if reading needs more than `memory_bytes`."""
    files = [Path(row.path, name) for name in row.files] or [Path(row.path)]
    for file in files:
        if not os.access(file, os.R_OK):
            raise AnatomicalEmbeddingError(
                f"{file}: cannot be read; check that the file exists and is readable."
            )
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
            f"{row.path}: reading these {voxels / 1e6:.0f} million voxels needs about {need / 2**30:.1f} GB, but a "
            f"worker has only {memory_bytes / 2**30:.1f} GB; raise --memory-mb, or crop the scan."
        )


@lru_cache(maxsize=2)
def _model(name: str, device: str) -> Model:
    """Load weights once for all tasks of this worker."""
    from ..embedding.inference import load_model

    return load_model(name, device)
