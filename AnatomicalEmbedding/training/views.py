"""Batches for descriptors: two views of each of several scans, and points that are the same in both.

Yan 2022, Algorithm 1, lines 1-5. A view is any crop of `crops`, so views may differ by scale, rotation, elastic
deformation and intensity; where a point of one view lies in the other is found from the positions of their cells.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from ..models.network import LOCAL_STRIDE
from .augmentation import augment
from .crops import Crop, cell_positions, cut_crop, draw_geometry
from .sampler import KEEP_INSIDE, BatchSampler, move_inside

_SEARCH = 4  # local cells about the guess in which the partner of a point is sought
_CANDIDATES = 4  # cells tried for each point wanted: some lie outside the other view or the body
_TRIES = 10
_TISSUE_HU = -900.0  # scans hold air outside of the body; lung is tissue
_FEWEST = 16  # points of a pair; with fewer, the views are drawn anew


@dataclass
class ViewBatch:
    """n pairs of views. image: (2n, 1, k, j, i), all first views, then all second ones.

    body_mm: (2n, 3, k/4, j/4, i/4). inside: (2n, k/4, j/4, i/4). scan: (2n,) index.
    position_mm: (2n, 3, k/2, j/2, i/2) RAS mm in the scan of each local cell.
    first_cells, second_cells: (n, p, 3) the same points as local cells (i, j, k) of either view; the first ones are
    whole cells, the second ones lie anywhere.
    """

    image: torch.Tensor
    body_mm: torch.Tensor
    inside: torch.Tensor
    scan: torch.Tensor
    position_mm: torch.Tensor
    first_cells: torch.Tensor
    second_cells: torch.Tensor


class ViewSampler(BatchSampler):
    """Batches for the objectives "descriptors" and "hybrid"."""

    def __getitem__(self, step: int) -> ViewBatch:
        batch = self.recipe.batch
        size = self.crop_size(step)
        views: list[list[dict[str, torch.Tensor]]] = [[], []]
        points: list[tuple[torch.Tensor, torch.Tensor]] = []
        for part in self.parts(batch.pairs):
            pair, found = self._pair(size, self.rng(step, part))
            points.append(found)
            for of_kind, view in zip(views, pair, strict=True):
                of_kind.append(view)
        ordered = views[0] + views[1]
        stacked = {name: torch.stack([view[name] for view in ordered]) for name in ordered[0]}
        first, second = (torch.stack(cells) for cells in zip(*points, strict=True))
        return ViewBatch(**stacked, first_cells=first, second_cells=second)

    def _pair(
        self, size: tuple[int, int, int], rng: np.random.Generator
    ) -> tuple[list[dict[str, torch.Tensor]], tuple[torch.Tensor, torch.Tensor]]:
        count = self.recipe.batch.points_per_pair
        while True:
            index, seed_voxel = self.aim(rng)
            for _ in range(_TRIES):
                crops = self._crops(index, seed_voxel, size, rng)
                first, second = matching_cells(*crops, self.scans[index].grid_to_ras, count * _CANDIDATES, rng)
                if len(first) >= _FEWEST:
                    chosen = torch.arange(count) % len(first)
                    views = [self._view(index, crop, rng) for crop in crops]
                    return views, (first[chosen], second[chosen])

    def _crops(
        self, index: int, seed_voxel: np.ndarray, size: tuple[int, int, int], rng: np.random.Generator
    ) -> list[Crop]:
        """Two crops about the seed voxel that overlap by a random share of their side, within the recipe's range."""
        scan, crops = self.scans[index], []
        low, high = self.recipe.batch.overlap
        side = np.where(rng.random(3) < 0.5, -1, 1)
        shift = side * (1 - rng.uniform(low, high))
        for part in (-0.5, 0.5):
            lattice = draw_geometry(self.recipe.augmentation, size, self.spacing, rng)
            length = lattice.max((1, 2, 3)) * 2 / np.diag(scan.grid_to_ras)[:3]
            centre = seed_voxel + part * shift * length
            if rng.random() < KEEP_INSIDE:
                centre = move_inside(centre, lattice, scan)
            crops.append(cut_crop(scan, centre, lattice, size))
        return crops

    def _view(self, index: int, crop: Crop, rng: np.random.Generator) -> dict[str, torch.Tensor]:
        scan = self.scans[index]
        body_mm, inside = cell_positions(scan, crop)
        return {
            "image": augment(crop.hu, self.recipe.augmentation, self.recipe.network, rng)[None],
            "body_mm": body_mm,
            "inside": inside,
            "scan": torch.tensor(index),
            "position_mm": _positions(crop, scan.grid_to_ras).movedim(-1, 0).contiguous(),
        }


def matching_cells(
    first: Crop, second: Crop, grid_to_ras: np.ndarray, candidates: int, rng: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Local cells of two crops that show the same points of the scan, in tissue: (p, 3) whole and (p, 3) continuous.

    The guess of an affine fit to the second crop's cells is mended by the nearest of the cells around it and the fit's
    slope from there: exact for affine crops, within a few hundredths of a cell for elastic ones.
    """
    positions = [_positions(crop, grid_to_ras) for crop in (first, second)]
    device = first.hu.device
    shape = torch.tensor(positions[1].shape[2::-1], device=device)
    tissue = torch.nonzero(_pooled(first.hu) > _TISSUE_HU)
    if not len(tissue):
        return torch.zeros(0, 3, device=device), torch.zeros(0, 3, device=device)
    kji = tissue[torch.from_numpy(rng.integers(len(tissue), size=candidates)).to(device)]
    wanted = positions[0][kji.unbind(1)]
    inverse, level = _inverse_affine(positions[1])
    guess = ((wanted - level)[:, None] * inverse).sum(-1).round().long()
    axis = torch.arange(-_SEARCH, _SEARCH + 1, device=device)
    around = guess[:, None] + torch.cartesian_prod(axis, axis, axis)
    clamped = torch.minimum(around.clamp(min=0), shape - 1)
    there = positions[1][clamped[..., 2], clamped[..., 1], clamped[..., 0]]
    nearest = (there - wanted[:, None]).square().sum(-1).argmin(1)
    row = torch.arange(len(wanted), device=device)
    cell = clamped[row, nearest].float()
    found = cell + ((wanted - there[row, nearest])[:, None] * inverse).sum(-1)
    # beyond the border, the nearest cell is a border cell and the point further than half a cell from it
    kept = ((found - cell).abs() <= 1.0).all(1) & (found >= 0).all(1) & (found <= shape - 1).all(1)
    return kji.flip(1).float()[kept], found[kept]


def _pooled(hu: torch.Tensor) -> torch.Tensor:
    return F.avg_pool3d(hu[None, None], LOCAL_STRIDE)[0, 0]


def _positions(crop: Crop, grid_to_ras: np.ndarray) -> torch.Tensor:
    """(k/2, j/2, i/2, 3) RAS mm of the crop's local cells."""
    matrix = torch.from_numpy(grid_to_ras).float().to(crop.hu.device)
    return crop.warp.voxel_ijk(LOCAL_STRIDE) * torch.diagonal(matrix)[:3] + matrix[:3, 3]


def _inverse_affine(positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Inverse slope (3, 3) and level (3,) of the least-squares fit position = slope @ cell (i, j, k) + level.

    From NumPy, in double precision: torch's solver on the CPU does not give the same last digit every time.
    """
    some = [np.arange(0, n, max(n // 6, 1)) for n in positions.shape[:3]]
    k, j, i = np.meshgrid(*some, indexing="ij")
    design = np.stack([i, j, k, np.ones_like(i)], axis=-1).reshape(-1, 4).astype(np.float64)
    solution = np.linalg.lstsq(design, positions.cpu().numpy()[k, j, i].reshape(-1, 3).astype(np.float64), rcond=None)[
        0
    ]
    inverse = torch.from_numpy(np.linalg.inv(solution[:3].T)).float()
    return inverse.to(positions.device), torch.from_numpy(solution[3]).float().to(positions.device)
