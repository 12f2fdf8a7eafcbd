"""Training scans aligned by a model: each scan's body coordinates are what trained weights see in it, smoothed.

A frame of one scale and shift an axis ignores how patients differ inside: the weights trained on it learn the mean
over patients, so their map of a scan, made smooth, says better than the frame which places of two patients are the
same. Training goes on with these fields as targets.
"""

from dataclasses import replace

import numpy as np
import torch

from ..embedding.coverage import apply_affine, body_points, robust_affine
from ..embedding.map import EmbeddingMap
from .frames import FrameGuess
from .scans import PreparedScan

_SIGMA_MM = 30.0
_PRIOR_CELLS = 4.0  # of no departure from the affine map, in cells of full weight
_SETTLED_SCALE_SD, _SETTLED_SHIFT_SD_MM = 0.02, 4.0


def align_scan(scan: PreparedScan, embedding: EmbeddingMap) -> PreparedScan:
    """The scan with the body field that a map of it describes: a robust affine map and smooth departures from it.

    Raises AnatomicalEmbeddingError for a map whose coordinates are not mm of the common body frame.
    """
    ras, body = body_points(embedding)
    affine, weight = robust_affine(ras, body)
    nodes = scan.field_nodes_ras()
    left = body - apply_affine(affine, ras)
    field = apply_affine(affine, nodes.reshape(-1, 3)).reshape(nodes.shape) + _smooth(embedding, left, weight, nodes)
    lines = [np.polyfit(ras[:, axis], body[:, axis], 1, w=np.sqrt(weight)) for axis in range(3)]
    scale, shift = np.array(lines).T
    frame = FrameGuess(scale, shift, np.full(3, _SETTLED_SCALE_SD), np.full(3, _SETTLED_SHIFT_SD_MM))
    values = np.ascontiguousarray(np.moveaxis(field, -1, 0), dtype=np.float32)
    return replace(scan, frame=frame, body_field=torch.from_numpy(values))


def _smooth(embedding: EmbeddingMap, left: np.ndarray, weight: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Gaussian mean (k, j, i, 3) at nodes (k, j, i, 3), RAS mm, of what body cells have left (n, 3)."""
    grid = np.zeros((*embedding.body.shape, 4))
    i, j, k = embedding.body_index.numpy().T
    grid[k, j, i] = np.column_stack([left, np.ones(len(left))]) * weight[:, None]
    along = []
    for axis, line in enumerate((nodes[0, 0, :, 0], nodes[0, :, 0, 1], nodes[:, 0, 0, 2])):
        cell_mm = embedding.cell_to_ras[axis, 3] + embedding.cell_mm[axis] * np.arange(embedding.body.shape[2 - axis])
        along.append(np.exp(-((line[:, None] - cell_mm) ** 2) / (2 * _SIGMA_MM**2)))
    summed = np.einsum("xi,yj,zk,kjic->zyxc", *along, grid, optimize=True)
    return summed[..., :3] / (summed[..., 3:] + _PRIOR_CELLS)
