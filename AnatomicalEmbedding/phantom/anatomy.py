"""The canonical body (the average body that each synthetic patient is made from) as volumes, drawn once per process."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .abdomen import draw_abdomen
from .canvas import Canvas
from .frame import HIGH, LOW
from .head import draw_head
from .parts import draw_part
from .skeleton import draw_skeleton
from .thorax import draw_thorax
from .walls import draw_walls

STEP_MM = 2.0  # voxels of the drawn body; by hand: as fine as the finest usual scan of it


@dataclass(frozen=True)
class Anatomy:
    """Structure and tissue on a regular grid in the body frame.

    label, tissue: (k, j, i) uint8, numbers from `tissues.LABEL_ID` and `tissues.TISSUE_ID`. Voxel (i, j, k) lies at
    `low + step * (i, j, k)` body mm.
    """

    label: np.ndarray
    tissue: np.ndarray
    low: np.ndarray
    step: float

    def index(self, points_body: np.ndarray) -> np.ndarray:
        """Convert points (..., 3), body mm, to continuous indices (..., 3) in order i, j, k."""
        return (points_body - self.low) / self.step

    @staticmethod
    def nearest(grid: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Return the values of a grid (k, j, i) at the nearest voxels; 0 beyond the grid: air, and no structure.

        index: (..., 3) continuous indices i, j, k.
        """
        nk, nj, ni = grid.shape
        i, j, k = np.moveaxis(np.rint(index).astype(np.int32), -1, 0)
        inside = (i >= 0) & (i < ni) & (j >= 0) & (j < nj) & (k >= 0) & (k < nk)
        flat = np.where(inside, (k * nj + j) * ni + i, 0)
        return grid.ravel()[flat] * inside


@lru_cache(maxsize=2)  # by position alone, as f(False) and f(female=False) would be drawn twice
def canonical_anatomy(female: bool, /) -> Anatomy:
    """Draw the canonical body of a man or a woman, who differ in the pelvis alone.

    The first call for each takes about three seconds; later calls return the same object.
    """
    # in it, each organ replaces the tissue of the organs drawn before
    canvas = Canvas(LOW, HIGH, STEP_MM)
    draw_walls(canvas)
    draw_abdomen(canvas, female)
    draw_thorax(canvas)
    draw_skeleton(canvas)
    draw_head(canvas)
    draw_part(canvas, "vessels")
    return Anatomy(canvas.label, canvas.tissue, canvas.low, STEP_MM)
