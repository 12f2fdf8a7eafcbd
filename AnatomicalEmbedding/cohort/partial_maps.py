"""Maps of a part of a scan, made from the body cells in the index and, for descriptors, from the map file.

Matching reads only cells near its first answer, so a partial map gives the same answers as the whole map.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..embedding.calibration import find_calibration
from ..embedding.map import EmbeddingMap
from ..embedding.map_file import Provenance, read_descriptors
from ..scan.boxes import boxes_from_json


@dataclass(frozen=True, eq=False)
class BodyCells:
    """The body cells of one scan.

    Args:
        index: (n, 3) i, j, k, sorted by k.
        coordinate: (n, 3) float32, mm in the body frame.
        cell_to_ras, scan_to_ras: (4, 4).
        facts: facts of the scan, see `facts.make_facts`.
    """

    index: np.ndarray
    coordinate: np.ndarray
    cell_to_ras: np.ndarray
    scan_to_ras: np.ndarray
    facts: dict[str, Any]

    def map_near(self, cell: np.ndarray, reach_mm: float, file: Path | None = None) -> EmbeddingMap:
        """Make a map of the body cells within `reach_mm` of `cell` (i, j, k) along each axis.

        Args:
            file: the scan's map file, to read local descriptors; None: the map has coordinates only.

        Raises:
            MapError: the file is missing or damaged.
        """
        body = torch.zeros(tuple(self.facts["body_shape"]), dtype=torch.bool)
        body[tuple(torch.from_numpy(self.index.T[::-1].astype(np.int64)))] = True
        reach = np.ceil(reach_mm / np.diag(self.cell_to_ras)[:3]).astype(int)
        low, high = np.maximum(cell - reach, 0), np.minimum(cell + reach + 1, body.shape[::-1])
        k, j, i = (slice(int(a), int(b)) for a, b in zip(low[::-1], high[::-1], strict=True))
        inside = ((self.index >= low) & (self.index < high)).all(axis=1)
        coordinate = torch.zeros(3, *body[k, j, i].shape)
        coordinate[:, body[k, j, i]] = torch.from_numpy(self.coordinate[inside].T)
        cell_to_ras = self.cell_to_ras.copy()
        cell_to_ras[:3, 3] += cell_to_ras[:3, :3] @ low
        facts = self.facts
        return EmbeddingMap(
            coordinate, body[k, j, i], cell_to_ras, self.scan_to_ras, tuple(facts["scan_shape"]),
            Provenance(facts["model"], facts["weights_hash"], "", facts["scan_hash"]), tuple(facts["notes"]),
            local=None if file is None else read_descriptors(file, body, (k, j, i)),
            calibration=find_calibration(facts["weights_hash"]), organ_boxes=boxes_from_json(facts["organ_boxes"]),
            faults=tuple(facts["faults"]),
        )  # fmt: skip
