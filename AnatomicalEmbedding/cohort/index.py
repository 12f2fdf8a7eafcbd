"""The index: body coordinates of all maps of a store in a few files, so that one place is sought in all at once.

The index is made from the maps, and made again where it is missing or damaged. Parts of up to a thousand scans are
written once; only the last, unfinished part is written anew when scans are added.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from ..embedding.map import EmbeddingMap
from ..embedding.map_file import check_matrices
from ..embedding.tensor_files import DAMAGED, check_size, write_tensor_file
from ..errors import MapError
from ..files import parse_json
from .facts import check_hash
from .manifest import Row
from .partial_maps import BodyCells
from .store import Store

_FOLDER = "index"
_STEP_MM = 0.05  # of coordinates
_PART_SCANS = 1000
_REMOVED_SHARE = 0.2  # of scans that were removed, above which the whole index is made again
_CHUNK_CELLS = 500_000  # whose distances are in memory at a time
_KEY = "scan_hashes"


@dataclass(frozen=True, eq=False)
class _Part:
    """One file of the index, mapped from the disk.

    hashes: of its scans. coordinate: (n, 3) int16 steps. cell: (n,) int32 places in the flattened grids of the scans.
    first: (scans + 1,) where the cells of each scan begin. matrices: (scans, 2, 4, 4) cell to RAS, voxel to RAS.
    """

    hashes: list[str]
    coordinate: torch.Tensor
    cell: torch.Tensor
    first: np.ndarray
    matrices: torch.Tensor

    def cells(self, number: int, facts: dict[str, Any]) -> BodyCells:
        """The body cells of the scan with this number."""
        own = slice(int(self.first[number]), int(self.first[number + 1]))
        coordinate = self.coordinate[own].numpy() * np.float32(_STEP_MM)
        return BodyCells(_unravel(self.cell[own], facts), coordinate, *self.matrices[number].numpy(), facts)


@dataclass(frozen=True, eq=False)
class Hit:
    """The cell of a scan whose coordinate is nearest to a place.

    Args:
        distance_mm: between both, in the body frame.
        cell: (3,) i, j, k.
    """

    row: Row
    facts: dict[str, Any]
    distance_mm: float
    cell: np.ndarray
    part: _Part
    number: int

    @cached_property
    def cells(self) -> BodyCells:
        """All body cells of the scan."""
        return self.part.cells(self.number, self.facts)


class Index:
    """All maps of a store. Raises MapError where a map file is missing or damaged."""

    def __init__(self, store: Store) -> None:
        refresh(store)
        # embedded scans and their facts, by content hash
        self.scans = {row.scan_hash: (row, facts) for row, facts in store.manifest.embedded()}
        try:
            self._parts = [_open_part(path) for path in _files(store)]
        except DAMAGED:
            for path in _files(store):
                path.unlink()
            refresh(store)
            self._parts = [_open_part(path) for path in _files(store)]

    def nearest(self, coordinates: np.ndarray) -> Iterator[Hit]:
        """For each scan, its cell nearest to any of some places (m, 3) in the body frame, mm."""
        steps = torch.from_numpy(np.atleast_2d(coordinates) / _STEP_MM).float()
        for part in self._parts:
            squares = torch.cat(
                [_squares(chunk.float(), steps) for chunk in part.coordinate.split(_CHUNK_CELLS)]
            ).numpy()
            for number, scan_hash in enumerate(part.hashes):
                if scan_hash in self.scans:
                    row, facts = self.scans[scan_hash]
                    first, last = int(part.first[number]), int(part.first[number + 1])
                    at = first + int(squares[first:last].argmin())
                    distance_mm = float(np.sqrt(squares[at])) * _STEP_MM
                    yield Hit(row, facts, distance_mm, _unravel(part.cell[at : at + 1], facts)[0], part, number)

    def cells(self, row: Row) -> BodyCells:
        """The body cells of an embedded scan. Raises MapError for another scan."""
        for part in self._parts:
            if row.scan_hash in part.hashes:
                return part.cells(part.hashes.index(row.scan_hash), self.scans[row.scan_hash][1])
        raise MapError(f"{row.scan}: is {row.state}, not embedded; run `anatemb cohort run` first.")


def _squares(coordinates: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """(n,) squared distance of coordinates (n, 3) from the nearest of places (m, 3)."""
    least = (coordinates - places[0]).square_().sum(1)
    for place in places[1:]:
        torch.minimum(least, (coordinates - place).square_().sum(1), out=least)
    return least


def refresh(store: Store) -> None:
    """Bring the index up to date with the maps. Raises MapError where a map file is missing or damaged."""
    files = _files(store)
    kept: list[list[str]] = []
    for path in files:
        try:
            kept.append(_read_hashes(path))
        except DAMAGED:  # this part and all later ones are made again
            break
    wanted = list(store.manifest.map_files())
    indexed = {scan_hash for part in kept for scan_hash in part}
    new = [scan_hash for scan_hash in wanted if scan_hash not in indexed]
    removed = indexed.difference(wanted)
    is_outdated = len(removed) > _REMOVED_SHARE * len(wanted)
    if not new and len(kept) == len(files) and not is_outdated:
        return
    if is_outdated:
        kept, new = [], wanted
    if kept and len(kept[-1]) < _PART_SCANS:
        new = [each for each in kept.pop() if each not in removed] + new
    start = len(kept)
    for number in range(0, len(new), _PART_SCANS):
        _write_part(store, start + number // _PART_SCANS, new[number : number + _PART_SCANS])
    for path in _files(store)[start + -(-len(new) // _PART_SCANS) :]:
        path.unlink(missing_ok=True)


def _write_part(store: Store, number: int, hashes: Sequence[str]) -> None:
    coordinates, cells, matrices = [], [], []
    for scan_hash in hashes:
        embedding = EmbeddingMap.load(store.map_path(scan_hash), descriptors=False)
        steps = (embedding.body_cells[1] / _STEP_MM).round().clamp(-32767, 32767)
        coordinates.append(steps.short())
        cells.append(torch.nonzero(embedding.body.flatten())[:, 0].int())
        matrices.append([embedding.cell_to_ras, embedding.scan_to_ras])
    tensors = {
        "coordinate": torch.cat(coordinates),
        "cell": torch.cat(cells),
        "first": torch.tensor([0, *(len(each) for each in cells)]).cumsum(0),
        "matrices": torch.from_numpy(np.stack(matrices)),
    }
    path = store.folder / _FOLDER / f"{number:04d}.safetensors"
    write_tensor_file(path, tensors, {_KEY: json.dumps(list(hashes))}, MapError)


def _unravel(flat: torch.Tensor, facts: dict[str, Any]) -> np.ndarray:
    """(n, 3) i, j, k of places in a scan's flattened grid."""
    try:
        k, j, i = np.unravel_index(flat.numpy(), tuple(facts["body_shape"]))
    except ValueError:
        raise MapError("the index of this cohort is damaged; delete its folder `index`, which is made again.") from None
    return np.stack([i, j, k], axis=1).astype(np.int32)


def _files(store: Store) -> list[Path]:
    return sorted(path for path in (store.folder / _FOLDER).glob("*.safetensors") if not path.name.startswith("."))


def _read_hashes(path: Path) -> list[str]:
    with safe_open(str(path), "pt") as file:
        hashes = parse_json(file.metadata()[_KEY])
    if not isinstance(hashes, list) or not hashes:
        raise ValueError("no scans")
    return [check_hash(each) for each in hashes]


def _open_part(path: Path) -> _Part:
    with safe_open(str(path), "pt") as file:
        names = ("coordinate", "cell", "first", "matrices")
        coordinate, cell, first, matrices = (file.get_tensor(name) for name in names)
    hashes = _read_hashes(path)
    check_size(coordinate, (None, 3), torch.int16)
    check_size(cell, (len(coordinate),), torch.int32)
    check_size(first, (len(hashes) + 1,), torch.int64)
    check_size(matrices, (len(hashes), 2, 4, 4), torch.float64)
    if not bool((first.diff() > 0).all()) or int(first[0]) != 0 or int(first[-1]) != len(cell):
        raise ValueError("an index of other scans")
    check_matrices(matrices[:, 0], matrices[:, 1])
    return _Part(hashes, coordinate, cell, first.numpy(), matrices)
