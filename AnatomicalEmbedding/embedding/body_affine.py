"""The affine map from a scan to the body frame that a map as a whole describes, and how well it describes it."""

from __future__ import annotations

import numpy as np

from ..errors import AnatomicalEmbeddingError
from ..scan.geometry import transform_points
from .map import EmbeddingMap

_ROUNDS = 5


def body_points(embedding: EmbeddingMap) -> tuple[np.ndarray, np.ndarray]:
    """RAS mm (n, 3) of a map's body cells and their body coordinates (n, 3), mm.

    Raises AnatomicalEmbeddingError for a map whose coordinates are not mm of the common body frame.
    """
    if not embedding.provenance.metric:
        raise AnatomicalEmbeddingError(f"{embedding.provenance.model}: has no common body frame in mm; choose others.")
    cells, coordinate = embedding.body_cells
    return transform_points(embedding.cell_to_ras, cells.numpy()), coordinate.double().numpy()


def robust_affine(ras: np.ndarray, body: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(4, 3) affine map body = [ras, 1] @ map, and the weight (n,) that Huber's rule gave each point."""
    design = np.column_stack([ras, np.ones(len(ras))])
    weight = np.ones(len(ras))
    affine = np.zeros((4, 3))
    for _ in range(_ROUNDS):
        root = np.sqrt(weight)[:, None]
        affine = np.linalg.lstsq(design * root, body * root, rcond=None)[0]
        error = np.linalg.norm(body - design @ affine, axis=1)
        weight = np.minimum(1.0, 2.0 * np.median(error) / np.maximum(error, 1e-6))
    return affine, weight


def apply_affine(affine: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points (n, 3) through a map (4, 3) as `robust_affine` gives it."""
    return points @ affine[:3] + affine[3]


def misfit_mm(embedding: EmbeddingMap) -> float:
    """Median distance in mm of a map's coordinates from their affine fit: large where the scan makes no body."""
    ras, body = body_points(embedding)
    affine, _ = robust_affine(ras, body)
    return float(np.median(np.linalg.norm(body - apply_affine(affine, ras), axis=1)))
