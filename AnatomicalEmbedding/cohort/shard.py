"""Shards: what a cohort keeps of one scan, one file named by the scan's content, of a tenth of the map's size.

Coordinates and descriptors are kept for the body alone, where matching reads them: coordinates as steps of 0.05 mm,
descriptors as whole 127ths. Equal scans embedded by equal weights on one kind of machine give equal files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open

from ..embedding.calibration import find_calibration
from ..embedding.coverage import apply_affine, body_points, find_coverage, robust_affine
from ..embedding.map import EmbeddingMap, Provenance, check_matrices, check_scan_shape
from ..embedding.tensor_files import DAMAGED, NewerFormatError, about_in, check_size, write_tensor_file
from ..errors import MapError
from ..scan.boxes import boxes_from_json, boxes_to_json
from .facts import check_facts

SUFFIX = ".scan.safetensors"
FORMAT_VERSION = 1
COORDINATE_STEP_MM = 0.05
_STEPS = 127  # of a descriptor's value, -1 to 1
_KEY = "anatomical_embedding_scan"


def write_shard(path: Path, embedding: EmbeddingMap, about: dict[str, Any], descriptors: bool) -> None:
    """Write a map as a shard, complete or not at all. about: further facts of the scan, as JSON values.

    Raises MapError for a map without coordinates in mm, and when the file cannot be written.
    """
    if embedding.coordinate is None or not embedding.provenance.metric:
        raise MapError(f"{embedding.provenance.model}: has no common body frame in mm, which cohorts need.")
    steps = (embedding.body_cells[1] / COORDINATE_STEP_MM).round().clamp(-32767, 32767)
    tensors = {
        "body": _packed(embedding.body),
        "coordinate": steps.short().contiguous(),
        "cell_to_ras": torch.from_numpy(np.ascontiguousarray(embedding.cell_to_ras)),
        "scan_to_ras": torch.from_numpy(np.ascontiguousarray(embedding.scan_to_ras)),
    }
    if descriptors and embedding.local is not None:
        tensors["local"] = _described(embedding)
        if embedding.global_ is not None:
            tensors["global_"] = embedding.global_.contiguous()
    facts = {
        "format_version": FORMAT_VERSION,
        "body_shape": list(embedding.body.shape),
        "scan_shape": list(embedding.scan_shape),
        "model": embedding.provenance.model,
        "weights_hash": embedding.provenance.weights_hash,
        "scan_hash": embedding.provenance.scan_hash,
        "notes": list(embedding.notes),
        "faults": list(embedding.faults),
        "organ_boxes": boxes_to_json(embedding.organ_boxes),
        **scan_facts(embedding),
        **about,
    }
    write_tensor_file(path, tensors, {_KEY: json.dumps(facts, sort_keys=True)}, MapError)


def scan_facts(embedding: EmbeddingMap) -> dict[str, Any]:
    """Which part of the body a scan holds, and how its coordinates fit an affine function of its places.

    low_mm, high_mm: body heights. held: in words. misfit_mm: median distance from the fit. scales: of the fit along R,
    A, S: about 1, negative where the scan is stored mirrored. frame: (4, 3) body = [ras, 1] @ frame.
    """
    coverage = find_coverage(embedding)
    ras, body = body_points(embedding)
    affine, _ = robust_affine(ras, body)
    misfit = np.median(np.linalg.norm(body - apply_affine(affine, ras), axis=1))
    return {
        "low_mm": round(coverage.low_mm, 1),
        "high_mm": round(coverage.high_mm, 1),
        "held": coverage.text,
        "misfit_mm": round(float(misfit), 2),
        "scales": [round(float(x), 3) for x in np.diag(affine[:3])],
        "frame": [[round(float(x), 6) for x in row] for row in affine],
    }


def read_facts(path: Path) -> dict[str, Any]:
    """What a shard says of its scan, without its tensors. Raises MapError where it is no shard, or damaged."""
    with _opened(path) as file:
        return _facts(file)


@dataclass(frozen=True, eq=False)
class Cells:
    """The body cells of one scan: index (n, 3) i, j, k, and coordinate (n, 3) in steps of COORDINATE_STEP_MM.

    facts: as the shard has them. cell_to_ras, scan_to_ras: (4, 4).
    """

    index: np.ndarray
    coordinate: np.ndarray
    cell_to_ras: np.ndarray
    scan_to_ras: np.ndarray
    facts: dict[str, Any]

    @cached_property
    def provenance(self) -> Provenance:
        facts = self.facts
        return Provenance(facts["model"], facts["weights_hash"], facts.get("scan", ""), facts["scan_hash"], True)

    def near(self, cell: np.ndarray | None = None, reach_mm: float = 0.0) -> tuple[EmbeddingMap, np.ndarray]:
        """The map around a cell (3,) as if the scan's body ended there (None: all of it), and the index (3,) of its
        first cell.

        Matching reads only what lies near its first answer, so that it gives the same answers as on the whole map.
        """
        size = np.array(self.facts["body_shape"][::-1])
        low, high = np.zeros(3, dtype=int), size
        if cell is not None:
            reach = np.ceil(reach_mm / np.diag(self.cell_to_ras)[:3]).astype(int)
            low, high = np.maximum(cell - reach, 0), np.minimum(cell + reach + 1, size)
        slices = np.searchsorted(self.index[:, 2], [low[2], high[2]])  # cells are in the order of k
        index, coordinates = self.index[slice(*slices)], self.coordinate[slice(*slices)]
        kept = ((index >= low) & (index < high)).all(axis=1)
        cell_to_ras = self.cell_to_ras.copy()
        cell_to_ras[:3, 3] += cell_to_ras[:3, :3] @ low
        body = torch.zeros(tuple(int(n) for n in (high - low)[::-1]), dtype=torch.bool)
        coordinate = torch.zeros((3, *body.shape))
        i, j, k = torch.from_numpy((index[kept] - low).astype(np.int64)).unbind(1)
        body[k, j, i] = True
        values = coordinates[kept].astype(np.float32) * np.float32(COORDINATE_STEP_MM)
        coordinate[:, k, j, i] = torch.from_numpy(values.T)
        return (
            EmbeddingMap(
                coordinate, body, cell_to_ras, self.scan_to_ras, tuple(self.facts["scan_shape"]), self.provenance,
                tuple(self.facts["notes"]), calibration=find_calibration(self.facts["weights_hash"]),
                organ_boxes=boxes_from_json(self.facts.get("organ_boxes", {})),
                faults=tuple(self.facts.get("faults", ())),
            ),
            low,
        )  # fmt: skip


def read_cells(path: Path) -> Cells:
    """The body cells of a shard. Raises MapError where it is no shard, or damaged."""
    with _opened(path) as file:
        facts = _facts(file)
        body = _unpacked(file.get_tensor("body"), facts["body_shape"])
        k, j, i = np.nonzero(body.numpy())
        coordinate = file.get_tensor("coordinate")
        check_size(coordinate, (len(k), 3), torch.int16)
        matrices = file.get_tensor("cell_to_ras"), file.get_tensor("scan_to_ras")
        check_matrices(matrices[0][None], matrices[1][None])
        check_scan_shape(facts["scan_shape"])
        index = np.stack([i, j, k], axis=1).astype(np.int32)
        return Cells(index, coordinate.numpy(), *(matrix.numpy() for matrix in matrices), facts)


def read_map(
    path: Path, cell: np.ndarray | None = None, reach_mm: float = 0.0, cells: Cells | None = None
) -> EmbeddingMap:
    """A shard's map, whole or near a cell (3,) i, j, k, as `Cells.near`; other descriptors are not read from the disk.

    cells: of this shard, where they are known already. Raises MapError where it is no shard, or damaged.
    """
    cells = read_cells(path) if cells is None else cells
    found, low = cells.near(cell, reach_mm)
    with _opened(path) as file:
        names = file.keys()
        if "local" not in names:
            return found
        whole = torch.zeros(tuple(cells.facts["body_shape"]), dtype=torch.bool)
        i, j, k = torch.from_numpy(cells.index.astype(np.int64)).unbind(1)
        whole[k, j, i] = True
        described = _grown(whole)
        row = described.flatten().cumsum(0).view(described.shape) - 1
        part = tuple(slice(int(a), int(a) + n) for a, n in zip(low[::-1], found.body.shape, strict=True))
        here = described[part]
        kept = row[part][here]
        first, last = (int(kept[0]), int(kept[-1]) + 1) if len(kept) else (0, 0)
        rows = file.get_slice("local")[first:last][kept - first]
        local = torch.zeros((*here.shape, 8, rows.shape[-1]), dtype=torch.half)
        local[here] = rows.half() / _STEPS
        # coarse and small, but not aligned with a part of the cells: only the whole map has them
        global_ = file.get_tensor("global_") if "global_" in names and cell is None else None
    a, b, c = here.shape
    fine = local.view(a, b, c, 2, 2, 2, -1).permute(0, 3, 1, 4, 2, 5, 6).reshape(2 * a, 2 * b, 2 * c, -1)
    return replace(found, local=fine.contiguous().movedim(-1, 0), global_=global_)


def _described(embedding: EmbeddingMap) -> torch.Tensor:
    """(m, 8, l) int8: the eight local descriptors of each cell that holds body, or that touches one that does."""
    c, k, j, i = embedding.local.shape
    parts = embedding.local.movedim(0, -1).reshape(k // 2, 2, j // 2, 2, i // 2, 2, c).permute(0, 2, 4, 1, 3, 5, 6)
    kept = parts.reshape(k // 2, j // 2, i // 2, 8, c)[_grown(embedding.body)]
    return (kept.float() * _STEPS).round().clamp(-_STEPS, _STEPS).to(torch.int8).contiguous()


def _grown(body: torch.Tensor) -> torch.Tensor:
    """Cells of a body and their neighbours: descriptors are read between cells."""
    return F.max_pool3d(body[None].float(), 3, 1, 1)[0] > 0


def _packed(body: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.packbits(body.numpy().ravel()))


def _unpacked(bits: torch.Tensor, shape: list[int]) -> torch.Tensor:
    count = math.prod(shape)
    check_size(bits, (-(-count // 8),), torch.uint8)
    return torch.from_numpy(np.unpackbits(bits.numpy(), count=count).astype(bool).reshape(shape))


def _facts(file: Any) -> dict[str, Any]:
    facts = about_in(file, _KEY, FORMAT_VERSION)
    check_facts(facts)
    return facts


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """safe_open, with errors that name the file."""
    if not path.is_file():
        raise MapError(f"{path}: no such shard; run `anatemb cohort status --repair`.")
    try:
        with safe_open(str(path), "pt") as file:
            yield file
    except NewerFormatError:
        raise MapError(f"{path}: written by a newer version of this program; update it.") from None
    except DAMAGED:
        raise MapError(f"{path}: is damaged; run `anatemb cohort status --repair`, then `run`.") from None
