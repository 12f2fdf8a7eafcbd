"""Which part of the body a scan holds, in heights of the common frame and in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import MapError
from .body_affine import body_points
from .map import EmbeddingMap

# Mean heights in mm above the femoral heads' centres, from readings in the training scans.
LEVELS_MM = {
    "the symphysis": -33.0,
    "the femoral heads": 0.0,
    "the sacral promontory": 102.0,
    "the iliac crests": 152.0,
    "the kidneys": 257.0,
    "the diaphragm": 378.0,
    "the carina": 469.0,
    "the lung apices": 555.0,
    "the chin": 613.0,
    "the skull base": 677.0,
    "the vertex": 819.0,
}
_END_MM = 80.0  # of the scan next to each end that says where the end is
_AT_MM = 20.0  # an end is said to lie at a level so near
_FEWEST_CELLS = 20


@dataclass(frozen=True)
class Coverage:
    """low_mm, high_mm: body heights at the scan's lower and upper end. levels: names of LEVELS_MM in between."""

    low_mm: float
    high_mm: float
    levels: tuple[str, ...]

    @property
    def text(self) -> str:
        """In words: "from the diaphragm to above the lung apices"."""
        return f"from {_place(self.low_mm)} to {_place(self.high_mm)}"


def find_coverage(embedding: EmbeddingMap) -> Coverage:
    """The part of the body in a scan, from its map.

    Raises MapError for a map without body or without coordinates in mm of the common frame.
    """
    name = embedding.provenance.scan or "the scan"
    if not embedding.provenance.metric or embedding.coordinate is None:
        raise MapError(f"{name}: these weights know no common body frame in mm; choose others to tell what it holds.")
    if not len(embedding.body_index):
        raise MapError(f"{name}: holds no body, so no part of it can be named.")
    height, body = (points[:, 2] for points in body_points(embedding))
    half_cell = embedding.cell_mm[2] / 2
    low = _height_at(height.min() - half_cell, height, body)
    high = _height_at(height.max() + half_cell, height, body)
    low, high = min(low, high), max(low, high)
    return Coverage(low, high, tuple(level for level, at in LEVELS_MM.items() if low <= at <= high))


def _height_at(end: float, z: np.ndarray, body: np.ndarray) -> float:
    """Body height at a world z, from the cells within reach of it: the median of their heights less their distances.

    Along the body the coordinate runs about mm by mm, so that every cell says where the end is.
    """
    near = np.abs(z - end) <= _END_MM
    if near.sum() < _FEWEST_CELLS:
        near = np.ones(len(z), dtype=bool)
    return float(np.median(body[near] + end - z[near]))


def _place(height: float) -> str:
    names, heights = list(LEVELS_MM), np.array(list(LEVELS_MM.values()))
    nearest = int(np.abs(heights - height).argmin())
    if abs(heights[nearest] - height) <= _AT_MM:
        return names[nearest]
    if height < heights[0]:
        return f"below {names[0]}"
    if height > heights[-1]:
        return f"above {names[-1]}"
    below = int(np.searchsorted(heights, height)) - 1
    return f"between {names[below]} and {names[below + 1]}"
