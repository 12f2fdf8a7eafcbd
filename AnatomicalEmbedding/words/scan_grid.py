"""A scan's cells, finer than its map's, each with its place in the body frame and, where there is a volume, its HU."""

from __future__ import annotations

import numpy as np
import SimpleITK as sitk
import torch
import torch.nn.functional as F

from ..embedding.map import EmbeddingMap
from ..errors import MapError
from ..scan.volume import Volume
from .atlas import LOW_MM, SHAPE, STEP_MM
from .grid_weights import Grid

FINE_MM = 4.0
_CELLS_LIMIT = 3_000_000
_BODY_SHARE = 0.4


def make_scan_grid(embedding: EmbeddingMap, volume: Volume | None = None) -> Grid:
    """The grid of one scan. Raises MapError for a map without coordinates in mm of the common frame."""
    name = embedding.provenance.scan or "the scan"
    if not embedding.provenance.metric:
        raise MapError(f"{name}: was embedded by weights without a common body frame in mm; embed it with others.")
    if not len(embedding.body_index):
        raise MapError(f"{name}: holds no body, so nothing can be found in it.")
    parts = np.maximum(np.rint(embedding.cell_mm / FINE_MM), 1).astype(int)
    while np.prod(parts) * embedding.body.numel() > _CELLS_LIMIT and (parts > 1).any():
        parts = np.maximum(parts - 1, 1)
    step = embedding.cell_mm / parts
    shape = tuple(int(n * p) for n, p in zip(embedding.body.shape, parts[::-1], strict=True))
    origin = embedding.cell_to_ras[:3, 3] - embedding.cell_mm / 2 + step / 2
    mixed = F.interpolate(embedding.coordinate_and_body, size=shape, mode="trilinear", align_corners=False)[0]
    weight = mixed[3]
    body = (mixed[:3] / weight.clamp_min(1e-4)).numpy()
    tissue = (weight > _BODY_SHARE).numpy()
    grid = Grid(origin, step, shape, tissue, body)
    tissue &= _in_scan(grid, embedding)
    if volume is None:
        return grid
    fine = _fine_hu(volume, grid)
    mean = F.avg_pool3d(torch.from_numpy(fine)[None], 2)[0].numpy()
    return Grid(origin, step, shape, tissue, body, mean, np.rint(fine).clip(-32768, 32767).astype(np.int16))


def make_frame_grid() -> Grid:
    """The body frame itself, in the cells of an atlas."""
    return Grid(LOW_MM, np.full(3, STEP_MM), SHAPE, np.ones(SHAPE, dtype=bool))


def _in_scan(grid: Grid, embedding: EmbeddingMap) -> np.ndarray:
    """(k, j, i) bool: cells whose centre lies inside the scan."""
    to_voxel = np.linalg.inv(embedding.scan_to_ras)
    x, y, z = grid.axes
    inside = np.ones(grid.shape, dtype=bool)
    for row, size in zip(to_voxel[:3], embedding.scan_shape[::-1], strict=True):
        at = (row[0] * x)[None, None] + (row[1] * y)[None, :, None] + (row[2] * z)[:, None, None] + row[3]
        inside &= (at > -0.501) & (at < size - 0.499)
    return inside


def _fine_hu(volume: Volume, grid: Grid) -> np.ndarray:
    """(2 k, 2 j, 2 i) eight readings about each cell's centre."""
    image = sitk.GetImageFromArray(volume.voxels)
    spacing = np.linalg.norm(volume.ijk_to_ras[:3, :3], axis=0)
    image.SetSpacing([float(s) for s in spacing])
    image.SetOrigin([float(o) for o in volume.ijk_to_ras[:3, 3]])  # RAS throughout: nothing is written
    image.SetDirection((volume.ijk_to_ras[:3, :3] / spacing).ravel().tolist())
    fine = grid.step / 2
    size = [int(2 * n) for n in grid.shape[::-1]]
    first = (grid.origin - fine / 2).tolist()
    found = sitk.Resample(
        image, size, sitk.Transform(), sitk.sitkLinear, first, fine.tolist(), np.eye(3).ravel().tolist(), -1000.0,
        sitk.sitkFloat32,
    )  # fmt: skip
    return sitk.GetArrayFromImage(found)
