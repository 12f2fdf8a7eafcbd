"""The index: body coordinates of all maps of a store in a few files, so that one place is looked for in all at once.

It holds nothing that the shards do not: it is made from them, and made again where it is missing. Parts of up to a
thousand scans are written once; only the last, unfinished part is written anew when scans are added.
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

from ..embedding.map import check_matrices
from ..embedding.tensor_files import DAMAGED, check_size, write_tensor_file
from ..errors import MapError
from ..files import parse_json
from .facts import check_hash
from .manifest import Row
from .shard import COORDINATE_STEP_MM, Cells, read_cells
from .store import Store

_FOLDER = "index"
_PART = 1000  # scans
_CHUNK = 500_000  # cells whose distances are in memory at a time
_KEY = "scan_hashes"


@dataclass(frozen=True, eq=False)
class _Part:
    """coordinate: (n, 3) int16. cell: (n,) int32, its place in the flattened grid of its scan. first: of each scan's
    cells, and the end. matrices: (scans, 2, 4, 4) cell to RAS and voxel to RAS. All mapped from the disk.
    """

    hashes: list[str]
    coordinate: torch.Tensor
    cell: torch.Tensor
    first: np.ndarray
    matrices: torch.Tensor

    def cells(self, number: int, facts: dict[str, Any]) -> Cells:
        """The body cells of one scan."""
        here = slice(int(self.first[number]), int(self.first[number + 1]))
        coordinate, index = self.coordinate[here].numpy(), _unravelled(self.cell[here], facts)
        return Cells(index, coordinate, *self.matrices[number].numpy(), facts)


@dataclass(frozen=True, eq=False)
class Hit:
    """The cell (3,) i, j, k of a scan whose coordinate is nearest to a place. distance_mm: between them, in the body
    frame.
    """

    row: Row
    facts: dict[str, Any]
    distance_mm: float
    cell: np.ndarray
    part: _Part
    number: int

    @cached_property
    def cells(self) -> Cells:
        return self.part.cells(self.number, self.facts)


class Index:
    """All maps of a store. Raises MapError where a shard is missing or damaged."""

    def __init__(self, store: Store) -> None:
        refresh(store)
        # embedded scans and their facts, by content hash
        self.scans = {row.scan_hash: (row, facts) for row, facts in store.manifest.embedded()}
        try:
            self._parts = [_opened(path) for path in _files(store)]
        except DAMAGED:  # nothing is in it that the shards do not hold
            for path in _files(store):
                path.unlink()
            refresh(store)
            self._parts = [_opened(path) for path in _files(store)]

    def nearest(self, coordinates: np.ndarray) -> Iterator[Hit]:
        """For each scan, its cell nearest to any of some places (m, 3) in the body frame, mm."""
        steps = torch.from_numpy(np.atleast_2d(coordinates) / COORDINATE_STEP_MM).float()
        for part in self._parts:
            squares = torch.cat([_squares(chunk.float(), steps) for chunk in part.coordinate.split(_CHUNK)]).numpy()
            least = np.minimum.reduceat(squares, part.first[:-1])
            for number, scan_hash in enumerate(part.hashes):
                if scan_hash in self.scans:
                    row, facts = self.scans[scan_hash]
                    a, b = int(part.first[number]), int(part.first[number + 1])
                    at = a + int(squares[a:b].argmin())
                    distance = float(np.sqrt(least[number])) * COORDINATE_STEP_MM
                    cell = _unravelled(part.cell[at : at + 1], facts)[0]
                    yield Hit(row, facts, distance, cell, part, number)

    def cells(self, row: Row) -> Cells:
        """The body cells of an embedded scan."""
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
    """Bring the index up to date with the shards. Raises MapError where a shard is missing or damaged."""
    files = _files(store)
    kept: list[list[str]] = []
    for path in files:
        try:
            kept.append(_hashes(path))
        except DAMAGED:  # damaged: all later parts are made again
            break
    wanted = list(store.manifest.shards())
    there = {scan_hash for part in kept for scan_hash in part}
    new = [scan_hash for scan_hash in wanted if scan_hash not in there]
    gone = there.difference(wanted)
    if not new and len(kept) == len(files) and len(gone) <= 0.2 * len(wanted):
        return
    if len(gone) > 0.2 * len(wanted):
        kept, new = [], wanted
    if kept and len(kept[-1]) < _PART:
        new = [each for each in kept.pop() if each not in gone] + new
    start = len(kept)
    for number in range(0, len(new), _PART):
        _write(store, start + number // _PART, new[number : number + _PART])
    for path in _files(store)[start + -(-len(new) // _PART) :]:
        path.unlink(missing_ok=True)


def _write(store: Store, number: int, hashes: Sequence[str]) -> None:
    scans = [read_cells(store.shard(scan_hash)) for scan_hash in hashes]
    flat = [
        np.ravel_multi_index(tuple(cells.index.T[::-1]), tuple(cells.facts["body_shape"])).astype(np.int32)
        for cells in scans
    ]
    first = np.concatenate([[0], np.cumsum([len(each) for each in flat])]).astype(np.int64)
    tensors = {
        "coordinate": torch.from_numpy(np.concatenate([cells.coordinate for cells in scans])),
        "cell": torch.from_numpy(np.concatenate(flat)),
        "first": torch.from_numpy(first),
        "matrices": torch.from_numpy(np.stack([[cells.cell_to_ras, cells.scan_to_ras] for cells in scans])),
    }
    path = store.folder / _FOLDER / f"{number:04d}.safetensors"
    write_tensor_file(path, tensors, {_KEY: json.dumps(list(hashes))}, MapError)


def _unravelled(flat: torch.Tensor, facts: dict[str, Any]) -> np.ndarray:
    """(n, 3) i, j, k."""
    try:
        k, j, i = np.unravel_index(flat.numpy(), tuple(facts["body_shape"]))
    except ValueError:
        raise MapError("the index of this cohort is damaged; delete its folder `index`, which is made again.") from None
    return np.stack([i, j, k], axis=1).astype(np.int32)


def _files(store: Store) -> list[Path]:
    return sorted(path for path in (store.folder / _FOLDER).glob("*.safetensors") if not path.name.startswith("."))


def _hashes(path: Path) -> list[str]:
    with safe_open(str(path), "pt") as file:
        hashes = parse_json(file.metadata()[_KEY])
    if not isinstance(hashes, list) or not hashes:
        raise ValueError("no scans")
    return [check_hash(each) for each in hashes]


def _opened(path: Path) -> _Part:
    with safe_open(str(path), "pt") as file:
        names = ("coordinate", "cell", "first", "matrices")
        coordinate, cell, first, matrices = (file.get_tensor(name) for name in names)
    hashes = _hashes(path)
    check_size(coordinate, (None, 3), torch.int16)
    check_size(cell, (len(coordinate),), torch.int32)
    check_size(first, (len(hashes) + 1,), torch.int64)
    check_size(matrices, (len(hashes), 2, 4, 4), torch.float64)
    rising = bool((first.diff() > 0).all()) and int(first[0]) == 0 and int(first[-1]) == len(cell)
    if not rising:
        raise ValueError("an index of other scans")
    check_matrices(matrices[:, 0], matrices[:, 1])
    return _Part(hashes, coordinate, cell, first.numpy(), matrices)
