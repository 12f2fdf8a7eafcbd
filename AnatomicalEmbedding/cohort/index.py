"""The index: the body coordinates of all maps of a store in a few files, to search all scans quickly for a place.

The index is made from the maps. Each file, called a part, has up to 1,000 scans. Damaged parts are made anew.
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

from ..embedding.calibration import find_calibration
from ..embedding.map import EmbeddingMap
from ..embedding.map_file import Provenance, check_matrices, read_descriptors
from ..embedding.tensor_files import DAMAGED, check_size, write_tensor_file
from ..errors import MapError
from ..files import parse_json
from ..scan.boxes import boxes_from_json
from ..scan.geometry import slices_between
from ..spine.vertebrae import spine_from_json
from .facts import check_hash
from .manifest import Row
from .store import Store

_STEP_MM = 0.05  # unit of the stored coordinates
_CHUNK_CELLS = 500_000  # cells whose distances are computed at a time
# most scans of a file; by hand: files with fewer are written again for new scans
_PART_SCANS = 1000
_LEAST_SHARE = 0.8  # a part is made again if a smaller share of its scans is still in the store
_KEY = "scan_hashes_corrected"  # parts with the key "scan_hashes" hold coordinates without the correction at the spine


@dataclass(frozen=True, eq=False)
class BodyCells:
    """The body cells of one scan.

    Args:
        index: (n, 3) i, j, k, sorted by k.
        coordinate: (n, 3) float32, body coordinates, mm.
        cell_to_ras, scan_to_ras: (4, 4).
        facts: coverage, voxel size, weights and other facts of the scan; `facts.make_facts` lists them.
    """

    index: np.ndarray
    coordinate: np.ndarray
    cell_to_ras: np.ndarray
    scan_to_ras: np.ndarray
    facts: dict[str, Any]

    def map_near(self, cell: np.ndarray, reach_mm: float, file: Path | None = None) -> EmbeddingMap:
        """Make a map of the body cells within `reach_mm` of `cell` (i, j, k) along each axis.

        Matching reads only cells near the cell where it starts, so this map gives the same answers as the whole map.

        Args:
            file: the scan's map file, to read local descriptors; None for a map with coordinates only.

        Raises:
            MapError: the file is missing or damaged.
        """
        body = self._body_mask()
        reach = np.ceil(reach_mm / np.diag(self.cell_to_ras)[:3]).astype(int)
        low = np.maximum(cell - reach, 0)
        high = np.minimum(cell + reach + 1, body.shape[::-1])
        box = slices_between(low, high)
        body_in_box = body[box]
        is_in_box = ((self.index >= low) & (self.index < high)).all(axis=1)
        coordinate = torch.zeros(3, *body_in_box.shape)
        # the rows are in the order of the mask's cells
        coordinate[:, body_in_box] = torch.from_numpy(self.coordinate[is_in_box].T)
        cell_to_ras = self.cell_to_ras.copy()
        cell_to_ras[:3, 3] += cell_to_ras[:3, :3] @ low
        facts = self.facts
        return EmbeddingMap(
            coordinate,
            body_in_box,
            cell_to_ras,
            self.scan_to_ras,
            tuple(facts["scan_shape"]),
            Provenance(facts["model"], facts["weights_hash"], "", facts["scan_hash"]),
            tuple(facts["notes"]),
            local=None if file is None else read_descriptors(file, body, box),
            calibration=find_calibration(facts["weights_hash"]),
            organ_boxes=boxes_from_json(facts["organ_boxes"]),
            faults=tuple(facts["faults"]),
            spine=spine_from_json(facts["spine"]),
        )

    def _body_mask(self) -> torch.Tensor:
        """Return the mask (k, j, i) bool of the body cells of the whole scan."""
        mask = torch.zeros(tuple(self.facts["body_shape"]), dtype=torch.bool)
        i, j, k = torch.from_numpy(self.index.T.astype(np.int64))
        mask[k, j, i] = True
        return mask


@dataclass(frozen=True, eq=False)
class Hit:
    """The cell of a scan nearest to a place. cell: (3,) i, j, k. distance_mm: distance to the place, body frame."""

    row: Row
    facts: dict[str, Any]
    distance_mm: float
    cell: np.ndarray
    part: _Part

    @cached_property
    def cells(self) -> BodyCells:
        return self.part.body_cells(self.row.scan_hash, self.facts)


class Index:
    """The index of all maps of a store. Raises MapError for damaged maps. scans: content hash -> (row, map's facts)."""

    def __init__(self, store: Store) -> None:
        self._parts = refresh(store)
        self.scans = {row.scan_hash: (row, facts) for row, facts in store.manifest.embedded()}

    def nearest(self, coordinates: np.ndarray) -> Iterator[Hit]:
        """Yield a Hit for each scan: its cell nearest to any of m places. coordinates: (m, 3) body coordinates, mm."""
        steps = torch.from_numpy(np.atleast_2d(coordinates) / _STEP_MM).float()
        for part in self._parts:
            chunks = [
                _squares(chunk.float(), steps) for chunk in part.coordinate.split(_CHUNK_CELLS)
            ]
            squares = torch.cat(chunks).numpy()
            for scan_hash in part.numbers:
                if scan_hash in self.scans:
                    row, facts = self.scans[scan_hash]
                    scan_cells = part.cells_of(scan_hash)
                    nearest = scan_cells.start + int(squares[scan_cells].argmin())
                    distance_mm = float(np.sqrt(squares[nearest])) * _STEP_MM
                    cell = _unravel(part.cell[nearest : nearest + 1], facts)[0]
                    yield Hit(row, facts, distance_mm, cell, part)

    def cells(self, row: Row) -> BodyCells:
        """Return the body cells of an embedded scan. Raises MapError if the scan is not embedded."""
        for part in self._parts:
            if row.scan_hash in part.numbers and row.scan_hash in self.scans:
                return part.body_cells(row.scan_hash, self.scans[row.scan_hash][1])
        raise MapError(
            f"{row.scan}: is not embedded ({row.state}); run `anatemb cohort run` first."
        )


@dataclass(frozen=True, eq=False)
class _Part:
    """The n body cells of s scans in one index file, which is memory-mapped. Cells of the same scan follow each other.

    numbers: content hash of a scan -> number of the scan in the file. first: (s + 1,) index of the first cell of each
    scan, then n. coordinate: (n, 3) int16, body coordinates in steps of 0.05 mm. cell: (n,) int32, flat index of each
    cell in the grid of its scan. matrices: (s, 2, 4, 4), for each scan: cell to RAS mm, and voxel to RAS mm.
    """

    path: Path
    numbers: dict[str, int]
    first: torch.Tensor
    coordinate: torch.Tensor
    cell: torch.Tensor
    matrices: torch.Tensor

    def cells_of(self, scan_hash: str) -> slice:
        """Return where the cells of a scan are in `coordinate` and `cell`."""
        number = self.numbers[scan_hash]
        return slice(int(self.first[number]), int(self.first[number + 1]))

    def body_cells(self, scan_hash: str, facts: dict[str, Any]) -> BodyCells:
        """Return the body cells of a scan. facts: of this scan."""
        scan_cells = self.cells_of(scan_hash)
        cell_to_ras, scan_to_ras = self.matrices[self.numbers[scan_hash]].numpy()
        coordinate = self.coordinate[scan_cells].numpy() * np.float32(_STEP_MM)
        return BodyCells(
            _unravel(self.cell[scan_cells], facts), coordinate, cell_to_ras, scan_to_ras, facts
        )


def _squares(coordinates: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return (n,): the squared distance of each of `coordinates` (n, 3) from the nearest of `places` (m, 3)."""
    least = (coordinates - places[0]).square_().sum(1)
    for place in places[1:]:
        torch.minimum(least, (coordinates - place).square_().sum(1), out=least)
    return least


def refresh(store: Store) -> list[_Part]:
    """Add new maps to the index and make damaged parts anew. Returns all parts. Raises MapError for a damaged map."""
    folder = store.folder / "index"
    hashes = set(store.manifest.map_files())
    missing = set(hashes)
    parts = list[_Part]()
    for path in sorted(folder.glob("[!.]*.safetensors")):
        try:
            part = _read(path)
            if len(missing & part.numbers.keys()) < _LEAST_SHARE * len(part.numbers):
                raise ValueError("too many of its scans were removed, or are in another part")
            missing -= part.numbers.keys()
            parts.append(part)
        except DAMAGED:
            path.unlink(missing_ok=True)
    new = sorted(missing)
    # new scans join the scans of a part that is not full, which is written again
    for part in [part for part in parts if new and len(part.numbers) < _PART_SCANS]:
        new += sorted(hashes & part.numbers.keys())
        parts.remove(part)
        part.path.unlink(missing_ok=True)
    for start in range(0, len(new), _PART_SCANS):
        parts.append(_write_part(folder, store, new[start : start + _PART_SCANS]))
    return parts


def _write_part(folder: Path, store: Store, hashes: Sequence[str]) -> _Part:
    """Write one file of the index, from the maps of the given scans.

    coordinate: body coordinate of each body cell, in steps of _STEP_MM. cell: index of the cell in the flat map.
    first: index of the first cell of each scan, and the end. matrices: (scan, 2, 4, 4), from cells and voxels to RAS.
    """
    coordinates = []
    cells = []
    matrices = []
    for scan_hash in hashes:
        embedding = EmbeddingMap.load(store.map_path(scan_hash), descriptors=False)
        steps = (embedding.body_cells[1] / _STEP_MM).round()
        coordinates.append(steps.clamp(-32767, 32767).short())
        cells.append(torch.nonzero(embedding.body.flatten())[:, 0].int())
        matrices.append([embedding.cell_to_ras, embedding.scan_to_ras])
    tensors = {
        "coordinate": torch.cat(coordinates),
        "cell": torch.cat(cells),
        "first": torch.tensor([0, *map(len, cells)]).cumsum(0),
        "matrices": torch.from_numpy(np.stack(matrices)),
    }
    path = folder / f"{hashes[0]}.safetensors"
    write_tensor_file(path, tensors, {_KEY: json.dumps(list(hashes))}, MapError)
    return _read(path)


def _unravel(flat: torch.Tensor, facts: dict[str, Any]) -> np.ndarray:
    """Convert flat indices (n,) in a grid of shape facts["body_shape"] (k, j, i) to cells i, j, k (n, 3)."""
    try:
        k, j, i = np.unravel_index(flat.numpy(), tuple(facts["body_shape"]))
    except ValueError:
        raise MapError(
            "the index of this cohort is damaged; delete its folder `index`, then try again."
        ) from None
    return np.stack([i, j, k], axis=1).astype(np.int32)


def _read(path: Path) -> _Part:
    """Read one file of the index. Raises an exception of a type in DAMAGED if the file cannot be used."""
    with safe_open(str(path), "pt") as file:
        hashes = parse_json(file.metadata()[_KEY])
        names = ("coordinate", "cell", "first", "matrices")
        coordinate, cell, first, matrices = (file.get_tensor(name) for name in names)
    check_size(coordinate, (None, 3), torch.int16)
    check_size(cell, (len(coordinate),), torch.int32)
    check_size(first, (len(hashes) + 1,), torch.int64)
    check_size(matrices, (len(hashes), 2, 4, 4), torch.float64)
    spans_cells = int(first[0]) == 0 and int(first[-1]) == len(cell)
    if not spans_cells or not bool((first.diff() > 0).all()):
        raise ValueError("an index of other scans")
    check_matrices(matrices[:, 0], matrices[:, 1])
    return _Part(
        path,
        {check_hash(scan_hash): n for n, scan_hash in enumerate(hashes)},
        first,
        coordinate,
        cell,
        matrices,
    )
