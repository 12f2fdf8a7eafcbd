"""Finds which part of the body a scan shows, and fits an affine function from RAS to body coordinates."""

from dataclasses import dataclass

import numpy as np

from ..errors import MapError, no_body_frame
from ..scan.geometry import transform_points
from .map import EmbeddingMap

_LARGEST_MISFIT = 0.2  # of a body, relative to its radius; see RESULTS.md
_ROUNDS = 5  # of the fit, each with weights from the errors of the one before; by hand


def body_points(embedding: EmbeddingMap) -> tuple[np.ndarray, np.ndarray]:
    """Return the centres of a map's body cells, (n, 3) RAS mm, and their body coordinates, (n, 3) mm.

    Raises MapError if the coordinates of the map are not mm in the common body frame.
    """
    if not embedding.provenance.metric:
        raise MapError(no_body_frame(embedding.provenance.model))
    return cell_points(embedding)


def cell_points(embedding: EmbeddingMap) -> tuple[np.ndarray, np.ndarray]:
    """Return the centres of a map's body cells, (n, 3) RAS mm, and their coordinates (n, 3), of a film or of a CT."""
    cells, coordinate = embedding.body_cells
    return transform_points(embedding.cell_to_ras, cells.numpy()), coordinate.double().numpy()


def robust_affine(ras: np.ndarray, body: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit body (n, d) = [ras (n, d), 1] @ affine. Returns affine (d + 1, d) and weights (n,), small for outliers."""
    design = np.column_stack([ras, np.ones(len(ras))])
    weight = np.ones(len(ras))
    for _ in range(_ROUNDS):
        root = np.sqrt(weight)[:, None]
        affine = np.linalg.lstsq(design * root, body * root, rcond=None)[0]
        error = np.linalg.norm(body - design @ affine, axis=1)
        weight = np.minimum(1.0, 2.0 * np.median(error) / np.maximum(error, 1e-6))
    return affine, weight


def apply_affine(affine: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Map points (n, 3) by an affine function (4, 3) that `robust_affine` returned."""
    return points @ affine[:3] + affine[3]


@dataclass(frozen=True)
class BodyFit:
    """How well an affine function of RAS mm fits the coordinates of a map. The fit is bad if the scan shows no body.

    Args:
        misfit_mm: median distance between the coordinates and the values of the function, in mm of the body frame.
        radius_mm: median distance of the body cells from their middle, in mm of the body frame.
        scales: mm of the body frame for each mm of the scan, along R, A, S.
        height_mm: height of the body in the scan, along S.
        turn_degrees: rotation about S that turns the patient as the average body lies; without a meaning if a scale is
            negative.
    """

    misfit_mm: float
    radius_mm: float
    scales: tuple[float, ...]
    height_mm: float
    turn_degrees: float

    @property
    def is_body(self) -> bool:
        """Whether the scan is like a part of a body: in scans of adults the misfit is at most 0.13 times the radius."""
        return self.misfit_mm <= _LARGEST_MISFIT * self.radius_mm


def fit_body(embedding: EmbeddingMap) -> BodyFit:
    """Fit an affine function of RAS mm to the coordinates of a map. Raises MapError for coordinates not in mm."""
    ras, body = body_points(embedding)
    affine, _ = robust_affine(ras, body)
    misfit = float(np.median(np.linalg.norm(body - apply_affine(affine, ras), axis=1)))
    radius = float(np.median(np.linalg.norm(body - np.median(body, axis=0), axis=1)))
    # (2, 2): the axes R and A of the body frame in the plane of the scan's R and A, of length 1
    axes = affine[:2, :2].T
    axes = axes / np.linalg.norm(axes, axis=1, keepdims=True)
    turn = np.degrees(np.arctan2(axes[1, 0] - axes[0, 1], axes[0, 0] + axes[1, 1]))
    height = float(np.ptp(ras[:, 2]))
    return BodyFit(misfit, radius, tuple(np.diag(affine).tolist()), height, float(turn))


# Largest decrease of the body height from a lower to a higher layer: 0 in training scans, over 180 in joined scans.
_LARGEST_FALL_MM = 80.0
_FEWEST_IN_LAYER = 10  # cells of a layer whose median counts; by hand


def heights_fall(embedding: EmbeddingMap) -> bool:
    """Whether body heights decrease strongly from the lower to the upper end of a scan.

    This happens if two scans were joined, or if head and feet are swapped.
    """
    ras, body = body_points(embedding)
    _, layer, count = np.unique(np.round(ras[:, 2], 3), return_inverse=True, return_counts=True)
    counted_layers = np.flatnonzero(count >= _FEWEST_IN_LAYER)
    if not len(counted_layers):
        return False
    heights = np.array([np.median(body[layer == n, 2]) for n in counted_layers])
    falls = np.maximum.accumulate(heights) - heights
    return bool(falls.max() > _LARGEST_FALL_MM)


# Mean body heights of landmarks, mm above the centres of the femoral heads, measured in the training scans.
LANDMARKS_MM = {
    "the symphysis": -33.0,
    "the femoral heads": 0.0,
    "the sacral promontory": 102.0,
    "the iliac crests": 152.0,
    "the kidneys": 252.0,
    "the diaphragm": 386.0,
    "the carina": 477.0,
    "the lung apices": 563.0,
    "the chin": 626.0,
    "the skull base": 689.0,
    "the vertex": 840.0,
}
# the body height at an end of the scan is estimated from the cells within this distance
END_MM = 80.0
_AT_MM = 20.0  # an end of the scan within this distance of a landmark gets the name of the landmark
_FEWEST_CELLS = 20  # near an end of the scan; with fewer, all cells are used; by hand


@dataclass(frozen=True)
class Coverage:
    """The part of the body in a scan: body heights of its lower and upper end, mm."""

    low_mm: float
    high_mm: float

    @property
    def text(self) -> str:
        """The part of the body in words: "from the diaphragm to above the lung apices"."""
        return f"from {_place(self.low_mm)} to {_place(self.high_mm)}"


def find_coverage(embedding: EmbeddingMap) -> Coverage:
    """Find the part of the body in a scan, from its map.

    Raises MapError if the map has no body cells, or if its coordinates are not mm in the common body frame.
    """
    embedding.check_body()
    height, body = (points[:, 2] for points in body_points(embedding))
    half_cell = embedding.cell_mm[2] / 2
    low = height_at(height.min() - half_cell, height, body)
    high = height_at(height.max() + half_cell, height, body)
    return Coverage(min(low, high), max(low, high))


def height_at(end: float, z: np.ndarray, body: np.ndarray) -> float:
    """Estimate a body height, mm, at one height of a scan: the median of the estimates from cells near it.

    Body height changes by about 1 mm per mm of the scan. So each cell's estimate is its own body height plus the height
    of `end` above the cell.

    Args:
        end: S of the height, mm.
        z: (n,) S of the cells, mm.
        body: (n,) their body heights, mm.
    """
    nearby = np.abs(z - end) <= END_MM
    if nearby.sum() < _FEWEST_CELLS:
        nearby = np.ones(len(z), bool)
    return float(np.median(body[nearby] + end - z[nearby]))


def _place(height: float) -> str:
    """Name a body height, mm, after the landmarks at it or next to it."""
    names = list(LANDMARKS_MM)
    heights = np.array(list(LANDMARKS_MM.values()))
    nearest = int(np.abs(heights - height).argmin())
    if abs(heights[nearest] - height) <= _AT_MM:
        return names[nearest]
    if height < heights[0]:
        return f"below {names[0]}"
    if height > heights[-1]:
        return f"above {names[-1]}"
    below = int(np.searchsorted(heights, height)) - 1
    return f"between {names[below]} and {names[below + 1]}"
