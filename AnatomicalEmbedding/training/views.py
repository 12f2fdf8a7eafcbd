"""Batches for descriptors: pairs of views, mostly of one scan each, and points that are the same in both.

Yan 2022, Algorithm 1, lines 1-5. A view is any crop of `crops`, so views may differ by scale, rotation, elastic
deformation and intensity; where a point of one view lies in the other is found from the positions of their cells.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.models.network import LOCAL_STRIDE
from .augmentation import augment
from .crops import Crop, body_coordinates, cell_positions, cut_crop, draw_geometry
from .sampler import KEEP_INSIDE, BatchSampler, move_inside
from .scans import ORIGINS, PreparedScan

_SEARCH = 4  # local cells about the guess in which the partner of a point is sought
_CANDIDATES = 4  # cells tried for each point: some lie outside the other view or the body
_TRIES = 10
_TISSUE_HU = -900.0  # scans hold air outside of the body; lung is tissue
_ROUNDS = 12
_SAME_PLACE_MM = 4.0
_FEWEST = 16  # points of a pair; with fewer points, other views are drawn


@dataclass
class ViewBatch:
    """n pairs of views. image: (2n, 1, k, j, i), all first views, then all second ones.

    body_mm: (2n, 3, k/4, j/4, i/4). inside: (2n, k/4, j/4, i/4). scan: (2n,) index.
    position_mm: (2n, 3, k/2, j/2, i/2) mm of each local cell: RAS of the scan, or of the body where two patients pair.
    labels: uint8 (2n, k/2, j/2, i/2), 1 + index of the recipe's organ, 0 elsewhere. known: bool (2n, organs), whether
    the scan's labels include the organ. first_cells, second_cells: (n, p, 3) the same points as local cells (i, j, k)
    of either view; whole cells of the first view, continuous ones of the second.
    """

    image: torch.Tensor
    body_mm: torch.Tensor
    inside: torch.Tensor
    scan: torch.Tensor
    position_mm: torch.Tensor
    labels: torch.Tensor
    known: torch.Tensor
    first_cells: torch.Tensor
    second_cells: torch.Tensor


class ViewSampler(BatchSampler):
    """Batches for the objectives "descriptors" and "hybrid"."""

    def __getitem__(self, step: int) -> ViewBatch:
        batch = self.recipe.batch
        size = self.crop_size(step)
        views, points = zip(*(self._pair(size, self.rng(step, 1 + n)) for n in range(batch.pairs)), strict=True)
        ordered = [pair[0] for pair in views] + [pair[1] for pair in views]
        stacked = {name: torch.stack([view[name] for view in ordered]) for name in ordered[0]}
        first, second = (torch.stack(cells) for cells in zip(*points, strict=True))
        return ViewBatch(**stacked, first_cells=first, second_cells=second)

    def _pair(
        self, size: tuple[int, int, int], rng: np.random.Generator
    ) -> tuple[list[dict[str, torch.Tensor]], tuple[torch.Tensor, torch.Tensor]]:
        count = self.recipe.batch.points_per_pair
        while True:
            first = self.aim(rng)
            aims = first, self._partner(*first, rng)
            for _ in range(_TRIES):
                crops = self._crops(aims, size, rng)
                one, other = positions = [
                    _positions(self.scans[index], crop, in_body=aims[0][0] != aims[1][0])
                    for (index, _), crop in zip(aims, crops, strict=True)
                ]
                found = matching_cells(crops[0].hu, one, other, count * _CANDIDATES, rng)
                if len(found[0]) >= _FEWEST:
                    chosen = torch.arange(count) % len(found[0])
                    views = [
                        self._view(index, crop, position, rng)
                        for (index, _), crop, position in zip(aims, crops, positions, strict=True)
                    ]
                    return views, (found[0][chosen], found[1][chosen])

    def _partner(self, index: int, voxel: np.ndarray, rng: np.random.Generator) -> tuple[int, np.ndarray]:
        """Aim of the second view: the same place, or for some phantoms its counterpart in another phantom."""
        phantom = self.origin == ORIGINS.index("phantom")
        others = np.flatnonzero(phantom & (np.arange(len(self.scans)) != index))
        if phantom[index] and len(others) and rng.random() < self.recipe.batch.cross_share:
            other = int(rng.choice(others))
            if (place := counterpart(self.scans[index], voxel, self.scans[other])) is not None:
                return other, place
        return index, voxel

    def _crops(
        self,
        aims: tuple[tuple[int, np.ndarray], tuple[int, np.ndarray]],
        size: tuple[int, int, int],
        rng: np.random.Generator,
    ) -> list[Crop]:
        """Two crops about the aims that overlap by a random share of their side, within the recipe's range."""
        crops = []
        low, high = self.recipe.batch.overlap
        side = np.where(rng.random(3) < 0.5, -1, 1)
        shift = side * (1 - rng.uniform(low, high))
        for part, (index, voxel) in zip((-0.5, 0.5), aims, strict=True):
            scan = self.scans[index]
            lattice = draw_geometry(self.recipe.augmentation, size, self.spacing, rng)
            length = lattice.max((1, 2, 3)) * 2 / np.diag(scan.grid_to_ras)[:3]
            centre = voxel + part * shift * length
            if rng.random() < KEEP_INSIDE:
                centre = move_inside(centre, lattice, scan)
            crops.append(cut_crop(scan, centre, lattice, size))
        return crops

    def _view(
        self, index: int, crop: Crop, position: torch.Tensor, rng: np.random.Generator
    ) -> dict[str, torch.Tensor]:
        body_mm, inside = cell_positions(self.scans[index], crop)
        labels, known = self._labels(self.scans[index], crop)
        return {
            "image": augment(crop.hu, self.recipe.augmentation, self.recipe.network, rng)[None],
            "body_mm": body_mm,
            "inside": inside,
            "scan": torch.tensor(index),
            "position_mm": position.movedim(-1, 0).contiguous(),
            "labels": labels,
            "known": known,
        }

    def _labels(self, scan: PreparedScan, crop: Crop) -> tuple[torch.Tensor, torch.Tensor]:
        """Of the voxels nearest to the crop's local cells: organs of the recipe, and which of them the scan labels."""
        organs = self.recipe.network.organs
        known = torch.tensor([name in scan.label_names for name in organs], dtype=torch.bool)
        if scan.labels is None or not known.any():
            return torch.zeros([n // LOCAL_STRIDE for n in crop.hu.shape], dtype=torch.uint8), known & False
        voxel = crop.warp.voxel_ijk(LOCAL_STRIDE).round().long()
        shape = torch.tensor(scan.labels.shape[::-1], device=voxel.device)
        inside = ((voxel >= 0) & (voxel < shape)).all(-1)
        i, j, k = torch.minimum(voxel.clamp(min=0), shape - 1).unbind(-1)
        return scan.numbers_among(organs).to(voxel.device)[scan.labels[k, j, i].long()] * inside, known.to(voxel.device)


def counterpart(scan: PreparedScan, voxel_ijk: np.ndarray, other: PreparedScan) -> np.ndarray | None:
    """The voxel (i, j, k) of another scan with the same body coordinates; None where the other scan does not hold it.

    Body fields are the identity in mm but for smooth displacements, so each round leaves a small part of the error.
    """

    def body_at(of: PreparedScan, voxel: np.ndarray) -> np.ndarray:
        at = torch.from_numpy(voxel.astype(np.float32)).to(of.hu.device)
        return body_coordinates(of, at.view(1, 1, 1, 3)).view(3).double().cpu().numpy()

    wanted, spacing = body_at(scan, voxel_ijk), np.diag(other.grid_to_ras)[:3]
    found = np.array(other.hu.shape[::-1]) / 2
    for _ in range(_ROUNDS):
        found = found + (wanted - body_at(other, found)) / (spacing * other.frame.scale)
        found = np.clip(found, 0, np.array(other.hu.shape[::-1]) - 1)
    i, j, k = found.round().astype(int)
    held = np.linalg.norm(body_at(other, found) - wanted) < _SAME_PLACE_MM and bool(other.body[k, j, i])
    return found if held else None


def matching_cells(
    hu: torch.Tensor, first: torch.Tensor, second: torch.Tensor, candidates: int, rng: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Local cells of two crops with the same position, in tissue: (p, 3) whole and (p, 3) continuous, i, j, k.

    hu: of the first crop (k, j, i). first, second: positions of their local cells (k/2, j/2, i/2, 3) in mm.
    The guess of an affine fit to the second crop's cells is refined by the nearest of the cells around it and the fit's
    slope from there: exact for affine crops, within a few hundredths of a cell for elastic ones.
    """
    device = hu.device
    shape = torch.tensor(second.shape[2::-1], device=device)
    tissue = torch.nonzero(F.avg_pool3d(hu[None, None], LOCAL_STRIDE)[0, 0] > _TISSUE_HU)
    if not len(tissue):
        return torch.zeros(0, 3, device=device), torch.zeros(0, 3, device=device)
    kji = tissue[torch.from_numpy(rng.integers(len(tissue), size=candidates)).to(device)]
    wanted = first[kji.unbind(1)]
    inverse, level = _inverse_affine(second)
    guess = ((wanted - level)[:, None] * inverse).sum(-1).round().long()
    axis = torch.arange(-_SEARCH, _SEARCH + 1, device=device)
    around = guess[:, None] + torch.cartesian_prod(axis, axis, axis)
    clamped = torch.minimum(around.clamp(min=0), shape - 1)
    there = second[clamped[..., 2], clamped[..., 1], clamped[..., 0]]
    nearest = (there - wanted[:, None]).square().sum(-1).argmin(1)
    row = torch.arange(len(wanted), device=device)
    cell = clamped[row, nearest].float()
    found = cell + ((wanted - there[row, nearest])[:, None] * inverse).sum(-1)
    # beyond the border, the nearest cell is a border cell and the point further than half a cell from it
    kept = ((found - cell).abs() <= 1.0).all(1) & (found >= 0).all(1) & (found <= shape - 1).all(1)
    return kji.flip(1).float()[kept], found[kept]


def _positions(scan: PreparedScan, crop: Crop, in_body: bool) -> torch.Tensor:
    """(k/2, j/2, i/2, 3) mm of the crop's local cells: RAS in the scan, or body coordinates."""
    voxel = crop.warp.voxel_ijk(LOCAL_STRIDE)
    if in_body:
        return body_coordinates(scan, voxel)
    matrix = torch.from_numpy(scan.grid_to_ras).float().to(voxel.device)
    return voxel * torch.diagonal(matrix)[:3] + matrix[:3, 3]


def _inverse_affine(positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Inverse slope (3, 3) and level (3,) of the least-squares fit position = slope @ cell (i, j, k) + level.

    From NumPy, in double precision: torch's solver on the CPU is not bitwise reproducible.
    """
    some = [np.arange(0, n, max(n // 6, 1)) for n in positions.shape[:3]]
    k, j, i = np.meshgrid(*some, indexing="ij")
    design = np.stack([i, j, k, np.ones_like(i)], axis=-1).reshape(-1, 4).astype(np.float64)
    read = positions.cpu().numpy()[k, j, i].reshape(-1, 3).astype(np.float64)
    solution = np.linalg.lstsq(design, read, rcond=None)[0]
    inverse = torch.from_numpy(np.linalg.inv(solution[:3].T)).float()
    return inverse.to(positions.device), torch.from_numpy(solution[3]).float().to(positions.device)
